"""What pages are made of: numbers that agree with the run, JSON of bounded size, safe labels."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import fake_run
from onlinegcp.digest import Digest
from onlinegcp.drawing.text import interval_of, say_time
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss, get_loss
from onlinegcp.report import write_report
from onlinegcp.report.fit import judge
from onlinegcp.report.page import render
from onlinegcp.report.payload import _parameters, build
from onlinegcp.report.sentences import said
from onlinegcp.report.summary import anomalies
from onlinegcp.run.settings import model_settings
from onlinegcp.runlog import RunView
from onlinegcp.solvers.sgd.steps import Step
from onlinegcp.streaming import SGD, CPStream, OnlineGCP
from run_views import view


def settings(model):
    """The parameters a page shows for a model."""
    run = view(3)
    run.info["model"] = json.loads(json.dumps(model_settings(model)))
    return strict(build(run))["run"]["parameters"]


def strict(payload):
    return json.loads(json.dumps(payload, allow_nan=False))


@pytest.mark.parametrize("n_steps", [0, 1, 4, 31])
@pytest.mark.parametrize("rank", [1, 7])
def test_runs_of_any_length_give_whole_json(n_steps, rank):
    payload = strict(build(view(n_steps, rank)))
    assert payload["steps"]["count"] == len(payload["steps"]["rows"]) == n_steps
    assert len(payload["model"]["components"]) == rank
    assert payload["steps"]["flagged"] == (n_steps // 2 >= 5)


def test_a_run_without_a_model_yet_is_shown():
    empty = view(3)
    bare = RunView(empty.path, empty.info, empty.steps, (), np.zeros(0), (), ("a", "b"))
    payload = strict(build(bare))
    assert payload["model"]["components"] == []
    assert [mode["name"] for mode in payload["model"]["modes"]] == ["a", "b"]


def test_shares_along_a_mode_are_those_of_the_factor():
    run = view(shape=(20, 24))
    payload = build(run)
    for component in payload["model"]["components"]:
        column = run.factors[0][:, component["id"]]
        told = dict(
            zip(component["modes"][0]["labels"], component["modes"][0]["values"], strict=True)
        )
        for label, share in told.items():
            i = run.labels[0].index(label)
            assert share == pytest.approx(column[i] / column.sum(), rel=1e-3)
        assert component["modes"][0]["rest"] == pytest.approx(1 - sum(told.values()), abs=1e-3)


@pytest.mark.slow
def test_long_runs_are_drawn_by_groups_and_keep_their_odd_slices():
    run = view(13_001, rank=3)
    payload = build(run)
    rows = payload["steps"]["rows"]
    assert payload["steps"]["stride"] == 4
    assert len(rows) <= 6000
    (flagged,) = [row for row in rows if row.get("a", {}).get("flagged")]
    assert flagged["n"] == 13_001 // 2 + 1
    assert flagged["a"]["cells"][0][0] == ["m0-0", "m1-0"]
    third = np.mean([step["weights"] for step in run.steps[8:12]], axis=0)
    np.testing.assert_allclose(rows[2]["w"], third, rtol=1e-3)


@pytest.mark.slow
def test_a_report_as_large_as_chicago_stays_under_six_megabytes():
    run = view(6186, rank=50, shape=(24, 77, 32))
    for step in run.steps:
        if step["anomaly"]:
            step["anomaly"]["cells"] *= 10
    assert len(render(build(run), title="x").encode()) < 6e6


def test_settings_of_the_other_solver_are_not_listed():
    shown = settings(OnlineGCP(3, "poisson", forget=30))
    assert set(shown) == set(OnlineGCP(3).get_params())
    assert (shown["rank"], shown["forget"]) == (3, 30)
    paper = settings(OnlineGCP(3, "poisson", solver="sgd"))
    assert paper == settings(OnlineGCP(3, "poisson", solver=SGD()))
    assert set(paper) == set(OnlineGCP(3).get_params()) | set(SGD().get_params())
    assert (paper["solver"], paper["factor_rate"]) == ("sgd", 1e-3)
    older = {"rank": 3, "solver": "auto", "factor_rate": 1e-3, "step": "adam"}
    assert set(_parameters({"method": "OnlineGCP", "parameters": older})) == {"rank", "solver"}
    stepped = settings(OnlineGCP(3, solver=SGD(step=Step("adam", beta_1=0.5))))
    assert stepped["step"] == "adam (beta_1=0.5, beta_2=0.999, epsilon=1e-08)"
    assert set(settings(CPStream(2))) == set(CPStream(2).get_params())


def test_losses_and_starts_are_written_as_people_write_them():
    start = KTensor([1.0], [np.ones((2, 1)), np.ones((3, 1))])
    shown = settings(OnlineGCP(1, get_loss("huber", delta=0.5), init=start))
    assert shown["loss"] == "huber(delta=0.5)"
    assert shown["init"] == "a K-tensor of the caller's"
    assert settings(OnlineGCP(1, get_loss("poisson")))["loss"] == "poisson"
    own = Loss("mine", value=lambda x, m: (x - m) ** 2, deriv=lambda x, m: 2 * (m - x))
    assert settings(OnlineGCP(1, own))["loss"] == "mine (the caller's own)"


def test_no_label_can_become_markup():
    bad = "</script><script>alert(1)</script><!--{{js}}"
    run = view(labels=((bad,) * 5, ("1",) * 24))
    text = render(build(run), title=bad)
    assert "<script>alert" not in text
    assert text.count("</script>") == 2


def test_the_page_points_nowhere_outside():
    text = render(build(view()), title="x")
    outside = text.replace("http://www.w3.org/2000/svg", "")
    assert "http://" not in outside
    assert "https://" not in outside
    assert "src=" not in outside.replace("img-src", "").replace("-src", "")


def test_missing_numbers_do_not_stop_a_report():
    run = view(weights=None, drift=None, total=None, prequential=None, local=None, norm_squared=0)
    strict(build(run))
    run = view(anomaly={"p": None, "volume_p": None, "flagged": False})
    strict(build(run))


@pytest.mark.parametrize(
    ("loss", "figure"),
    [("gaussian", "75 %"), ("poisson", "2"), ("bernoulli_logit", "50 %"), ("gamma", "")],
)
def test_the_fit_is_told_on_a_scale_people_know(loss, figure):
    run = view(loss=loss)
    cells, n = 5 * 24, 100.0
    rate = n / cells
    # Losses made to be twice, or half, as good as the plainest model.
    value = {
        "gaussian": 400.0 / 4,
        "poisson": n - n * np.log(rate) - n * np.log(2.0),
        "bernoulli_logit": -0.5 * cells * (rate * np.log(rate) + (1 - rate) * np.log(1 - rate)),
        "gamma": 1.0,
    }[loss]
    for step in run.steps[5:]:
        step["prequential"] = float(value)
    fit = judge(run)
    assert fit.figure.rstrip("×") == figure
    assert fit.sentence


def test_a_fit_that_gets_worse_is_called_so():
    run = view(100)
    for t, step in enumerate(run.steps[5:]):
        step["prequential"] = -50.0 + t + (t % 2)
    assert "worse" in judge(run).sentence


def test_the_oddest_slices_are_named():
    run = view()

    def told(steps):
        return anomalies(Digest(dataclasses.replace(run, steps=steps)))

    assert told(run.steps) == (
        "1 of 25 scored slices (4 %) was flagged. "
        "It is: 16 January 2013: 100 where 100 were expected."
    )
    run.steps[15]["anomaly"]["sentence"] = "16 January 2013: all is new."
    assert told(run.steps).endswith("It is: 16 January 2013: all is new.")
    assert told(run.steps[:5]) == "No slice has been scored yet."
    assert "None of 5" in told(run.steps[5:10])


def test_a_report_is_written_whole_where_it_was_asked_for(tmp_path):

    run = fake_run.write_run(tmp_path / "f.run", n_days=20, rank=2, n_iterations=2)
    assert write_report(run) == run / "report.html"
    out = write_report(str(run), tmp_path / "r.html")
    text = out.read_text("utf-8")
    assert text.startswith("<!doctype html>")
    assert "1 January 2013 to 20 January 2013" in text
    # The summary is there without JavaScript, too.
    assert "<b>Data</b>" in text


def test_totals_that_hardly_move_are_not_drawn_as_steps():
    run = view(12)
    for k, step in enumerate(run.steps):
        step["total"] = 36_890.25 + 0.5 * k
    rows = strict(build(run))["steps"]["rows"]
    assert [row["total"] for row in rows] == [step["total"] for step in run.steps]


@pytest.mark.parametrize("every", ["1s", "100ms", "1h", "1d"])
def test_the_time_of_a_slice_is_said_once(every):
    time = "2025-06-01T12:00:00"
    told = f"{say_time(time, interval_of(every))}: 120 events, as usual."
    assert said({"time": time, "anomaly": {"sentence": told}}) == "120 events, as usual."

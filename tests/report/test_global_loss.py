"""The global loss: right numbers, sources read again with care, and only when needed."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import numpy as np
import pytest

from event_run import SETTINGS, create, learn, write_days
from onlinegcp import runlog
from onlinegcp.errors import DataError
from onlinegcp.events import from_events
from onlinegcp.ktensor import KTensor
from onlinegcp.report import make_report, write_report
from onlinegcp.report.fit import mean_losses
from onlinegcp.report.global_loss import CACHE, measure_global
from onlinegcp.run import Run
from onlinegcp.slices import Slice
from onlinegcp.storage.archive import read_archive, write_archive
from onlinegcp.streaming import OnlineGCP


@pytest.fixture
def run(tmp_path):
    """A run over ten days, with new places along the way, in two parts."""
    learn(tmp_path / "r", write_days(tmp_path / "a.csv", 0, 7))
    learn(tmp_path / "r", write_days(tmp_path / "b.csv", 7, 10))
    return tmp_path / "r"


def measured(path, **options):
    return measure_global(runlog.read_run(path), **options)


def files_of(path):
    return {file.name: file.read_bytes() for file in Path(path).iterdir()}


def test_every_slice_is_scored_under_the_final_factors(run, tmp_path):
    view = runlog.read_run(run)
    found = measured(run).losses
    whole = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    with Run.open(run, write=False) as opened:
        model = opened.model
    for loss, x in zip(found, from_events(whole, **SETTINGS), strict=True):
        dense = np.zeros([len(factor) for factor in view.factors])
        dense[: x.shape[0], : x.shape[1]] = x.to_dense()
        m = KTensor(model.transform(x), view.factors).full()
        assert loss == pytest.approx(float(np.sum(m - dense * np.log(m + 1e-10))), rel=1e-8)
        # The weights are the best there are for this slice.
        for r in range(2):
            for factor in (0.97, 1.03):
                moved = model.transform(x) * np.where(np.arange(2) == r, factor, 1.0)
                worse = KTensor(moved, view.factors).full()
                assert loss <= float(np.sum(worse - dense * np.log(worse + 1e-10))) + 1e-6
    # For the newest slice they are the factors it was scored with after learning.
    assert found[-1] == pytest.approx(view.steps[-1]["local"], rel=1e-4)


def test_only_one_small_file_is_added_to_the_run(run):
    before = files_of(run)
    assert measured(run).missing == ""
    after = files_of(run)
    assert set(after) - set(before) == {CACHE}
    assert len(after.pop(CACHE)) < 1000
    assert after == before


def test_a_second_report_reads_nothing_again_until_the_run_goes_on(run, tmp_path):
    told = []
    first = measured(run, progress=lambda done, total: told.append((done, total)))
    assert told == [(n, 10) for n in range(1, 11)]
    (tmp_path / "a.csv").unlink()
    again = measured(run, progress=told.append)
    np.testing.assert_array_equal(again.losses, first.losses)
    assert len(told) == 10
    learn(run, write_days(tmp_path / "c.csv", 10, 12))
    assert measured(run).missing == f"{tmp_path / 'a.csv'} is no longer there"
    write_days(tmp_path / "a.csv", 0, 7)  # it is back, at another time
    third = measured(run)
    assert third.losses.shape == (12,)
    assert not np.array_equal(third.losses[:10], first.losses)


def test_a_copy_of_a_run_keeps_its_curve(run, tmp_path):
    first = measured(run).losses
    run.rename(tmp_path / "elsewhere")
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).unlink()
    np.testing.assert_array_equal(measured(tmp_path / "elsewhere").losses, first)


@pytest.mark.parametrize("damage", ["{", '{"checkpoint": 1}', '{"losses": [1]}', "[]"])
def test_a_damaged_cache_is_measured_again(run, damage):
    first = measured(run).losses
    (run / CACHE).write_text(damage)
    np.testing.assert_array_equal(measured(run).losses, first)
    assert json.loads((run / CACHE).read_text())["losses"] == first.tolist()


def test_where_the_cache_cannot_be_written_the_curve_is_there_all_the_same(run):
    (run / CACHE).mkdir()
    assert np.isfinite(measured(run).losses).all()


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("2018-01-03T08:00,z0\n", "", 1),
        lambda text: text.replace("2018-01-03", "2018-01-02", 1),
        lambda text: text.replace("z2\n", "z9\n"),  # the same counts under another name
        lambda text: text[: len(text) // 2].rpartition("\n")[0] + "\n",
        lambda text: text.replace("when,pu", "when,place"),
    ],
    ids=["a row less", "another day", "another label", "half", "another column"],
)
def test_a_file_that_changed_is_noticed_and_named(run, tmp_path, change):
    file = tmp_path / "a.csv"
    changed = change(file.read_text())
    assert changed != file.read_text()
    file.write_text(changed)
    found = measured(run)
    assert "a.csv" in found.missing
    assert np.isnan(found.losses).all()
    assert not (run / CACHE).exists()


def test_a_file_that_was_only_touched_is_the_same(run, tmp_path):
    os.utime(tmp_path / "a.csv", (1, 1))
    assert measured(run).missing == ""


def test_what_cannot_be_read_again_is_said(tmp_path):
    text = Path(write_days(tmp_path / "a.csv", 0, 6)).read_bytes()
    learn(tmp_path / "live", io.BytesIO(text), close_last=True)
    assert "came through a pipe" in measured(tmp_path / "live").missing
    columns = [line.split(",") for line in text.decode().split()[1:]]
    table = {"when": [row[0] for row in columns], "pu": [row[1] for row in columns]}
    learn(tmp_path / "table", table)
    assert "a table in memory" in measured(tmp_path / "table").missing
    learn(tmp_path / "warm", write_days(tmp_path / "short.csv", 0, 2))
    assert measured(tmp_path / "warm").missing == "the warm start is not over"


def test_a_run_from_slices_can_be_given_them(tmp_path):
    slices = list(from_events(write_days(tmp_path / "a.csv", 0, 6), **SETTINGS))
    with create(tmp_path / "r") as run:
        run.learn(slices)
    assert "slices that Python made" in measured(tmp_path / "r").missing
    with pytest.raises(DataError, match="must be those the run has learned"):
        measured(tmp_path / "r", slices=slices[:-1])
    with pytest.raises(DataError, match="must be those the run has learned"):
        measured(tmp_path / "r", slices=[*slices, slices[-1]])
    with pytest.raises(DataError, match="must be those the run has learned"):
        measured(tmp_path / "r", slices=slices[::-1])
    assert np.isfinite(measured(tmp_path / "r", slices=slices).losses).all()
    assert measured(tmp_path / "r").missing == ""


def test_runs_from_before_there_was_a_list_of_sources_say_so(run):
    arrays, record = read_archive(run / runlog.CHECKPOINT, runlog.CHECKPOINT_KIND)
    del record["n_sources"]
    write_archive(run / runlog.CHECKPOINT, runlog.CHECKPOINT_KIND, arrays, record, of_run=True)
    assert measured(run).missing == "this run does not say where its slices came from"


def test_a_run_that_went_on_while_it_was_measured_is_not_cached(run, tmp_path):
    def go_on(done, total):
        if done == total:
            learn(run, write_days(tmp_path / "c.csv", 10, 11))

    assert measured(run, progress=go_on).losses.shape == (10,)
    assert not (run / CACHE).exists()
    assert measured(run).losses.shape == (11,)


def test_the_report_tells_all_three_losses_on_one_scale(run):
    report = make_report(run)
    found = measure_global(runlog.read_run(run)).losses
    steps = [
        {**step, "global": v} for step, v in zip(runlog.read_run(run).steps, found, strict=True)
    ]
    later = [step for step in steps if step["prequential"] is not None]
    assert len(later) == 6
    for name in ("prequential", "local", "global"):
        mean = np.mean([step[name] / step["total"] for step in later])
        assert report.mean_losses[name] == pytest.approx(mean)
    text = report.write().read_text("utf-8")
    assert f"{report.mean_losses['global']:.4g} global" in text
    payload = json.loads(text.split('id="payload">')[1].split("</script>")[0])
    for row, step in zip(payload["steps"]["rows"], steps, strict=True):
        assert row["global"] == pytest.approx(step["global"] / step["total"], rel=1e-3)
    assert payload["run"]["no_global"] == ""


def test_a_report_can_do_without(run, tmp_path):
    out = write_report(run, tmp_path / "r.html", global_loss=False)
    assert '"global":' not in out.read_text()
    assert not (run / CACHE).exists()
    assert "global" not in mean_losses(make_report(run, global_loss=False).digest)


def test_a_run_in_units_of_its_rows_is_that_of_data_divided_by_them(tmp_path):
    """All three losses and the norm they are divided by, against data divided by hand."""
    rng = np.random.default_rng(0)
    rows, places = np.array([1000.0, 60.0, 12.0]) * (1 + rng.random((2, 3))), rng.random((2, 5))
    days = np.einsum("tr,ri,rj->tij", 1 + rng.random((14, 2)), rows, places)
    days *= 1 + 0.01 * rng.normal(size=days.shape)
    size = np.sqrt(np.square(days[:5]).mean(axis=(0, 2)))
    runs = {"scaled": (days, 0), "divided": (days / size[:, None], None)}
    for name, (held, scale) in runs.items():
        slices = [Slice.dense(day) for day in held]
        model = OnlineGCP(2, "gaussian", init_slices=5, scale=scale)
        with Run.create(tmp_path / name, model, modes=["row", "place"]) as run:
            run.learn(slices)
        found = measured(tmp_path / name, slices=slices)
        lines = runlog.read_run(tmp_path / name).steps
        told = {key: [line[key] for line in lines] for key in ("local", "norm_squared")}
        told["prequential"] = [line["prequential"] for line in lines[5:]]
        runs[name] = {**told, "global": found.losses}
    for key, expected in runs["divided"].items():
        np.testing.assert_allclose(runs["scaled"][key], expected, rtol=1e-5, err_msg=key)

"""The experiments: readers of real data, the common protocol, stored runs, figures, small runs."""

from __future__ import annotations

import datetime
import importlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

pytest.importorskip("experiments", reason="the experiments folder is not on the path")

from experiments import data, page, protocol
from experiments.claims import comparable_loss, comparable_score, undecided
from experiments.figures import STYLES, draw
from experiments.protocol import Problem, Run
from experiments.settings import PAPER
from experiments.store import Store
from experiments.streams import data_folder

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.problems import gaussian_stream, poisson_stream
from onlinegcp.static.cp_als import cp_als
from onlinegcp.streaming import OnlineCP

DATA = data_folder()
ROOT = Path(page.__file__).resolve().parents[1]


def needs(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        not (DATA / name).exists(), reason=f"the data set {DATA / name} is not on this machine"
    )


class Silent:
    def begin(self, method, total): ...
    def advance(self, done, news): ...
    def end(self, news): ...


def small_problem(n_slices=9, warm=4):
    stream = gaussian_stream((6, 5), n_slices, rank=2, noise=0.05, seed=1)
    problem = Problem("test", stream.slices, "gaussian", 2, warm, stream.truth)
    fit = cp_als(stream.slices[:warm], 2, n_starts=2)
    return problem, protocol.unit_columns(fit.ktensor)


# ---- readers


def trips(*rows: tuple[str, int, int]) -> pl.DataFrame:
    times, origins, destinations = zip(*rows, strict=True)
    return pl.DataFrame(
        {
            "tpep_pickup_datetime": [datetime.datetime.fromisoformat(t) for t in times],
            "tpep_dropoff_datetime": [datetime.datetime.fromisoformat(t) for t in times],
            "PULocationID": pl.Series(origins, dtype=pl.Int64),
            "DOLocationID": pl.Series(destinations, dtype=pl.Int64),
        }
    )


def test_trip_files_become_daily_counts_without_strays_and_unknown_zones(tmp_path):
    january = trips(
        ("2018-01-02T00:59:59", 1, 263),
        ("2018-01-02T00:00:00", 1, 263),
        ("2018-01-02T23:00:00", 7, 7),
        ("2009-01-02T23:00:00", 7, 7),  # meters with a wrong clock
        ("2084-01-02T23:00:00", 7, 7),
        ("2018-01-03T05:00:00", 264, 7),  # unknown zones
        ("2018-01-03T05:00:00", 7, 265),
    )
    # The February file holds a trip of a January night, as the real ones do.
    february = trips(("2018-01-02T00:30:00", 1, 263), ("2018-12-31T12:00:00", 2, 1))
    paths = [tmp_path / "yellow_tripdata_2018-01.parquet", tmp_path / "b.parquet"]
    january.write_parquet(paths[0])
    february.write_parquet(paths[1])
    slices = data.taxi_trips(paths)
    assert len(slices) == 365
    assert slices[0].n_listed == 0
    assert slices[0].shape == (263, 263, 24)
    assert slices[1].time == datetime.date(2018, 1, 2)
    assert slices[1].index.tolist() == [[0, 262, 0], [6, 6, 23]]
    assert slices[1].value.tolist() == [3.0, 1.0]
    assert slices[2].n_listed == 0
    assert slices[364].index.tolist() == [[1, 0, 12]]


def test_trip_files_without_the_columns_are_refused(tmp_path):
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "wrong.parquet")
    with pytest.raises(DataError, match=r"PULocationID.*but has a"):
        data.taxi_trips([tmp_path / "wrong.parquet"])


def test_no_trip_files_is_a_reason_to_skip():
    with pytest.raises(data.MissingData, match="yellow_tripdata"):
        data.taxi_trips([])


@needs("nyc_yellow_taxi_sample")
def test_real_trip_sample_gives_the_published_totals(tmp_path):
    sample = pl.read_parquet(DATA / "nyc_yellow_taxi_sample" / "yellow_sample_2018_2020.parquet")
    names = dict(zip(("pickup_time", "pu_zone", "do_zone"), data.TLC_COLUMNS[0], strict=True))
    # As the commission publishes them: one file per month.
    paths = []
    for month in range(1, 13):
        part = sample.filter(
            pl.col("pickup_time").dt.month() == month, pl.col("pickup_time").dt.year() < 2020
        )
        paths.append(tmp_path / f"yellow_tripdata_2018-{month:02}.parquet")
        part.rename(names).write_parquet(paths[-1])
    slices = data.taxi_trips(paths)
    assert sum(x.nnz for x in slices) == 116_641
    assert sum(x.total for x in slices) == 117_640
    day = sample.filter(pl.col("pickup_time").dt.date() == datetime.date(2018, 7, 4))
    assert slices[184].time == datetime.date(2018, 7, 4)
    assert slices[184].total == len(day)
    hours = slices[184].to_dense().sum(axis=(0, 1))
    assert hours[9] == (day["pickup_time"].dt.hour() == 9).sum()


@needs("nyc_taxi_manhattan30")
def test_dense_taxi_tensor_gives_the_published_totals():
    slices = data.manhattan(DATA)
    assert (len(slices), slices[0].shape) == (61, (30, 30, 24))
    assert sum(x.nnz for x in slices) == 974_456
    assert sum(x.total for x in slices) == 10_803_343
    assert int(np.argmin([x.total for x in slices])) == 27  # Memorial Day


@needs("nyc_yellow_taxi_synth")
def test_stand_in_restricted_to_few_zones_is_a_part_of_the_whole():
    whole = next(data.taxi_stand_in(DATA, 1))
    part = next(data.taxi_stand_in(DATA, 1, zones=20))
    assert whole.shape == (263, 263, 24)
    assert part.shape == (20, 20, 24)
    dense = whole.to_dense()
    busy = dense.sum(axis=(1, 2)).argmax()
    # The busiest zone of the day is among the kept ones and keeps its rides to itself.
    assert dense[busy, busy].sum() in np.einsum("iih->i", part.to_dense())


@pytest.mark.slow
@needs("chicago_crime")
def test_chicago_stream_is_the_papers():
    slices = data.chicago(DATA)
    assert len(slices) == 5687
    assert slices[0].shape == (24, 77, 32)
    assert sum(x.nnz for x in slices) == 5_267_529
    assert {float(v) for x in slices[:50] for v in x.value} == {1.0}
    counts = data.chicago(DATA, 30, binary=False)
    assert len(counts) == 30
    np.testing.assert_array_equal(counts[7].index, slices[7].index)
    assert counts[7].total > slices[7].total


@pytest.mark.parametrize("name", ["chicago", "taxi"])
def test_absent_data_are_reported_and_skipped(name, tmp_path, capsys):
    module = importlib.import_module(f"experiments.{name}")
    assert module.main(["--data", str(tmp_path / "nowhere"), "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "SKIPPED" in said
    assert "nowhere" in said


# ---- settings


def test_settings_are_table_2():
    alpha_w = {name: s.weight_rate for name, s in PAPER.items()}
    assert alpha_w == {"gaussian": 10.0, "poisson": 1.0, "taxi": 10.0, "chicago": 0.1}
    assert [s.rank for s in PAPER.values()] == [20, 20, 50, 50]
    assert [s.history_size for s in PAPER.values()] == [50, 50, 30, 500]
    assert [s.init_slices for s in PAPER.values()] == [10, 10, 20, 20]
    assert all(s.weight_iterations == s.factor_iterations == 100 for s in PAPER.values())
    assert all(s.history_decay == 1 for s in PAPER.values())


# ---- protocol


def test_unit_columns_keep_the_model():
    rng = np.random.default_rng(0)
    model = KTensor([2.0, 0.0, 3.0], [rng.random((n, 3)) for n in (4, 1, 5)])
    moved = protocol.unit_columns(model)
    np.testing.assert_allclose(moved.full(), model.full())
    for a in moved.factors[:-1]:
        np.testing.assert_allclose(np.linalg.norm(a, axis=0), 1.0)


def test_global_loss_uses_final_factors_and_the_weights_of_the_time(tmp_path):
    problem, start = small_problem()
    model = OnlineCP(2, init=start)
    rows = list(start.factors[-1])
    twin = OnlineCP(2, init=start)
    for x in problem.slices[problem.warm :]:
        twin.partial_fit(x)
        rows.append(twin.weights_)
    run = protocol.run_streaming(problem, "OnlineCP", model, start, Store(tmp_path, ""), Silent())
    expected = [
        np.sum((x.array - (twin.factors_[0] * s) @ twin.factors_[1].T) ** 2) / np.sum(x.array**2)
        for x, s in zip(problem.slices, rows, strict=True)
    ]
    np.testing.assert_allclose(run.overall, expected)
    assert np.isnan(run.local[: problem.warm]).all()
    # At the last slice the final factors are those of the time.
    assert run.local[-1] == pytest.approx(run.overall[-1])
    assert run.details["final_score"] > 0.95


def test_static_method_has_one_loss_and_the_score_of_the_truth():
    problem, _ = small_problem()
    run = protocol.run_static(
        problem, "CP-ALS", lambda report: cp_als(problem.slices, 2, n_starts=2), Silent()
    )
    np.testing.assert_array_equal(run.local, run.overall)
    assert run.details["final_score"] > 0.95


def test_frozen_warm_start_gets_the_best_weights():
    problem, start = small_problem()
    run = protocol.run_frozen(problem, start, Silent())
    x = problem.slices[-1].array
    basis = np.einsum("ir,jr->ijr", *start.factors[:-1]).reshape(x.size, -1)
    residual = np.linalg.lstsq(basis, x.ravel(), rcond=None)[1][0]
    assert run.local[-1] == pytest.approx(residual / np.sum(x**2), rel=1e-5)


def test_least_loss_is_not_beaten_by_any_model():
    stream = poisson_stream((6, 5), 4, rank=2, n_events=300, seed=0)
    problem = Problem("test", stream.slices, "poisson", 2, 1)
    assert problem.least.shape == (4,)
    x = stream.slices[0]
    array = x.to_dense()
    for scale in (0.5, 0.99, 1.01, 2.0):
        m = array * scale
        with np.errstate(divide="ignore", invalid="ignore"):
            loss = np.sum(m - np.where(array > 0, array * np.log(m), 0.0)) / np.sum(array**2)
        assert problem.least[0] < loss + 1e-9


class StopError(Exception):
    pass


def test_interrupted_run_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(protocol, "SECONDS_BETWEEN_SAVES", -1.0)
    problem, start = small_problem()
    whole = protocol.run_streaming(
        problem, "m", OnlineCP(2, init=start), start, Store(tmp_path / "a", "i"), Silent()
    )

    class Interrupt(Silent):
        def advance(self, done, news):
            if done == 4:
                raise StopError

    store = Store(tmp_path / "b", "i")
    with pytest.raises(StopError):
        protocol.run_streaming(problem, "m", OnlineCP(2, init=start), start, store, Interrupt())
    assert len(list(store.folder.glob("*.ogcp"))) == 1
    counted = []

    class Count(Silent):
        def advance(self, done, news):
            counted.append(done)

    again = protocol.run_streaming(
        problem, "m", OnlineCP(2, init=start), start, Store(tmp_path / "b", "i"), Count()
    )
    assert counted == [4, 5]
    np.testing.assert_array_equal(again.local, whole.local)
    np.testing.assert_array_equal(again.overall, whole.overall)
    # Other data or settings never continue it.
    assert Store(tmp_path / "b", "other").resume("m", OnlineCP.load) is None


def test_finished_run_is_kept_until_settings_change(tmp_path):
    store = Store(tmp_path, "data")
    store.describe("m", {"rate": 1})
    store.finish("m", {"local": np.array([1.0, np.nan])}, {"n": 3})
    again = Store(tmp_path, "data")
    again.describe("m", {"rate": 1})
    arrays, details = again.finished("m")
    np.testing.assert_array_equal(arrays["local"], [1.0, np.nan])
    assert details == {"n": 3}
    assert (tmp_path / "m.csv").read_text(encoding="utf-8").splitlines()[:2] == [
        "slice,local",
        "0,1",
    ]
    again.describe("m", {"rate": 2})
    assert again.finished("m") is None
    assert Store(tmp_path, "data", fresh=True).finished("m") is None


# ---- claims, figures, page


def made_up(method, kind, level, count=30, score=0.9):
    rng = np.random.default_rng(0)
    loss = level * (1 + 0.1 * rng.random(count))
    return Run(method, kind, loss, loss, loss, np.full(count, score), loss, {"final_score": score})


def test_comparable_means_within_the_tolerance():
    problem, _ = small_problem(n_slices=30)
    static = made_up("CP-ALS", "static", 1.0)
    assert comparable_loss(problem, made_up("a", "streaming", 1.04), static, "overall").holds
    assert comparable_loss(problem, made_up("a", "streaming", 0.5), static, "local").holds
    broken = comparable_loss(problem, made_up("a", "streaming", 1.06), static, "local")
    assert not broken.holds
    assert "+6.0%" in broken.evidence
    assert comparable_score(static, static).holds
    assert not comparable_score(made_up("a", "streaming", 1, score=0.8), static).holds


def test_tolerance_counts_from_the_least_loss():
    stream = poisson_stream((6, 5), 30, rank=2, n_events=3000, seed=0)
    problem = Problem("test", stream.slices, "poisson", 2, 4)
    static, ours = made_up("s", "static", 1.0), made_up("o", "streaming", 1.0)
    excess = static.local - problem.least
    ours.local = problem.least + 1.2 * excess
    claim = comparable_loss(problem, ours, static, "local")
    assert not claim.holds
    assert "+20.0%" in claim.evidence


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
def test_figure_has_room_for_one_more_curve(known, tmp_path):
    problem, _ = small_problem(n_slices=30)
    problem = problem if known else replace(problem, truth=None, note="made up")
    runs = {
        "OnlineGCP": made_up("OnlineGCP", "streaming", 1.1),
        "auto": made_up("auto", "streaming", 1.05),
        "CP-ALS": made_up("CP-ALS", "static", 1.0),
    }
    draw(problem, runs, "A title", tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_no_two_streaming_methods_share_a_colour():
    solid = [style["color"] for style in STYLES.values() if style["linestyle"] == "-"]
    assert len(set(solid)) == len(solid)


def test_page_says_what_does_not_hold(tmp_path):
    summary = {
        "experiment": "gaussian",
        "title": "Synthetic Gaussian, 3 x 3",
        "seed": 0,
        "date": "2025-01-01",
        "machine": "none",
        "data": {
            "note": "made up",
            "nonzeros": 9,
            "density": 1.0,
            "warm_start_slices": 1,
            "least_loss": 0.0,
        },
        "claims": [
            vars(undecided("who knows", "CP-APR")),
            {"text": "up is down", "holds": False, "evidence": "1 against 2", "by_paper": True},
            {"text": "up is up", "holds": True, "evidence": "1 against 1", "by_paper": False},
        ],
        "methods": {
            "CP-ALS": {
                "kind": "static",
                "local": 0.1,
                "total_cpu_seconds": 3.0,
                "message": "Done.",
            },
            "OnlineGCP": {"kind": "streaming", "local": 0.2, "cpu_seconds_per_slice": 0.5},
        },
    }
    (tmp_path / "gaussian-paper.json").write_text(json.dumps(summary))
    page.write_page(tmp_path, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "up is down | **does not hold** | 1 against 2" in text
    assert "up is up | holds |" in text
    assert "who knows | *not finished* | no result of CP-APR" in text
    assert "**made up.**" in text
    assert text.count("(#experiment-gaussian)") == 3
    assert "(experiment-gaussian)=" in text


def test_published_page_is_that_of_the_stored_results(tmp_path):
    page.write_page(ROOT / "experiments" / "results", tmp_path / "page.md")
    published = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    assert published == (tmp_path / "page.md").read_text(encoding="utf-8")


# ---- the experiments themselves, small


def run_small(name, tmp_path, capsys, *more):
    module = importlib.import_module(f"experiments.{name}")
    status = module.main(["--scale", "small", "--out", str(tmp_path), *more])
    said = capsys.readouterr().out
    assert status == 0, said
    assert "holds: OnlineGCP: global loss comparable" in said
    assert "SKIPPED" not in said
    assert list(tmp_path.glob("*/*.png"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian", "poisson"])
def test_small_synthetic_experiment_bears_the_paper_out(name, tmp_path, capsys):
    run_small(name, tmp_path, capsys)


class Scrambling(OnlineCP):
    def _learn(self, state, x, number, seed):
        new, record = super()._learn(state, x, number, seed)
        noise = np.random.default_rng(number)
        factors = tuple(a * noise.uniform(0.5, 1.5, a.shape) for a in new.factors)
        return replace(new, factors=factors), record


@pytest.mark.slow
@pytest.mark.parametrize(("method", "status"), [(OnlineCP, 0), (Scrambling, 1)])
def test_small_experiment_fails_where_any_method_of_the_paper_does(
    method, status, tmp_path, monkeypatch
):
    monkeypatch.setattr("experiments.gaussian.OnlineCP", method)
    from experiments import gaussian

    words = ["--out", str(tmp_path), "--slices", "20", "--only", "OnlineCP", "CP-ALS"]
    assert gaussian.main(words) == status


@pytest.mark.slow
@needs("nyc_yellow_taxi_synth")
def test_small_taxi_experiment_bears_the_paper_out(tmp_path, capsys):
    run_small("taxi", tmp_path, capsys)


@pytest.mark.slow
@needs("chicago_crime")
def test_small_chicago_experiment_bears_the_paper_out(tmp_path, capsys):
    run_small("chicago", tmp_path, capsys)

"""Anomaly scores: alarm rates, explanations, the tracker, and every kind of slice."""

from __future__ import annotations

import copy
import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from drawn_world import World
from onlinegcp.anomaly import AnomalyTracker, drift, score_slice
from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import LOSS_NAMES, Loss, get_loss
from onlinegcp.slices import Slice
from onlinegcp.streaming import CPStream, OnlineGCP

KEYS = [
    "p", "z", "volume_p", "volume_z", "expected_total", "flagged", "kind", "cells", "modes",
    "components",
]  # fmt: skip


def changed(x, cell, value):
    dense = x.to_dense()
    dense[cell] = value
    return Slice.dense(dense)


def warmed(world, count=40, **options):
    tracker = AnomalyTracker(**options)
    for _ in range(count):
        tracker.update(score_slice(world.model, world.draw(), history=tracker))
    return tracker


# ---- alarm rates


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "total"), [("poisson", 20.0), ("poisson", 500.0), ("bernoulli_odds", 12.0),
                        ("gaussian", 0.0)]
)  # fmt: skip
def test_one_in_a_hundred_slices_from_the_model_is_flagged(name, total):
    world, tracker = World(name, total=total, seed=3), AnomalyTracker()
    flags, alone = 0, 0
    count = 1000
    for _ in range(count):
        anomaly = score_slice(world.model, world.draw(), history=tracker, top=1)
        tracker.update(anomaly)
        flags += anomaly.flagged
        alone += anomaly.p < 0.01
    assert 0.005 <= flags / count <= 0.02
    assert 0.004 <= alone / count <= 0.02


@pytest.mark.slow
@pytest.mark.parametrize("name", ["poisson", "bernoulli_odds"])
def test_the_likelihood_alone_keeps_its_level(name):
    world = World(name, total=15.0, seed=4)
    found = np.array([score_slice(world.model, world.draw(), top=0).p for _ in range(1000)])
    assert 0.005 <= np.mean(found < 0.01) <= 0.02
    assert 0.035 <= np.mean(found < 0.05) <= 0.065


@pytest.mark.slow
def test_overdispersed_data_alarm_the_likelihood_but_not_the_tracker():
    world = World("poisson", shape=(9, 8), total=300.0)
    rng, tracker, flags, alone = world.rng, AnomalyTracker(), 0, 0
    for _ in range(300):
        m = KTensor(world.weights, world.factors).full()
        x = Slice.dense(rng.poisson(m * rng.gamma(1.5, 1 / 1.5, m.shape)))
        alone += score_slice(world.model, x, top=0).flagged
        anomaly = score_slice(world.model, x, top=0, history=tracker)
        tracker.update(anomaly)
        flags += anomaly.flagged
    assert alone > 270
    assert flags <= 9


# ---- what is flagged, and why


def test_twice_the_total_is_an_anomaly_of_volume_alone():
    world = World("poisson", total=300.0)
    anomaly = score_slice(world.model, world.draw(times=2.0), history=warmed(world))
    assert anomaly.flagged
    assert anomaly.kind == "volume"
    assert anomaly.volume_z > 3.0
    assert anomaly.p > 0.01
    assert anomaly.expected_total == pytest.approx(300.0, rel=0.2)


def test_too_few_events_have_a_negative_z():
    world = World("poisson", total=300.0)
    anomaly = score_slice(world.model, world.draw(times=0.1), history=warmed(world))
    assert anomaly.kind == "volume"
    assert anomaly.volume_z < -2.8


def test_a_burst_in_one_cell_is_an_anomaly_of_pattern_and_is_named_first():
    world = World("poisson", total=300.0)
    tracker, x = warmed(world), world.draw()
    labels = [[f"row {i}" for i in range(7)], list("abcde")]
    expected = KTensor(world.weights, world.factors).full()
    cell = tuple(int(i) for i in np.unravel_index(np.argmin(expected), expected.shape))
    anomaly = score_slice(world.model, changed(x, cell, 30.0), labels, history=tracker)
    assert anomaly.flagged
    assert anomaly.kind == "pattern"
    first = anomaly.cells[0]
    assert first["index"] == list(cell)
    assert first["labels"] == [f"row {cell[0]}", "abcde"[cell[1]]]
    assert first["observed"] == 30.0
    # The two-sided p-value of the count itself, by another package.
    assert first["p"] == pytest.approx(2.0 * stats.poisson.sf(29, first["expected"]), rel=1e-6)
    assert first["share"] > 0.3
    assert anomaly.modes[0][0]["label"] == f"row {cell[0]}"
    assert anomaly.modes[1][0]["label"] == "abcde"[cell[1]]


def test_a_hole_where_much_is_expected_is_named():
    world = World("poisson", total=2000.0)
    expected = KTensor(world.weights, world.factors).full()
    cell = tuple(int(i) for i in np.unravel_index(np.argmax(expected), expected.shape))
    dense = world.draw().to_dense()
    dense[cell] = 0.0
    index = np.argwhere(dense)
    x = Slice(index, dense[tuple(index.T)], dense.shape)  # the hole is not even listed
    anomaly = score_slice(world.model, x, history=warmed(world))
    assert anomaly.kind == "pattern"
    assert anomaly.cells[0]["index"] == list(cell)
    assert anomaly.cells[0]["observed"] == 0.0


def test_a_weight_that_jumps_shows_in_its_component():
    world = World("poisson", rank=3, total=600.0, spread=0.01)
    tracker = warmed(world)
    world.weights = world.weights * np.array([1.0, 4.0, 1.0])
    changes = score_slice(world.model, world.draw(), history=tracker).components
    assert int(np.argmax(np.abs(changes))) == 1
    assert changes[1] > 4.0


def test_a_weekly_rhythm_of_totals_is_no_anomaly_and_its_absence_is():
    world = World("poisson", total=400.0, spread=0.001)
    tracker = AnomalyTracker(7)
    for day in range(70):
        tracker.update_volume(world.draw(times=0.3 if day % 7 == 6 else 1.0))
    for day in range(28):
        x = world.draw(times=0.3 if day % 7 == 6 else 1.0)
        anomaly = score_slice(world.model, x, history=tracker)
        assert anomaly.expected_total == pytest.approx(120.0 if day % 7 == 6 else 400.0, rel=0.15)
        tracker.update(anomaly)
    assert abs(score_slice(world.model, world.draw(), history=tracker).volume_z) < 3.0
    assert score_slice(world.model, world.draw(times=0.3), history=tracker).kind == "volume"


def test_a_lower_level_flags_less():
    world = World("poisson", total=300.0)
    tracker, x = warmed(world), world.draw(times=1.8)
    flags = [
        score_slice(world.model, x, history=tracker, level=level).flagged
        for level in (1e-12, 1e-6, 0.1, 0.5)
    ]
    assert flags == sorted(flags)
    assert flags[-1]


def test_nothing_is_flagged_while_the_history_is_young():
    world, tracker = World("poisson", total=300.0), AnomalyTracker()
    for _ in range(9):
        anomaly = score_slice(world.model, world.draw(times=world.rng.uniform(0.1, 9.0)),
                              history=tracker)  # fmt: skip
        assert not anomaly.flagged
        assert (anomaly.p, anomaly.z) == (1.0, 0.0)
        tracker.update(anomaly)


# ---- purity, records, resuming


def test_scoring_changes_neither_model_nor_history():
    world = World("poisson")
    tracker = warmed(world, 15)
    before = pickle.dumps(world.model.get_state()), copy.deepcopy(tracker.to_dict())
    x = world.draw()
    first = score_slice(world.model, x, history=tracker)
    assert score_slice(world.model, x, history=tracker).to_json() == first.to_json()
    assert (pickle.dumps(world.model.get_state()), tracker.to_dict()) == before


def test_the_record_has_the_agreed_keys_and_is_plain_json():
    world = World("poisson")
    record = score_slice(world.model, world.draw(), top=3, history=warmed(world, 15)).to_json()
    assert list(record) == KEYS
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert len(record["cells"]) == 3
    assert list(record["cells"][0]) == ["index", "labels", "observed", "expected", "p", "share"]
    assert len(record["modes"]) == 2
    assert len(record["components"]) == 2


@pytest.mark.parametrize("period", [1, 3])
def test_a_tracker_resumes_exactly_from_its_record(period):
    world = World("poisson")
    slices = [world.draw() for _ in range(30)]
    slices[4] = Slice(np.empty((0, 2), int), [], (7, 5), unlisted="missing")
    tracker, records = AnomalyTracker(period), []
    for number, x in enumerate(slices):
        if number == 17:
            resumed = AnomalyTracker.from_dict(json.loads(json.dumps(tracker.to_dict())))
        anomaly = score_slice(world.model, x, history=tracker)
        tracker.update(anomaly)
        records.append(anomaly.to_json())
    for number, x in enumerate(slices[17:], start=17):
        anomaly = score_slice(world.model, x, history=resumed)
        resumed.update(anomaly)
        assert anomaly.to_json() == records[number]
    assert resumed.to_dict() == tracker.to_dict()


def test_a_tracker_stays_small():
    world = World("poisson")
    anomaly, tracker = score_slice(world.model, world.draw()), AnomalyTracker(24)
    for _ in range(1500):
        tracker.update(anomaly)
    assert all(len(v) <= 365 for v in tracker.to_dict().values() if isinstance(v, list))


# ---- every kind of slice and loss


@pytest.mark.parametrize("name", LOSS_NAMES)
def test_every_loss_gets_a_record(name):
    loss = get_loss(name)
    drawn = name if name not in ("huber", "beta") else "gaussian" if name == "huber" else "poisson"
    rng, shape = np.random.default_rng(0), (5, 1, 4)
    factors = [rng.random((n, 2)) + 0.2 for n in shape]
    truth = KTensor([1.0, 2.0], factors)
    model, tracker = OnlineGCP(2, loss, init=truth), AnomalyTracker()
    slices = [Slice.dense(get_loss(drawn).sample(rng, truth.full())) for _ in range(15)]
    model.partial_fit(slices[0])
    for x in slices[1:]:
        anomaly = score_slice(model, x, history=tracker)
        tracker.update(anomaly)
    record = json.loads(json.dumps(anomaly.to_json(), allow_nan=False))
    assert 0.0 < record["p"] <= 1.0
    has_p_value = name not in ("huber", "beta")
    assert all((cell["p"] is not None) == has_p_value for cell in record["cells"])
    odd = changed(slices[3], (4, 0, 3), 1.0 if loss.domain == "binary" else 4000.0)
    if loss.domain != "binary":
        found = score_slice(model, odd, history=tracker)
        assert found.z > anomaly.z
        # Rayleigh's square loss bends the weights until the odd cell fits.
        assert name == "rayleigh" or found.cells[0]["index"] == [4, 0, 3]


def test_a_loss_of_ones_own_without_a_least_value_is_judged_by_the_past():
    own = Loss("shifted", value=lambda x, m: (x - m) ** 2 - 5.0, deriv=lambda x, m: 2.0 * (m - x))
    rng = np.random.default_rng(0)
    model, tracker = OnlineGCP(1, own, init=KTensor([1.0], [np.ones((6, 1))] * 2)), AnomalyTracker()
    model.partial_fit(Slice.dense(rng.normal(size=(6, 6))))
    for _ in range(20):
        tracker.update(score_slice(model, Slice.dense(rng.normal(size=(6, 6))), history=tracker))
    ordinary = score_slice(model, Slice.dense(rng.normal(size=(6, 6))), history=tracker)
    odd = score_slice(model, Slice.dense(9.0 * rng.normal(size=(6, 6))), history=tracker)
    assert not ordinary.flagged
    assert odd.kind == "pattern"
    assert odd.cells[0]["p"] is None


def test_noisier_gaussian_data_are_an_anomaly_of_pattern():
    world = World("gaussian", shape=(9, 8))
    tracker = warmed(world)
    x = world.draw().to_dense()
    louder = Slice.dense(x + 2.0 * world.rng.normal(size=x.shape))
    assert score_slice(world.model, louder, history=tracker).kind == "pattern"


@pytest.mark.parametrize("name", ["poisson", "bernoulli_odds", "gaussian"])
@pytest.mark.parametrize("shape", [(7, 5), (1,), (1, 1, 1), (13,)])
def test_empty_zero_and_tiny_slices_are_no_anomaly_of_pattern(name, shape):
    world = World(name, shape=shape, rank=1, total=5.0)
    tracker = warmed(world, 12)
    none = np.empty((0, len(shape)), int)
    for x in (Slice(none, [], shape), Slice(none, [], shape, unlisted="missing"),
              Slice([[0] * len(shape)], [1.0], shape, unlisted="missing")):  # fmt: skip
        anomaly = score_slice(world.model, x, history=tracker)
        tracker.update(anomaly)
        json.dumps(anomaly.to_json(), allow_nan=False)
        assert anomaly.kind != "pattern"
    nothing = score_slice(world.model, Slice(none, [], shape, unlisted="missing"), history=tracker)
    assert (nothing.p, nothing.volume_p, nothing.flagged) == (1.0, 1.0, False)


def test_missing_cells_do_not_change_the_expected_volume_per_cell():
    world = World("poisson", total=800.0)
    tracker = warmed(world)
    dense = np.full((7, 5), 20.0)
    full = score_slice(world.model, Slice.dense(dense), history=tracker)
    dense[:, 1::2] = np.nan
    half = score_slice(world.model, Slice.dense(dense), history=tracker)
    share = np.isfinite(dense).mean()
    assert half.expected_total == pytest.approx(share * full.expected_total)
    assert half.volume_z == pytest.approx(full.volume_z, abs=0.1)


def test_rows_the_model_does_not_have_count_for_the_volume_only():
    world = World("poisson", total=100.0)
    tracker, x = warmed(world), world.draw()
    index = np.vstack([x.index, [[9, 2]]])
    grown = Slice(index, np.append(x.value, 500.0), (10, 5))
    before, after = (score_slice(world.model, part, history=tracker) for part in (x, grown))
    assert after.p == before.p
    assert after.kind == "volume"
    fewer = Slice(x.index[x.index[:, 0] < 4], x.value[x.index[:, 0] < 4], (4, 5))
    assert np.isfinite(score_slice(world.model, fewer, history=tracker).z)


def test_other_streaming_methods_are_scored_too():
    rng = np.random.default_rng(0)
    model = CPStream(2, init_slices=4)
    for _ in range(6):
        model.partial_fit(Slice.dense(rng.normal(size=(5, 4))))
    assert score_slice(model, Slice.dense(rng.normal(size=(5, 4)))).p == 1.0


@pytest.mark.parametrize("name", ["poisson", "bernoulli_odds", "gaussian"])
def test_a_slice_of_ten_million_million_cells_is_never_made_dense(name):
    rng = np.random.default_rng(0)
    shape, count = (25_000, 20_000, 20_000), 2000
    factors = [rng.dirichlet(np.full(n, 0.01), 2).T for n in shape]
    index = np.stack(
        [
            np.concatenate([rng.choice(n, count // 2, p=a[:, r]) for r in range(2)])
            for n, a in zip(shape, factors, strict=True)
        ],
        axis=1,
    )
    x = Slice(index, np.ones(count), shape)
    x = Slice(x.index, np.ones(x.n_listed), shape)
    model = OnlineGCP(2, name, init=KTensor([count / 2] * 2, factors))
    model.partial_fit(x)
    odd = Slice(np.vstack([x.index, [[3, 3, 3]]]), np.append(np.ones(x.n_listed), 1.0), shape)
    anomaly = score_slice(model, odd)
    assert len(anomaly.cells) == 10
    json.dumps(anomaly.to_json(), allow_nan=False)
    if name != "gaussian":
        assert anomaly.cells[0]["index"] == [3, 3, 3]


# ---- drift


def test_drift_is_blind_to_scale_and_sign_and_sees_turns():
    rng = np.random.default_rng(0)
    old = [rng.normal(size=(n, 3)) for n in (5, 1, 4)]
    new = [a.copy() for a in old]
    new[0] *= -3.0
    new[2][:, 1] = np.linalg.svd(old[2][:, 1:2])[0][:, 1]  # orthogonal to the old column
    np.testing.assert_allclose(drift(old, new), [0.0, 1.0, 0.0], atol=1e-12)
    angle = 0.3
    turned = [np.array([[math.cos(angle)], [math.sin(angle)]])] * 2
    straight = [np.array([[1.0], [0.0]])] * 2
    expected = 1.0 - KTensor(None, straight).score(KTensor(None, turned)).score
    np.testing.assert_allclose(drift(straight, turned), [expected])


def test_drift_takes_new_rows_and_columns_of_zeros():
    old, grown = np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [1.0, 0.0]])
    np.testing.assert_allclose(drift([old], [grown]), [1.0 - math.sqrt(0.5), 0.0])
    np.testing.assert_allclose(drift([old], [np.array([[0.0, 1.0]])]), [1.0, 1.0])


# ---- refusals and the demonstration


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, float("nan")])
def test_a_level_that_is_no_share_is_refused(level):
    with pytest.raises(DataError, match="between 0 and 1"):
        score_slice(OnlineGCP(1), Slice.dense([[1.0]]), level=level)


@pytest.mark.parametrize("period", [0, 1.5, True, "week"])
def test_a_period_that_is_no_number_of_slices_is_refused(period):
    with pytest.raises(DataError, match="whole number of slices"):
        AnomalyTracker(period)


def test_the_page_is_the_one_its_numbers_give(tmp_path):
    pages = pytest.importorskip("experiments.anomalies_page", reason="no experiments folder")
    root = Path(pages.__file__).resolve().parents[1]
    pages.write_page(root / "experiments" / "results" / "anomalies.json", tmp_path / "page.md")
    stored = (root / "docs" / "anomalies.md").read_text(encoding="utf-8")
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == stored

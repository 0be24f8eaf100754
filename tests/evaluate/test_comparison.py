"""Methods on one stream: same start, one loss, reasons where a method cannot take it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from onlinegcp.errors import DataError
from onlinegcp.evaluate import compare
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import get_loss
from onlinegcp.problems import bernoulli_stream, gaussian_stream, poisson_stream
from onlinegcp.slices import Slice
from onlinegcp.streaming import ACP, METHODS, OLSTEC, RLST, CPStream, OnlineCP, OnlineGCP

STREAM = gaussian_stream((9, 7), 24, rank=2, seed=1)


def test_losses_are_those_of_a_run_by_hand():
    table = compare(STREAM, {"ours": OnlineCP(2, forget=0.9)}, rank=2, warm_start=8)
    (found,) = table.contenders
    model = OnlineCP(2, forget=0.9, init_slices=8, init_starts=3)
    model.partial_fit(STREAM.slices[:8])
    lost, local = [], []
    for x in STREAM.slices[8:]:
        m = KTensor(model.transform(x), model.factors_).full()
        lost.append(np.sum((x.array - m) ** 2))
        model.partial_fit(x)
        m = KTensor(model.transform(x), model.factors_).full()
        local.append(np.sum((x.array - m) ** 2))
    final = [
        np.sum((x.array - model.inverse_transform(model.transform(x))) ** 2) for x in STREAM.slices
    ]
    assert found.prequential == pytest.approx(np.mean(lost) / 63, rel=1e-6)
    assert found.local == pytest.approx(np.mean(local) / 63, rel=1e-6)
    assert found.overall == pytest.approx(np.mean(final) / 63, rel=1e-6)
    np.testing.assert_allclose(found.curve, np.array(lost) / 63, rtol=1e-6)
    truth = STREAM.truth_at(23)
    assert found.score == pytest.approx(KTensor(None, model.factors_).score(
        KTensor(None, truth.factors), weight_penalty=False
    ).score, abs=1e-6)  # fmt: skip
    assert found.milliseconds > 0
    assert found.megabytes >= model.state_bytes_ / 1e6


def test_gaussian_and_poisson_methods_stand_in_one_table():
    stream = poisson_stream((9, 7), 30, rank=2, seed=3)
    table = compare(stream, ["online_gcp", "olstec", "online_cp"], rank=2)
    assert table.loss == "poisson"
    assert {c.name for c in table.contenders if c.refusal is None} == {
        "online_gcp", "olstec", "online_cp",
    }  # fmt: skip
    values = [c.prequential for c in table.contenders]
    assert values == sorted(values)
    assert all(np.isfinite(values))
    # In its own loss, ours is scored by its own account of itself.
    model = OnlineGCP(2, "poisson", init_slices=10).partial_fit(stream.slices)
    ours = next(c for c in table.contenders if c.name == "online_gcp")
    total = sum(model.loss_of(x) for x in stream.slices)
    assert ours.overall == pytest.approx(total / (30 * 63), rel=0.05)


def test_odds_and_expectations_stand_in_one_table():
    stream = bernoulli_stream((9, 7), 30, rank=2, seed=3)
    table = compare(stream, ["online_gcp", "online_cp"], rank=2)
    assert table.loss == "bernoulli_odds"
    entropy = get_loss("bernoulli_odds")
    for c in table.contenders:
        assert c.refusal is None
        share = np.mean([x.nnz / x.size for x in stream.slices])
        constant = share * entropy.value(1.0, share / (1 - share)) + (1 - share) * entropy.value(
            0.0, share / (1 - share)
        )
        assert c.overall < 1.2 * float(constant)


def test_methods_that_cannot_take_the_stream_are_listed_with_the_reason():
    rng = np.random.default_rng(0)
    holes = [np.where(rng.random((9, 7)) < 0.8, x.array, np.nan) for x in STREAM.slices]
    table = compare([Slice.dense(x) for x in holes], ["rlst", "acp"], rank=2)
    assert [c.name for c in table.contenders] == ["acp", "rlst"]
    acp, rlst = table.contenders
    assert acp.refusal is None
    assert "RLST needs complete slices" in rlst.refusal
    assert "ACP" in rlst.refusal
    assert rlst.prequential is None
    limited = compare(STREAM, {"small": RLST(2, state_limit=500)}, rank=2)
    assert "state_limit" in limited.contenders[0].refusal


def test_a_method_that_takes_too_long_is_broken_off():
    table = compare(STREAM, ["online_cp", "acp"], rank=2, seconds=1e-9)
    assert all("broken off after 1 of 14 slices" in c.refusal for c in table.contenders)


def test_models_of_another_rank_or_bound_take_part():
    table = compare(
        gaussian_stream((9, 7), 24, rank=2, seed=1),
        {"three": ACP(3), "nonnegative": CPStream(2, nonnegative=True), "plain": OLSTEC(2)},
        rank=2,
    )
    assert all(c.refusal is None for c in table.contenders)


def test_a_comparison_can_be_told_stored_and_drawn():
    told = []
    table = compare(
        STREAM,
        ["online_cp", "acp"],
        rank=2,
        tell=lambda name, done, of: told.append((name, done, of)),
    )
    assert told[0] == ("online_cp", 1, 14)
    assert told[-1] == ("acp", 14, 14)
    back = json.loads(json.dumps(table.to_dict()))
    assert back["warm_start"] == 10
    assert back["contenders"][0]["global"] == table.contenders[0].overall
    figure = table.plot()
    assert [trace.name for trace in figure.data] == [c.name for c in table.contenders]
    assert figure.data[0].x[0] == 11


def test_modes_may_grow_and_every_method_faces_the_same_shape():
    """As `onlinegcp compare` does it: a label that is not there yet is a row of zeros."""
    rng = np.random.default_rng(4)
    counts = rng.poisson(4.0, (24, 6, 5)) + 1.0
    grown = [Slice.dense(x[: 4 + t // 8]) for t, x in enumerate(counts)]
    grown = [Slice(x.index, x.value, x.shape) for x in grown]
    final = [np.pad(x.to_dense(), ((0, 6 - x.shape[0]), (0, 0))) for x in grown]
    ours, theirs = (
        compare(stream, ["online_gcp", "online_cp"], rank=2, warm_start=6)
        for stream in (grown, final)
    )
    for one, other in zip(ours.contenders, theirs.contenders, strict=True):
        assert one.refusal is None
        assert one.name == other.name
        assert one.prequential == pytest.approx(other.prequential, rel=1e-6)


def test_labels_say_where_rows_of_frames_belong():
    frames = [pd.DataFrame(x.array, index=list("abcdefghi")) for x in STREAM.slices]
    turned = [frame.iloc[::-1] if t % 2 else frame for t, frame in enumerate(frames)]
    plain, mixed = (compare(x, ["online_cp"], rank=2) for x in (frames, turned))
    assert mixed.contenders[0].curve == plain.contenders[0].curve


def test_bad_questions_are_refused():
    with pytest.raises(DataError, match="more slices than the warm start takes, 24"):
        compare(STREAM, ["acp"], warm_start=24)
    with pytest.raises(DataError, match="Did you mean 'online_cp'"):
        compare(STREAM, ["onlin_cp"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::onlinegcp.DivergenceWarning")
def test_all_methods_take_part_by_default():
    table = compare(STREAM, rank=2)
    assert {c.name for c in table.contenders} == set(METHODS)
    assert all(c.refusal is None for c in table.contenders)

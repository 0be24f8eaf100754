"""The protocol that all methods share: learning, using, refusing, and leaving no trace."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from every_method import every_method
from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import components
from onlinegcp.solvers.auto.fisher_sums import FisherSums
from onlinegcp.solvers.auto.odds_sums import OddsSums
from onlinegcp.solvers.auto.slice_products import SliceProducts
from onlinegcp.streaming import (
    POST,
    SGD,
    OnlineGCP,
    using,
)
from onlinegcp.testing import planted_stream

# Those that learn batches are held to what they declare by the conformance suite.
MODELS = {
    name: model
    for name, model in every_method(init_slices=5, init_starts=1).items()
    if model.gathers is None or getattr(model, model.gathers) == 1
} | {
    "online_gcp, sgd": OnlineGCP(
        2, solver=SGD(weight_epochs=2, factor_epochs=1), init_slices=5, init_starts=1
    ),
}
STREAM = planted_stream(get_loss("gaussian"), shape=(6, 5), n_slices=12)


@pytest.fixture(params=MODELS)
def fresh(request):
    return clone(MODELS[request.param])


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    """Shared, so that tests that use it may not change it."""
    return clone(MODELS[request.param]).fit(STREAM.slices)


def same(first, second):
    return all(np.array_equal(a, b) for a, b in zip(first.factors_, second.factors_, strict=True))


# ---- learning


def test_an_unfitted_model_says_so(fresh):
    for use in (fresh.transform, fresh.score, fresh.score_samples, fresh.inverse_transform):
        with pytest.raises(NotFittedError):
            use(STREAM.slices[0])
    for name in ("factors_", "weights_"):
        with pytest.raises((NotFittedError, AttributeError)):
            getattr(fresh, name)
    with pytest.raises(NotFittedError):
        fresh.to_ktensor()


def test_records_begin_after_the_warm_start(fresh):
    for x in STREAM.slices[:5]:
        assert fresh.partial_fit(x).last_ is None
    fresh.partial_fit(STREAM.slices[5], time="noon")
    record = fresh.last_
    assert (record.number, record.time, record.n_observed) == (6, "noon", 30)
    assert record.norm_squared == STREAM.slices[5].norm_squared
    assert record.exact
    assert sum(record.seconds.values()) > 0


def test_record_tells_the_loss_before_and_after(fresh):
    loss, x = get_loss("gaussian"), STREAM.slices[9]
    fresh.partial_fit(STREAM.slices[:9])
    weights = fresh.transform(x)
    before = loss.value(x.array, KTensor(weights, fresh.factors_).full()).sum()
    fresh.partial_fit(x)
    assert fresh.last_.prequential == pytest.approx(before, rel=1e-3)
    after = loss.value(x.array, fresh.to_ktensor().full()).sum()
    assert fresh.last_.local == pytest.approx(after, rel=1e-9)


def test_a_model_is_usable_during_the_warm_start(fresh):
    fresh.partial_fit(STREAM.slices[:2])
    assert [a.shape for a in fresh.factors_] == [(6, 2), (5, 2)]
    early = fresh.transform(STREAM.slices[0])
    assert early.shape == (2,)
    through = clone(fresh).partial_fit(STREAM.slices)
    fresh.partial_fit(STREAM.slices[2:])
    assert same(fresh, through)


def test_fit_reads_generators_slice_by_slice_and_starts_anew(fresh):
    seen = []

    def source():
        for x in STREAM.slices:
            seen.append(getattr(fresh, "n_slices_", None))
            yield x.to_dense()

    fresh.partial_fit(STREAM.slices[3])
    fresh.fit(source())
    assert seen == list(range(12))
    assert same(fresh, clone(fresh).fit(STREAM.slices))
    with pytest.raises(DataError, match="at least one slice"):
        fresh.fit(iter([]))


def test_a_given_start_needs_no_warm_up(fresh):
    init = KTensor(None, [*STREAM.factors[0], STREAM.rows[:4]])
    fresh.set_params(init=init).partial_fit(STREAM.slices[4])
    assert fresh.n_slices_ == 5
    assert fresh.last_.number == 5


def test_a_model_of_the_first_slices_is_a_start(fresh):
    early = clone(fresh).partial_fit(STREAM.slices[:5])
    past = early.transform(STREAM.slices[:5])
    init = KTensor(None, [*early.factors_, past])
    assert fresh.start_from(init, STREAM.slices[:5]) is fresh
    assert (fresh.n_slices_, fresh.n_waiting_, fresh.last_) == (5, 0, None)
    if not isinstance(fresh, POST):  # whose start is a belief that the slices then move
        for a, b in zip(fresh.factors_, early.factors_, strict=True):
            np.testing.assert_allclose(a, b)
    fresh.partial_fit(STREAM.slices[5])
    assert fresh.last_.number == 6
    before = fresh.get_state()["state"]
    with pytest.raises(DataError, match="one row of weights per slice"):
        fresh.start_from(init, STREAM.slices[:4])
    np.testing.assert_array_equal(fresh.get_state()["state"].factors[0], before.factors[0])
    assert fresh.n_slices_ == 6


def test_memory_and_waiting_slices_are_told(fresh):
    fresh.partial_fit(STREAM.slices[:3])
    assert (fresh.n_waiting_, fresh.state_bytes_) == (3, 3 * 30 * 8)
    fresh.partial_fit(STREAM.slices[3:])
    assert fresh.n_waiting_ == 0
    assert fresh.state_bytes_ >= sum(a.nbytes for a in fresh.factors_)


@pytest.mark.filterwarnings("ignore::onlinegcp.errors.RankWarning")  # which is right
def test_one_way_and_many_way_slices_and_modes_of_length_one(fresh):
    rng = np.random.default_rng(0)
    for shape in ((7,), (1,), (3, 1, 4), (2, 2, 2, 3)):
        model = clone(fresh).fit([Slice.dense(rng.random(shape)) for _ in range(8)])
        assert [len(a) for a in model.factors_] == list(shape)
        assert np.all(np.isfinite(model.weights_))


# ---- using


def test_inverse_transform_multiplies_out(fitted):
    rows = fitted.transform(STREAM.slices[:3])
    assert rows.shape == (3, 2)
    dense = fitted.inverse_transform(rows)
    for row, array in zip(rows, dense, strict=True):
        np.testing.assert_allclose(array, KTensor(row, fitted.factors_).full())
        np.testing.assert_allclose(fitted.inverse_transform(row), array)
    with pytest.raises(DataError, match="weights of 2 components"):
        fitted.inverse_transform(np.ones(3))


def test_predict_gives_single_cells(fitted):
    index = np.array([[0, 0], [5, 4]])
    full = fitted.inverse_transform(fitted.weights_)
    np.testing.assert_allclose(fitted.predict(index), [full[0, 0], full[5, 4]])
    weights = fitted.transform(STREAM.slices[0])
    other = fitted.inverse_transform(weights)
    np.testing.assert_allclose(fitted.predict([[5, 4]], weights), other[5, 4])
    with pytest.raises(DataError, match="whole numbers"):
        fitted.predict(np.ones((2, 2)))
    with pytest.raises(DataError, match="6"):
        fitted.predict([[6, 0]])


def test_predictions_are_means_not_model_values():
    x = [np.minimum(np.abs(s.array), 1.0).round() for s in STREAM.slices]
    found = OnlineGCP(2, "bernoulli_odds", init_slices=5).fit([Slice.dense(a) for a in x])
    odds = found.to_ktensor().full()
    np.testing.assert_allclose(found.inverse_transform(found.weights_), odds / (1 + odds))


def test_scores_are_minus_the_loss_per_observed_cell(fitted):
    x = STREAM.slices[4]
    array = x.to_dense()
    gap = array - fitted.inverse_transform(fitted.transform(x))
    assert fitted.score_samples(x) == pytest.approx(-np.mean(gap**2), rel=1e-6)
    each = fitted.score_samples(STREAM.slices[:4])
    assert fitted.score(STREAM.slices[:4]) == pytest.approx(each.mean())


def test_what_is_handed_out_is_a_copy(fitted):
    fitted.factors_[0][:] = 0.0
    fitted.weights_[:] = 0.0
    assert np.abs(fitted.factors_[0]).max() > 0
    assert np.abs(fitted.weights_).max() > 0


def test_huge_reconstructions_are_refused(fitted, monkeypatch):
    monkeypatch.setattr(using, "DENSE_CELLS", 59)
    assert fitted.inverse_transform(np.ones(2)).shape == (6, 5)
    with pytest.raises(DataError, match=r"Use predict\(index\)"):
        fitted.inverse_transform(np.ones((2, 2)))


# ---- missing cells, empty slices


@pytest.mark.parametrize("name", ["online_gcp", "online_gcp, sgd", "online_sgd"])
def test_missing_cells_do_not_count(name):
    """Whatever a missing cell would have been, the weights come from the others."""
    found = clone(MODELS[name]).fit(STREAM.slices)
    row = np.array([3.0, 2.0])
    array = KTensor(row, found.factors_).full()
    holes = array.copy()
    holes[:2] = np.nan
    listed = np.argwhere(~np.isnan(holes))
    as_list = Slice(listed, holes[tuple(listed.T)], holes.shape, unlisted="missing")
    for x in (Slice.dense(holes), as_list):
        np.testing.assert_allclose(found.transform(x), row, rtol=0.02)
        again = clone(MODELS[name]).fit([*STREAM.slices[:8], x, *STREAM.slices[8:]])
        assert np.all(np.isfinite(again.factors_[0]))
        assert again.n_slices_ == 13


@pytest.mark.parametrize("name", ["online_gcp", "online_gcp, sgd", "online_sgd"])
def test_a_slice_with_nothing_observed_teaches_nothing(name):
    found = clone(MODELS[name]).fit(STREAM.slices)
    found.partial_fit(Slice.dense(np.full((6, 5), np.nan)))
    assert found.n_slices_ == 13
    assert np.all(np.isfinite(found.factors_[0]))
    assert found.score(STREAM.slices) > 2 * clone(MODELS[name]).fit(STREAM.slices).score(
        STREAM.slices
    )


def test_empty_slices_are_zeros(fitted):
    empty = Slice(np.empty((0, 2), dtype=int), [], (6, 5))
    np.testing.assert_allclose(fitted.transform(empty), 0.0, atol=0.05)
    np.testing.assert_allclose(fitted.transform(Slice.dense(np.zeros((6, 5)))), 0.0, atol=0.05)


# ---- refusing


def test_errors_name_the_slice_and_what_to_do(fresh):
    fresh.fit(STREAM.slices)
    before = clone(fresh).fit(STREAM.slices)
    cases = [
        ([STREAM.slices[0], np.ones((6, 4))], r"slice 1 of those.*\(6, 4\).*same number of rows"),
        (Slice.dense(np.ones((6, 4))), r"the slice has shape \(6, 4\)"),
        (Slice.dense(np.ones(6)), r"shape \(6,\)"),
        ("text", "A slice is made from"),
    ]
    for bad, words in cases:
        with pytest.raises(DataError, match=words):
            fresh.partial_fit(bad)
        with pytest.raises(DataError):
            fresh.transform(bad)
    assert same(fresh, before)


def test_data_outside_the_domain_are_named_with_their_place():
    found = OnlineGCP(2, "poisson", init_slices=3).fit(
        [Slice.dense(np.abs(x.array).round()) for x in STREAM.slices]
    )
    bad = np.ones((6, 5))
    bad[2, 3] = -1.0
    with pytest.raises(DataError, match=r"\(2, 3\) is -1\.0"):
        found.partial_fit(Slice.dense(bad))
    with pytest.raises(DataError, match=r"\(2, 3\) is -1\.0"):
        found.partial_fit(Slice([[0, 0], [2, 3]], [1.0, -1.0], (6, 5)))
    gamma = OnlineGCP(2, "gamma", init_slices=3)
    with pytest.raises(DataError, match="29 unlisted cells mean zero"):
        gamma.partial_fit(Slice([[0, 0]], [1.0], (6, 5)))
    gamma.partial_fit(Slice([[0, 0]], [1.0], (6, 5), unlisted="missing"))
    assert gamma.n_slices_ == 1


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_step_leaves_no_trace(name, error, monkeypatch):
    """Learning three slices is interrupted in the third; none of them has been learned."""
    fresh = clone(MODELS[name]).fit(STREAM.slices[:8])
    walk, calls = type(fresh)._walk, []

    def interrupted(self, state, slices, number, seed):
        calls.append(number)
        if len(calls) == 3:
            raise error
        return walk(self, state, slices[:1], number, seed)

    with monkeypatch.context() as patch:
        patch.setattr(type(fresh), "_walk", interrupted)
        with pytest.raises(error):
            fresh.partial_fit(STREAM.slices[8:])
    assert calls == [9, 10, 11]
    assert fresh.n_slices_ == 8
    assert same(fresh.partial_fit(STREAM.slices[8:]), clone(MODELS[name]).fit(STREAM.slices))


@pytest.mark.parametrize("loss", ["gaussian", "huber", "poisson", "bernoulli_odds"])
def test_wherever_the_default_solver_is_interrupted_nothing_has_happened(loss, monkeypatch):
    """Ctrl-C at every pass over the cells of a step, and between the model's step and its trial."""
    data = [Slice.dense(np.minimum(np.abs(x.array).round(), 1.0)) for x in STREAM.slices]
    fresh = OnlineGCP(2, loss, init_slices=3, init_starts=1).fit(data[:8])
    saved = fresh.get_state()
    before = saved["state"].live.to_dict()
    after = clone(fresh).fit(data[:9])
    places = [
        *((FisherSums, name) for name in ("value", "slopes", "row_sums", "dispersion")),
        *((OddsSums, name) for name in ("loss", "slopes", "responsibilities", "rates")),
        (SliceProducts, "__call__"),
        (components, "supervise"),
    ]
    raised = 0
    for owner, name in places:
        whole = getattr(owner, name)
        for stop in (1, 2, 4):
            calls = []

            def interrupted(*arguments, whole=whole, stop=stop, calls=calls, **options):
                calls.append(0)
                done = whole(*arguments, **options)
                if len(calls) == stop:
                    raise KeyboardInterrupt
                return done

            with monkeypatch.context() as patch:
                patch.setattr(owner, name, interrupted)
                try:
                    assert same(fresh.partial_fit(data[8]), after)
                    fresh.set_state(saved)  # this loss makes fewer such calls
                except KeyboardInterrupt:
                    raised += 1
            for key, value in fresh.get_state()["state"].live.to_dict().items():
                np.testing.assert_array_equal(value, before[key], key)
            assert fresh.n_slices_ == 8
    assert raised >= 3
    assert same(fresh.partial_fit(data[8]), after)


@pytest.mark.parametrize("loss", ["gaussian", "poisson", "bernoulli_odds"])
@pytest.mark.parametrize("at", [2, 8, 17], ids=["warm-up", "streaming", "in a challenge"])
def test_refitted_after_an_interrupt_pickled_or_resumed_it_gives_the_same_numbers(
    loss, at, tmp_path
):
    """Wherever it was left: while slices are gathered, later, and while a challenger is made."""
    rng = np.random.default_rng(0)
    regimes = [[rng.gamma(0.3, 1.0, (n, 2)) + 0.01 for n in (9, 7)] for _ in range(2)]
    means = [(30.0 * a * rng.uniform(0.5, 1.5, 2)) @ b.T for a, b in regimes for _ in range(14)]
    slices = [Slice.dense(rng.poisson(m).astype(float)) for m in means]
    if loss == "bernoulli_odds":
        slices = [Slice.dense((x.array > 0).astype(float)) for x in slices]
    fresh = OnlineGCP(2, loss, init_slices=5, init_starts=2, random_state=7)
    straight = clone(fresh).fit(slices)

    def broken():
        yield from slices[:at]
        raise KeyboardInterrupt

    stopped = clone(fresh)
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(broken())
    assert stopped.n_slices_ == at
    stopped.transform(slices[0])  # asking, which makes a provisional model, changes nothing
    stopped.save(tmp_path / "model")
    resumed = [
        pickle.loads(pickle.dumps(stopped)),
        OnlineGCP.load(tmp_path / "model"),
        clone(fresh).set_state(stopped.get_state()),
    ]
    for found in resumed:
        assert same(found.partial_fit(slices[at:]), straight)
    assert same(stopped.fit(slices), straight)  # and the one that was stopped, from the start


def test_a_refused_slice_does_not_tear_the_default_solver():
    fresh = clone(MODELS["online_gcp"]).fit(STREAM.slices[:8])
    with pytest.raises(DataError):
        fresh.partial_fit([STREAM.slices[8], "text"])
    assert same(fresh.partial_fit(STREAM.slices[8:]), clone(fresh).fit(STREAM.slices))


def test_parameters_are_checked_before_anything_is_learned(fresh):
    for options in ({"rank": 0}, {"init_slices": 0}, {"init_starts": 0}, {"random_state": "x"}):
        bad = clone(fresh).set_params(**options)
        with pytest.raises(DataError, match=next(iter(options))):
            bad.partial_fit(STREAM.slices[0])
        assert not hasattr(bad, "n_slices_")


def test_a_seed_of_none_is_drawn_once_and_kept(fresh):
    one = clone(fresh).set_params(random_state=None).fit(STREAM.slices)
    two = clone(fresh).set_params(random_state=None).fit(STREAM.slices)
    assert one.get_state()["seed"] != two.get_state()["seed"]
    again = clone(fresh).set_params(random_state=one.get_state()["seed"]).fit(STREAM.slices)
    assert same(one, again)


def test_state_can_be_taken_back(fresh):
    fresh.fit(STREAM.slices[:8])
    saved = fresh.get_state()
    fresh.partial_fit(STREAM.slices[8:])
    once = fresh.factors_
    fresh.set_state(saved).partial_fit(STREAM.slices[8:])
    np.testing.assert_array_equal(fresh.factors_[0], once[0])

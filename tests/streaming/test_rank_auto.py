"""rank="auto": found in the first slices, grown and shrunk on trial, saved and resumed exactly."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from onlinegcp.errors import DataError
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import rank_trials
from onlinegcp.solvers.auto import solver as auto
from onlinegcp.solvers.auto.model import Step
from onlinegcp.solvers.auto.rank_state import URGENT, Direction, RankTrials
from onlinegcp.streaming import OnlineCP, OnlineGCP, auto_solver, rank_growth
from onlinegcp.streaming.rank_growth import larger, smaller, studied
from onlinegcp.streaming.rank_study import most_told_apart
from onlinegcp.streaming.warm_start import static_start
from onlinegcp.testing import LEARNING_CHECKS, PROTOCOL_CHECKS
from planted_ranks import planted


def learn(slices, **options):
    model = OnlineGCP("auto", **options)
    ranks = []
    for x in slices:
        model.partial_fit(x)
        ranks.append(model.rank_ if model.started_ else 0)
    return model, ranks


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian", "poisson"])
@pytest.mark.parametrize("rank", [3, 8])
def test_planted_ranks_are_found_along_the_stream(name, rank):
    found = [learn(planted(name, rank, 60, seed), loss=name)[1][-1] for seed in range(2)]
    assert all(abs(one - rank) <= 1 for one in found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian", "poisson"])
def test_a_component_born_in_mid_stream_is_found_within_15_slices(name):
    late = 0
    for seed in range(3):
        _, ranks = learn(planted(name, 4, 60, seed, born=40), loss=name)
        assert abs(ranks[39] - 4) <= 1
        late += not max(ranks[40:56]) > ranks[39]
    assert late == 0


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["poisson"])
@pytest.mark.parametrize(
    "check", [*PROTOCOL_CHECKS, *LEARNING_CHECKS], ids=lambda check: check.__name__
)
def test_the_protocol_is_kept(check, loss):
    check(OnlineGCP("auto", loss, init_slices=5, max_rank=6))


@pytest.fixture(scope="module")
def growing():
    """A stream whose rank is found too small at first, and the step at which it changes."""
    slices = planted("poisson", 3, 60, 0, born=30)
    _, ranks = learn(slices, loss="poisson")
    changes = [n for n in range(11, len(ranks)) if ranks[n] != ranks[n - 1]]
    assert changes
    return slices, changes[0]


def test_records_tell_which_component_went_where(growing):
    slices, change = growing
    model = OnlineGCP("auto", "poisson")
    for x in slices[:change]:
        model.partial_fit(x)
    before = model.factors_
    assert model.last_.order is None
    model.partial_fit(slices[change])
    record = model.last_
    assert record.rank == model.rank_ == len(record.order) == len(model.weights_)
    kept = [(now, was) for now, was in enumerate(record.order) if was >= 0]
    assert record.births == model.rank_ - len(kept)
    assert record.deaths == before[0].shape[1] - len(kept)
    for now, was in kept:
        cosines = [
            a[:, was] @ b[:, now] / np.linalg.norm(a[:, was]) / np.linalg.norm(b[:, now])
            for a, b in zip(before, model.factors_, strict=True)
        ]
        assert np.prod(cosines) > 0.7
    assert model.forecast(3).weights.shape == (3, model.rank_)


@pytest.mark.parametrize("at", [25, 33, 39])
def test_a_saved_model_goes_on_bit_for_bit(growing, at, tmp_path):
    slices, _ = growing
    whole = OnlineGCP("auto", "poisson")
    for x in slices[:at]:
        whole.partial_fit(x)
    whole.save(tmp_path / "m.npz")
    again = OnlineGCP.load(tmp_path / "m.npz")
    for x in slices[at : at + 12]:
        whole.partial_fit(x)
        again.partial_fit(x)
    assert whole.rank_ == again.rank_
    for a, b in zip(whole.factors_, again.factors_, strict=True):
        np.testing.assert_array_equal(a, b)


def test_two_threads_give_the_same(growing):
    slices, change = growing
    one, two = (OnlineGCP("auto", "poisson", n_jobs=n) for n in (1, 2))
    for x in slices[: change + 3]:
        one.partial_fit(x)
        two.partial_fit(x)
    np.testing.assert_array_equal(one.factors_[0], two.factors_[0])


def test_the_largest_rank_is_kept():
    _, ranks = learn(planted("poisson", 6, 40, 0), loss="poisson", max_rank=3)
    assert max(ranks) <= 3


def test_only_the_default_solver_finds_its_rank():
    with pytest.raises(DataError, match="belongs to solver='auto'"):
        OnlineGCP("auto", solver="sgd").partial_fit([np.ones((3, 3))])
    with pytest.raises(DataError, match="rank must be a whole number"):
        OnlineCP("auto").partial_fit([np.ones((3, 3))])
    with pytest.raises(DataError, match="max_rank"):
        OnlineGCP("auto", max_rank=0).partial_fit([np.ones((3, 3))])
    with pytest.raises(DataError, match="rank must be a whole number"):
        OnlineGCP("many").partial_fit([np.ones((3, 3))])


def test_scikit_learn_can_search_among_ranks_and_auto():
    rng = np.random.default_rng(0)
    table = rng.gamma(1.0, 1.0, (30, 2)) @ rng.gamma(1.0, 1.0, (2, 6))
    model = clone(OnlineGCP("auto", init_slices=5))
    assert model.get_params()["rank"] == "auto"
    search = GridSearchCV(model, {"rank": ["auto", 1]}, cv=2).fit(table)
    assert search.best_params_["rank"] in ("auto", 1)
    fitted = clone(model).fit(table)
    assert len(fitted.get_feature_names_out()) == fitted.rank_
    assert fitted.changes_rank
    assert not OnlineGCP(3).changes_rank


def test_more_components_must_win_and_fewer_need_not_lose():
    def verdicts(gains, order):
        trials = RankTrials(9, order=np.array(order))
        larger = trials.larger_than(2)
        return [rank_trials._verdict(trials, gain, larger=larger) for gain in gains]

    noise = [1.0, -1.0] * 30
    # Nothing gained: the larger is dropped, the smaller may stay.
    assert verdicts(noise[:12], [0, -1])[-1] <= 0
    assert 1 in verdicts([0.2 + g for g in noise[:12]], [0])
    # So may one that is smaller and new, but not one that is new and no smaller.
    assert 1 in verdicts([0.2 + g for g in noise[:12]], [-1])
    assert 1 not in verdicts([0.2 + g for g in noise[:12]], [-1, -1])
    assert 1 in verdicts([5.0 + g for g in noise[:6]], [0, -1])
    assert -1 in verdicts([-5.0 + g for g in noise[:6]], [0, -1])
    # One that seems better may take its time, but not for ever.
    doubtful = verdicts([0.1 + g for g in noise], [0, -1])
    assert 0 in doubtful[12:]
    assert -1 in doubtful


@pytest.mark.parametrize(("spare", "next_count"), [(-1, 6), (0, 1), (2, 2)])
def test_after_a_look_only_what_it_doubts_is_taken_away_again(spare, next_count):
    trials = RankTrials(9)
    model = SimpleNamespace(n_slices=40, factors=SimpleNamespace(rank=2))
    done = Step(np.zeros(2), 0.0, 0.0, 0, np.zeros(2))
    twin = SimpleNamespace(n_slices=40, factors=SimpleNamespace(rank=9))
    trials.begin(twin, [0, 1] + [-1] * 7, spare)
    stored = RankTrials.from_dict(trials.to_dict(), twin)
    for _ in range(rank_trials.EARLIEST):
        found, _ = rank_trials.supervise(stored, model, done, done, 5.0)
    assert found is twin
    assert stored.shrinking.count == next_count
    assert stored.spare == -1
    # What ten slices show is no news after many more.
    assert (stored.growing.next > stored.shrinking.next) == (spare >= 0)


def test_failures_make_pauses_longer_and_successes_make_it_bold():
    kind = Direction()
    waits = []
    for _ in range(4):
        kind.retreat(0)
        waits.append(kind.next)
    assert waits == [15, 30, 60, 120]
    kind.succeed(7)
    assert (kind.next, kind.failures, kind.count) == (7, 0, 2)
    kind.retreat(9)
    assert (kind.next, kind.count) == (9, 1)


@pytest.mark.parametrize("anew", [False, True])
def test_a_larger_rival_predicts_what_was_missing(anew):
    loss = get_loss("poisson")
    slices = planted("poisson", 3, 30, 1)
    start = static_start(slices[:10], 2, loss, lower=0.0, starts=3, seed=0)
    state = auto.start(start.factors, start.rows, slices[:10], loss, reseed=False)
    for x in slices[10:20]:
        state, _ = auto.step(state, x, loss)
    model, order = larger(slices[10:20], state, 1, loss, anew=anew, lower=0.0, seed=0)
    assert model.factors.rank == len(order) == 3
    assert model.n_slices == state.model.n_slices
    gains = [
        auto.held_out(state.model, x, loss, 0, k) - auto.held_out(model, x, loss, 0, k)
        for k, x in enumerate(slices[20:])
    ]
    assert np.mean(gains) > 0.0
    less, kept = smaller(slices[10:20], state, 1, loss, seed=0)
    assert less.factors.rank == len(kept) == 1


def test_a_study_of_more_slices_finds_what_fewer_hide():
    """Yes or no, five components: a model of two finds the others at once, and predicts better."""
    loss = get_loss("bernoulli_odds")
    *slices, after = planted("bernoulli", 5, 41, 1)
    start = static_start(slices[:10], 2, loss, lower=0.0, starts=3, seed=0)
    state = auto.start(start.factors, start.rows, slices[:10], loss, most=50)
    for x in slices[10:]:
        state, _ = auto.step(state, x, loss)
    model, order, _ = studied(slices, state, loss, lower=0.0, seed=0)
    assert 4 <= model.factors.rank == len(order)
    assert model.n_slices == state.model.n_slices
    lost = [
        np.mean([auto.held_out(m, after, loss, 0, k) for k in range(4)])
        for m in (state.model, model)
    ]
    assert lost[1] < lost[0]
    # Where there is nothing to add, nothing is put on trial.
    whole = static_start(slices, 5, loss, lower=0.0, starts=3, seed=0)
    state = auto.start(whole.factors, whole.rows, slices, loss, most=50)
    assert studied(slices, state, loss, lower=0.0, seed=0) is None
    state.ranks.most = 5
    assert studied(slices, state, loss, lower=0.0, seed=0) is None


def test_patterns_that_few_slices_mixed_up_are_told_apart_by_many():
    """As many components as there are, but two of them the same: the study brings the third."""
    loss, slices = get_loss("poisson"), planted("poisson", 3, 40, 3)
    start = static_start(slices[:10], 2, loss, lower=0.0, starts=3, seed=0)
    factors = [a[:, [0, 1, 1]] for a in start.factors]
    rows = start.rows[:, [0, 1, 1]] * [1.0, 0.5, 0.5]
    state = auto.start(factors, rows, slices[:10], loss, most=50)
    for x in slices[10:]:
        state, _ = auto.step(state, x, loss)
    model, order, _ = studied(slices, state, loss, lower=0.0, seed=0)
    assert model.factors.rank == 3
    assert -1 in order


def test_a_study_takes_back_components_that_nothing_needs():
    loss, slices = get_loss("poisson"), planted("poisson", 3, 40, 0)
    start = static_start(slices[:10], 5, loss, lower=0.0, starts=3, seed=0)
    state = auto.start(start.factors, start.rows, slices[:10], loss, most=50)
    model, order, _ = studied(slices, state, loss, lower=0.0, seed=0)
    assert model.factors.rank == len(order) == 3


def test_the_study_is_repeated_from_twice_as_many_slices_each_time(monkeypatch):
    asked = []
    monkeypatch.setattr(auto_solver, "studied", lambda slices, *a, **k: asked.append(len(slices)))
    model, held = OnlineGCP("auto", "poisson", init_slices=3), []
    for x in planted("poisson", 2, 200, 0, shape=(6, 5)):
        model.partial_fit(x)
        held.append(len(model._state.live.recent) if model.started_ else 0)
    # After 12, 24, 48, 96 and 192 slices, never from more than 16 times a warm start.
    assert asked == [12, 24, 48, 48, 48]
    assert max(held) == 48
    assert min(held[96:140]) <= 3  # let go in between


def test_long_slices_are_kept_for_a_warm_start_only(monkeypatch):
    monkeypatch.setattr(rank_growth, "MOST_LISTED", 600)
    monkeypatch.setattr(auto_solver, "studied", lambda *a, **k: pytest.fail("nothing new to see"))
    model = OnlineGCP("auto", "gaussian", init_slices=4)
    for x in planted("gaussian", 2, 20, 0):
        model.partial_fit(x)
        assert not model.started_ or len(model._state.live.recent) <= 4


def test_no_more_components_than_the_slices_tell_apart():
    """Smooth tables with hardly any noise, as of weather: more would always fit a little better."""
    rng = np.random.default_rng(0)
    hours = np.arange(12)[:, None] / 12.0
    slices = []
    for day in range(40):
        mean, swing, shift = np.cos(day / 30.0 + np.array([0.0, 1.0, 2.0])), 1.0, day / 50.0
        data = 3.0 + mean + swing * np.cos(2 * np.pi * (hours - shift * np.array([1.0, 2.0, 3.0])))
        slices.append(Slice.dense(data + 1e-3 * rng.standard_normal((12, 3))))
    model, ranks = learn(slices, init_slices=6)
    assert max(ranks) <= most_told_apart((12, 3), 6) == 7
    assert model._state.live.current.ranks.most == 7


def test_slices_that_say_nothing_are_no_trial():
    model = OnlineGCP("auto", "poisson", init_slices=4)
    empty = Slice(np.empty((0, 2), np.int64), np.empty(0), (40, 30))
    for x in [*planted("poisson", 2, 12, 0), *[empty] * 20]:
        model.partial_fit(x)
    assert model.n_slices_ == 32
    assert np.isfinite(model.factors_[0]).all()


def test_where_slices_surprise_no_smaller_model_is_tried_before_a_larger_one():
    """It would keep what is new waiting for as long as its trial takes."""
    model = SimpleNamespace(n_slices=50, factors=SimpleNamespace(rank=4))
    trials = RankTrials(9, growing=Direction(80), shrinking=Direction(40))
    assert rank_trials.due(trials, model) is trials.shrinking
    trials.urge(model, 0)
    assert rank_trials.due(trials, model) is None
    model.n_slices += URGENT
    assert rank_trials.due(trials, model) is trials.growing
    # Slices of the rise that were kept need not be waited for.
    soon = RankTrials(9, growing=Direction(80), shrinking=Direction(40))
    soon.urge(model, URGENT - 1)
    assert soon.growing.next == model.n_slices + 1


def test_what_is_known_stays_when_a_few_slices_ask_for_more():
    """A fit of all components to four slices would lose patterns learned from thirty."""
    loss, slices = get_loss("bernoulli_odds"), planted("bernoulli", 3, 34, 0)
    start = static_start(slices[:30], 3, loss, lower=0.0, starts=3, seed=0)
    state = auto.start(start.factors, start.rows, slices[:30], loss, most=50)
    _, order = larger(slices[30:], state, 1, loss, anew=False, lower=0.0, seed=0)
    assert order == [0, 1, 2, -1]

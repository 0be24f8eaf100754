"""The conformance suite itself: each kind of defect is found by the check made for it."""

from __future__ import annotations

import contextlib
import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

from onlinegcp import testing
from onlinegcp.errors import OnlineGCPError
from onlinegcp.losses import LOSS_NAMES, get_loss
from onlinegcp.slices import Slice
from onlinegcp.streaming import OnlineCP, OnlineGCP
from onlinegcp.testing import check_streaming, planted_stream

STRAY = Slice.dense(np.ones((11, 7)))

# A suite that cannot fail is a defect. Every model below is sound but for one thing.


class Growing(OnlineCP):
    def _learn(self, state, x, number, seed):
        new, record = super()._learn(state, x, number, seed)
        log = np.append(state.arrays.get("log", []), float(number))
        return replace(new, arrays={**new.arrays, "log": log}), record


class ChangingItsInput(OnlineCP):
    def partial_fit(self, x, y=None, *, time=None):
        super().partial_fit(x, time=time)
        for part in x if isinstance(x, list) else []:
            if isinstance(part, np.ndarray):
                part *= 2.0
        return self


class LearningInTransform(OnlineCP):
    def transform(self, x):
        weights = super().transform(x)
        self.partial_fit(x)
        return weights


class LosingComponents(OnlineCP):
    def _learn(self, state, x, number, seed):
        new, record = super()._learn(state, x, number, seed)
        if number < 20:
            return new, record
        return replace(
            new,
            factors=tuple(a[:, :1] for a in new.factors),
            weights=new.weights[:1],
            arrays={n: a[:1] if n[0] == "q" else a for n, a in new.arrays.items()},
        ), record


class GatheringInSecret(OnlineCP):
    def partial_fit(self, x, y=None, *, time=None):
        super().partial_fit(x, time=time)
        if self.last_ is not None:
            self._buffer = (*self._buffer, STRAY)
        return self


class LargerThanDeclared(OnlineCP):
    def _largest_state(self, shape):
        return 100


class GrowingWithoutBound(OnlineCP):
    bounded_by = "rank"


class WritingOutAnything(OnlineCP):
    dense_only = True

    def partial_fit(self, x, y=None, *, time=None):
        return self  # as if it had the memory


class RefusingWithoutALimit(WritingOutAnything):
    def partial_fit(self, x, y=None, *, time=None):
        raise OnlineGCPError("too large")


class HoldingOn(OnlineCP):
    """Hoards where `get_state` does not look."""

    def partial_fit(self, x, y=None, *, time=None):
        super().partial_fit(x, time=time)
        self._seen = [*getattr(self, "_seen", []), x]
        return self


class ChangingCells(OnlineCP):
    def partial_fit(self, x, y=None, *, time=None):
        super().partial_fit(x, time=time)
        if isinstance(x, tuple):
            x[1][:] = 0.0
        return self


class ChangingWhatItWeighs(OnlineCP):
    def transform(self, x):
        weights = super().transform(x)
        for part in x if isinstance(x, list) else []:
            if isinstance(part, np.ndarray):
                part += 1.0
        return weights


class CountingItsUses(OnlineCP):
    """What it learns depends on how often it was asked."""

    def transform(self, x):
        self._uses = getattr(self, "_uses", 0) + 1
        return super().transform(x)

    def _learn(self, state, x, number, seed):
        new, record = super()._learn(state, x, number, seed)
        grown = 1.0 + 1e-9 * getattr(self, "_uses", 0)
        return replace(new, arrays={k: a * grown for k, a in new.arrays.items()}), record


class ScoringWithAMark(OnlineCP):
    def score(self, x, y=None):
        if self._state is not None:
            self._state = replace(self._state, mean_weights=self._state.mean_weights + 1.0)
        return super().score(x)


class StirringItsWarmStart(OnlineCP):
    def transform(self, x):
        self._buffer = self._buffer[::-1]
        return super().transform(x)


class ReadingTheFirstCell(OnlineCP):
    def partial_fit(self, x, y=None, *, time=None):
        super().partial_fit(x, time=time)
        if isinstance(x, tuple) and self._state is not None:
            self._state = replace(self._state, mean_weights=np.full(self.rank, x[1][0]))
        return self


class SkippingLists(OnlineCP):
    def _learn(self, state, x, number, seed):
        new, record = super()._learn(state, x, number, seed)
        return (new if x.array is not None else state), record


class TakingMissingForZero(OnlineGCP):
    def partial_fit(self, x, y=None, *, time=None):
        return super().partial_fit(Slice(x.index, x.value, x.shape), time=time)


class ForgivingTheFirst(OnlineCP):
    def partial_fit(self, x, y=None, *, time=None):
        with contextlib.ExitStack() as stack:
            if getattr(self, "n_slices_", 0) < 4:
                stack.enter_context(contextlib.suppress(OnlineGCPError))
            super().partial_fit(x, time=time)
        return self


class LosingItsRecord(OnlineCP):
    def save(self, path):
        path.write_bytes(pickle.dumps((self.get_params(), self.get_state())))

    @classmethod
    def load(cls, path):
        parameters, state = pickle.loads(path.read_bytes())
        return cls(**parameters).set_state({**state, "last": None})


class FittingOnTop(OnlineCP):
    def fit(self, stream, y=None):
        for x in stream:
            self.partial_fit(x)
        return self


class Unseeded(OnlineCP):
    def _begin(self, start, seed):
        noise = np.random.default_rng().uniform(0.99, 1.01)
        return super()._begin(replace(start, rows=start.rows * noise), seed)


class LearningOnlyTheFirst(OnlineCP):
    def partial_fit(self, x, y=None, *, time=None):
        return super().partial_fit(x[:1] if isinstance(x, list) else x)


class NotReturningItself(OnlineCP):
    def partial_fit(self, x, y=None, *, time=None):
        super().partial_fit(x, time=time)


class Miscounting(OnlineCP):
    def partial_fit(self, x, y=None, *, time=None):
        super().partial_fit(x, time=time)
        self.n_slices_ = min(self.n_slices_, 10)
        return self


class SwallowingErrors(OnlineCP):
    def partial_fit(self, x, y=None, *, time=None):
        with contextlib.suppress(OnlineGCPError):
            super().partial_fit(x, time=time)
        return self


class HalfDone(OnlineCP):
    """Learns a list up to the first bad member."""

    def partial_fit(self, x, y=None, *, time=None):
        for part in x if isinstance(x, list) else [x]:
            super().partial_fit([part])
        return self


class ForgettingOnDisk(OnlineCP):
    def save(self, path):
        state = self.get_state()
        if state["state"] is not None:
            arrays = {name: 0.999 * a for name, a in state["state"].arrays.items()}
            state["state"] = replace(state["state"], arrays=arrays)
        path.write_bytes(pickle.dumps((self.get_params(), state)))

    @classmethod
    def load(cls, path):
        parameters, state = pickle.loads(path.read_bytes())
        return cls(**parameters).set_state(state)


class CloningWhatWasLearned(OnlineCP):
    def __sklearn_clone__(self):
        return copy.deepcopy(self)


class NotFiniteAfterNothing(OnlineCP):
    """A state that is not finite is refused by the protocol; an answer is not."""

    def transform(self, x):
        weights = super().transform(x)
        return weights * np.nan if getattr(x, "nnz", 1) == 0 else weights


class RefusingLists(OnlineCP):
    def _learn(self, state, x, number, seed):
        if x.array is None:
            raise OnlineGCPError("dense slices only")
        return super()._learn(state, x, number, seed)


class NeverLearning(OnlineCP):
    def _learn(self, state, x, number, seed):
        return state, super()._learn(state, x, number, seed)[1]


class StartingAnywhere(NeverLearning):
    def _begin(self, start, seed):
        rng = np.random.default_rng(seed)
        factors = tuple(rng.random(a.shape) for a in start.factors)
        return super()._begin(replace(start, factors=factors), seed)


BROKEN = {
    Growing: ("state_does_not_grow", "the state grew"),
    ChangingItsInput: ("inputs_stay_untouched", "array passed in was changed"),
    LearningInTransform: ("transform_and_predict_change_nothing", "two answers"),
    LosingComponents: ("declarations_are_kept", "1 components, not 2"),
    GatheringInSecret: ("declarations_are_kept", "1 slices wait, after 0"),
    LargerThanDeclared: ("declarations_are_kept", "but 100 were declared"),
    GrowingWithoutBound: ("declarations_are_kept", "may grow is not said"),
    WritingOutAnything: ("slices_too_large_are_refused", "was accepted"),
    RefusingWithoutALimit: ("slices_too_large_are_refused", "names no limit: too large"),
    HoldingOn: ("state_does_not_grow", "the state grew"),
    ChangingCells: ("inputs_stay_untouched", "list of values was changed"),
    ChangingWhatItWeighs: ("inputs_stay_untouched", "array passed in was changed"),
    CountingItsUses: ("transform_and_predict_change_nothing", "used on the way"),
    ScoringWithAMark: ("transform_and_predict_change_nothing", "changed the model"),
    StirringItsWarmStart: ("transform_and_predict_change_nothing", "changed the model"),
    ReadingTheFirstCell: ("entry_order_is_irrelevant", "another order"),
    SkippingLists: ("sparse_and_dense_slices_mix", "learned differently"),
    TakingMissingForZero: ("missing_cells_are_not_zeros", "taken for zeros"),
    ForgivingTheFirst: ("bad_slices_leave_the_model_unchanged", "without an error"),
    LosingItsRecord: ("saved_and_loaded_goes_on_bit_for_bit", "record of the last slice"),
    FittingOnTop: ("returns_self_and_counts", "after a fit to 14"),
    Unseeded: ("same_seed_same_bits", "same seed"),
    LearningOnlyTheFirst: ("several_slices_equal_one_by_one", "different things"),
    NotReturningItself: ("returns_self_and_counts", "did not return the model"),
    Miscounting: ("returns_self_and_counts", "n_slices_ is 10 after 11"),
    SwallowingErrors: ("bad_slices_leave_the_model_unchanged", "without an error"),
    HalfDone: ("bad_slices_leave_the_model_unchanged", "made the model fitted"),
    ForgettingOnDisk: ("saved_and_loaded_goes_on_bit_for_bit", "saved and loaded"),
    CloningWhatWasLearned: ("clone_carries_parameters_only", "carries what was learned"),
    NotFiniteAfterNothing: ("empty_slice_is_accepted", "the weights of an empty slice"),
    NeverLearning: ("error_falls_again_after_a_change", "still"),
    StartingAnywhere: ("stationary_stream_is_recovered", "of the planted pattern"),
}


@pytest.mark.slow
def test_a_sound_model_passes():
    check_streaming(OnlineCP(2, init_slices=8, init_starts=1, forget=0.8))


@pytest.mark.parametrize("broken", BROKEN, ids=lambda cls: cls.__name__)
def test_a_broken_model_is_caught(broken):
    check, words = BROKEN[broken]
    forget = 8.0 if issubclass(broken, OnlineGCP) else 0.8
    model = broken(2, init_slices=8, init_starts=1, forget=forget)
    with pytest.raises(AssertionError, match=words):
        check_streaming(model, [getattr(testing, check)])


def test_a_model_that_refuses_lists_of_cells_is_caught():
    with pytest.raises(OnlineGCPError, match="dense slices only"):
        testing.sparse_and_dense_slices_mix(RefusingLists(2, init_slices=8, init_starts=1))


@pytest.mark.parametrize("name", LOSS_NAMES)
def test_planted_streams_are_inside_the_domain_of_their_loss(name):
    loss = get_loss(name)
    stream = planted_stream(loss, shape=(5, 1, 3), rank=3, n_slices=4, change_at=2)
    for x in stream.slices:
        loss.check(x.value, x.index)
    assert [len(f) for f in stream.factors] == [3] * 4
    assert stream.rows.shape == (4, 3)
    np.testing.assert_array_equal(stream.factors[0][0], stream.factors[1][0])
    assert not np.allclose(stream.factors[1][0], stream.factors[2][0])


def test_planted_streams_repeat():
    first, second = (planted_stream(get_loss("poisson"), seed=3) for _ in range(2))
    assert first.slices == second.slices
    assert planted_stream(get_loss("poisson"), seed=4).slices != first.slices

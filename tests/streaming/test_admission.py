"""What a class declares decides which slices it takes, and a refusal names methods that do."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from onlinegcp.errors import DataError
from onlinegcp.slices import Slice
from onlinegcp.streaming import METHODS, CPStream, OnlineCP, StreamingModel
from onlinegcp.streaming.state import ModelState
from onlinegcp.testing import check_streaming


class CellHolder(OnlineCP):
    """Holds one number per cell and component, and sees arrays only."""

    dense_only = True

    def __init__(
        self, rank, *, forget=0.8, order="jacobi", state_limit=2**30, init=None, init_slices=5,
        init_starts=1, random_state=0,
    ):  # fmt: skip
        super().__init__(
            rank, order=order, forget=forget, init=init, init_slices=init_slices,
            init_starts=init_starts, random_state=random_state,
        )  # fmt: skip
        self.state_limit = state_limit

    def _largest_state(self, shape):
        return 8 * self.rank * int(np.prod(shape)) + 5000

    def _learn(self, state, x, number, seed):
        assert x.array is not None
        return super()._learn(state, x, number, seed)


THREE = {"max_passes": 3, "forget": 0.8, "init_slices": 5, "init_starts": 1}


class Gatherer(CPStream):
    """Learns three slices at a time."""

    gathers = "max_passes"  # any whole number will do

    def _learn_batch(self, state, batch, number, seed):
        first = number - len(batch) + 1
        for n, x in enumerate(batch, first):
            state, record = self._learn(state, x, n, seed)
        return state, record


def stream(n, seed=0, shape=(6, 5)):
    rng = np.random.default_rng(seed)
    a, b = (rng.normal(size=(k, 2)) for k in shape)
    return [Slice.dense(a * rng.normal(size=2) @ b.T) for _ in range(n)]


@pytest.fixture
def registered(monkeypatch):
    """A file names its class, so that only registered ones can be read back."""
    for cls in (CellHolder, Gatherer):
        monkeypatch.setitem(METHODS, cls.__name__.lower(), cls)


@pytest.mark.slow
@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    "model", [CellHolder(2), Gatherer(2, **THREE), Gatherer(2, **(THREE | {"max_passes": 1}))]
)
def test_declared_kinds_pass_the_suite(model):
    check_streaming(model)


def test_missing_cells_are_refused_with_the_methods_that_take_them():
    holes = stream(1)[0].to_dense()
    holes[0, 0] = np.nan
    with pytest.raises(DataError) as caught:
        OnlineCP(2).partial_fit([holes])
    for cls in METHODS.values():
        assert (cls.__name__ in str(caught.value)) == (cls.takes_missing or cls is OnlineCP)


def test_a_state_beyond_its_limit_is_refused_before_it_is_allocated():
    taxi = Slice(np.array([[0, 1, 2]]), [1.0], (263, 263, 24))
    model = CellHolder(50, state_limit=2**29)
    with pytest.raises(DataError, match=r"CellHolder may hold 536,870,912 bytes") as caught:
        model.partial_fit(taxi)
    message = str(caught.value)
    assert "(263, 263, 24), 1,660,056 cells" in message
    assert f"needs {8 * 50 * 1_660_056 + 5000 + 8 * 1_660_056:,}" in message
    assert "OnlineGCP" in message
    assert "raise state_limit" in message
    assert not hasattr(model, "n_slices_")


def test_lists_of_cells_are_written_out_for_methods_that_need_arrays():
    cells = [Slice(x.index, x.value, x.shape, time=t) for t, x in enumerate(stream(8))]
    model = CellHolder(2).partial_fit(cells)
    assert model.last_.time == 7
    np.testing.assert_array_equal(model.transform(cells[0]), model.transform(stream(8)[0]))


def test_gathered_slices_wait_and_are_then_learned_together():
    slices = stream(13)
    model = Gatherer(2, **THREE)
    waiting = []
    for x in slices:
        model.partial_fit(x)
        waiting.append(model.n_waiting_)
    assert waiting == [1, 2, 3, 4, 0, 1, 2, 0, 1, 2, 0, 1, 2]
    assert (model.n_slices_, model.last_.number) == (13, 11)
    plain = CPStream(2, **THREE)
    before = clone(plain).partial_fit(slices[:11])
    np.testing.assert_array_equal(model.factors_[0], before.factors_[0])
    # A stream that ends is learned to its end.
    whole = clone(model).fit(slices)
    assert (whole.n_waiting_, whole.last_.number) == (0, 13)
    np.testing.assert_array_equal(whole.factors_[0], plain.partial_fit(slices).factors_[0])


def test_a_bad_number_to_gather_is_refused_by_name():
    with pytest.raises(DataError, match="max_passes must be a whole number >= 1"):
        Gatherer(2, max_passes=0).partial_fit(stream(1))


def test_a_class_that_gathers_must_say_how_it_learns():
    class Idle(Gatherer):
        _learn_batch = StreamingModel._learn_batch

    with pytest.raises(NotImplementedError, match="Idle gathers slices"):
        Idle(2, **THREE).partial_fit(stream(8))


def test_memory_counts_everything_a_state_holds():
    held = stream(1)[0]
    state = ModelState((np.ones((3, 2)),), np.ones(2), np.ones(2), {"p": np.ones(7)}, {}, (held,))
    assert state.nbytes == 8 * (6 + 2 + 2 + 7 + 30)

"""Models on the card as values: what is shared, what is fetched, and what comes back as a copy."""

import gc
import pickle

import numpy as np
import pytest

from host_card import HostBench, HostCard
from onlinegcp import Slice, get_loss
from onlinegcp.kernels.cuda.matrices import Shelf
from onlinegcp.kernels.layout import Blocks
from onlinegcp.solvers.auto import solver
from onlinegcp.solvers.auto.conjugate import Conjugate
from onlinegcp.solvers.auto.model import Model
from onlinegcp.solvers.auto.state import to_dict
from onlinegcp.solvers.cuda.conjugate import CardConjugate
from onlinegcp.solvers.cuda.residence import CardBlocks, CardModel
from onlinegcp.streaming.competitors import Regimes
from onlinegcp.streaming.keeping import is_finite
from onlinegcp.streaming.state import ModelState, Views


def _host_state():
    rng = np.random.default_rng(0)
    factors = [rng.random((n, 3)) for n in (5, 4)]
    slices = [Slice.dense(rng.poisson(3.0, (5, 4))) for _ in range(3)]
    return solver.start(factors, rng.random((3, 3)) + 1, slices, get_loss("poisson"))


def _on_card(model):
    rows, width = int(model.factors.offsets[-1]), model.factors.width
    bench = HostBench(rows, width)
    there = Shelf(bench.card, ("factors", "rate", "sensitivity"), rows * width).take()
    there.push("factors", model.factors.data)
    there.push("rate", model.past.rate)
    there.push("sensitivity", model.past.sensitivity)
    factors = model.factors
    blocks = CardBlocks(there, factors.offsets, factors.rank, factors.width, np.ones(factors.rank))
    past = CardConjugate(bench, there, model.past.mass.copy(), np.zeros(1))
    short = (model.mean_weights, model.usage, model.last_weights)
    return bench, CardModel(blocks, model.memory.copy(), past, *short, bounded=model.bounded)


@pytest.fixture
def state():
    return _host_state()


def test_a_copy_is_an_ordinary_model_and_changing_it_changes_nothing_on_the_card(state):
    _, there = _on_card(state.model)
    copy = there.copy()
    assert type(copy) is Model
    assert type(copy.past) is Conjugate
    assert type(copy.factors) is Blocks
    np.testing.assert_array_equal(copy.factors.data, state.model.factors.data)
    np.testing.assert_array_equal(copy.past.rate, state.model.past.rate)
    copy.factors.data[:] = -1.0
    copy.past.clear(0, 5.0)
    np.testing.assert_array_equal(there.factors.data, state.model.factors.data)
    np.testing.assert_array_equal(there.past.rate, state.model.past.rate)


def test_what_goes_to_the_next_step_shares_the_matrices_and_nothing_is_fetched(state):
    bench, there = _on_card(state.model)
    handed = there.handed_on()
    assert handed.past.matrices is there.past.matrices
    handed.memory.own[:] = 7.0
    handed.past.mass[:] = 7.0
    assert not (there.memory.own == 7.0).any()
    assert not (there.past.mass == 7.0).any()
    assert bench.card.pulled == 0


def test_asking_for_shape_finiteness_and_magnitudes_fetches_nothing(state):
    bench, there = _on_card(state.model)
    live = Regimes(solver.AutoState(there, state.trials))
    held = ModelState(Views(there.factors), np.ones(3), np.ones(3), live=live)
    assert held.shape == (5, 4)
    assert is_finite(held)
    np.testing.assert_array_equal(held.magnitudes, np.ones(3))
    assert bench.card.pulled == 0
    there.past.health = np.array([np.nan])
    assert not is_finite(held)


def test_factors_are_fetched_once_however_often_they_are_looked_at(state):
    bench, there = _on_card(state.model)
    views = Views(there.factors)
    first, again = views[0], views[0]
    np.testing.assert_array_equal(first, state.model.factors.views()[0])
    assert [len(a) for a in views] == [5, 4]
    assert bench.card.pulled == 1
    np.testing.assert_array_equal(first, again)


def test_rates_that_were_fetched_cannot_be_changed_by_mistake(state):
    _, there = _on_card(state.model)
    with pytest.raises(ValueError, match="read-only"):
        there.past.clear(0, 1.0)


def test_a_state_on_the_card_is_stored_as_one_on_the_cpu(state):
    _, there = _on_card(state.model)
    there.n_slices, there.unit = state.model.n_slices, state.model.unit
    flat = to_dict(solver.AutoState(there, state.trials))
    expected = to_dict(state)
    assert flat.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(flat[name], value, name)
    back = pickle.loads(pickle.dumps(there))
    assert type(back) is Model
    np.testing.assert_array_equal(back.factors.data, state.model.factors.data)


def test_modes_can_grow_and_the_grown_model_is_on_the_host(state):
    _, there = _on_card(state.model)
    there.n_slices, there.unit = state.model.n_slices, state.model.unit
    grown = solver.grow(solver.AutoState(there, state.trials), (6, 4))
    expected = solver.grow(state, (6, 4))
    np.testing.assert_array_equal(grown.factors.data, expected.factors.data)
    assert type(grown.model) is Model


def test_a_stream_goes_to_and_fro_between_two_places():
    shelf = Shelf(HostCard(), ("factors",), 4)
    first = shelf.take()
    second = shelf.take(after=first)
    places = {first.place.serial, second.place.serial}
    for _ in range(5):
        del first
        gc.collect()
        first = second
        second = shelf.take(after=first)
        assert {first.place.serial, second.place.serial} == places


def test_a_model_and_its_rival_keep_their_places_apart():
    shelf = Shelf(HostCard(), ("factors",), 4)
    model, rival = shelf.take(), shelf.take()
    pairs = set()
    for _ in range(8):
        new_model, new_rival = shelf.take(after=model), shelf.take(after=rival)
        pairs |= {(model.place.serial, new_model.place.serial)}
        pairs |= {(rival.place.serial, new_rival.place.serial)}
        model, rival = new_model, new_rival
        del new_model, new_rival
        gc.collect()
    assert len(pairs) <= 6  # recordings that are needed, whatever the order of freeing

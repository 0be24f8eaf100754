"""Checks of the protocol: what any method must do, whatever it learns."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from onlinegcp.errors import OnlineGCPError
from onlinegcp.forecasting.recent import MOST
from onlinegcp.slices import Slice
from onlinegcp.streaming.sgd import SGD
from onlinegcp.streaming.showing import PAST
from onlinegcp.testing.subject import fitted_to, loss_of, stream_for


def returns_self_and_counts(model: Any) -> None:
    """partial_fit returns the model and counts every slice."""
    stream, fitted = stream_for(model, 14), clone(model)
    for n, x in enumerate(stream.slices, 1):
        assert fitted.partial_fit(x) is fitted, "partial_fit did not return the model"
        assert fitted.n_slices_ == n, f"n_slices_ is {fitted.n_slices_} after {n} slices"
    for n in (len(stream.slices), 10):  # what was learned before is forgotten
        assert fitted.fit(iter(stream.slices[:n])) is fitted, "fit did not return the model"
        assert fitted.n_slices_ == n, f"n_slices_ is {fitted.n_slices_} after a fit to {n} slices"


def several_slices_equal_one_by_one(model: Any) -> None:
    """A list of slices is learned like its members in turn."""
    slices = stream_for(model, 16).slices
    together = clone(model).partial_fit(slices[:12]).partial_fit(slices[12:])
    alone = fitted_to(model, slices)
    _same_model(together, alone, "a list of slices and the same slices in turn")
    told = [None if m.last_ is None else replace(m.last_, seconds={}) for m in (together, alone)]
    assert told[0] == told[1], "a list of slices and the same in turn have different last records"


def transform_and_predict_change_nothing(model: Any) -> None:
    """Using the model changes neither it nor what it learns next, from the warm start on."""
    slices = stream_for(model, 18).slices
    used = clone(model)
    for n, x in enumerate(slices, 1):
        used.partial_fit(x)
        if n not in (3, 16):
            continue
        before = _numbers(used)
        first = _use(used, slices[3])
        _use(used, slices[5])
        for a, b in zip(first, _use(used, slices[3]), strict=True):
            np.testing.assert_array_equal(a, b, "the same question got two answers")
        for a, b in zip(before, _numbers(used), strict=True):
            np.testing.assert_array_equal(a, b, "transform or predict changed the model")
        np.testing.assert_array_equal(
            used.transform([slices[5], slices[3]])[1], first[0], "weights depend on other slices"
        )
    _same_model(
        used, fitted_to(model, slices), "a model that was used on the way and one that was not"
    )


def inputs_stay_untouched(model: Any) -> None:
    """Neither arrays nor slices passed in are changed."""
    slices, fitted = stream_for(model, 15).slices, clone(model)
    arrays = [x.to_dense().copy() for x in slices]
    cells = [(x.index.copy(), x.value.copy(), x.shape) for x in slices]
    for t, forms in enumerate(zip(slices, arrays, cells, strict=True)):
        x = forms[t % 3]
        fitted.partial_fit([x] if isinstance(x, np.ndarray) else x)
    for method in (fitted.transform, fitted.score_samples, fitted.score):
        for collection in (slices, arrays, cells):
            method(collection)
    index, weights = cells[0][0][:5].copy(), fitted.weights_
    fitted.predict(index, weights)
    fitted.inverse_transform(weights)
    np.testing.assert_array_equal(index, cells[0][0][:5], "an index passed in was changed")
    np.testing.assert_array_equal(weights, fitted.weights_, "weights passed in were changed")
    again = stream_for(model, 15).slices
    for x, array, (places, values, _), same in zip(slices, arrays, cells, again, strict=True):
        np.testing.assert_array_equal(array, same.array, "an array passed in was changed")
        np.testing.assert_array_equal(x.array, same.array, "a slice passed in was changed")
        np.testing.assert_array_equal(places, same.index, "a list of cells was changed")
        np.testing.assert_array_equal(values, same.value, "a list of values was changed")


def same_seed_same_bits(model: Any) -> None:
    """Two runs with one seed give the same bits."""
    slices = stream_for(model, 16).slices
    _same_model(fitted_to(model, slices), fitted_to(model, slices), "two runs with the same seed")


def entry_order_is_irrelevant(model: Any) -> None:
    """A slice's cells may come in any order."""
    rng = np.random.default_rng(1)
    # As bare lists: a Slice has its cells sorted already.
    cells = [(x.index, x.value, x.shape) for x in stream_for(model, 14).slices]
    shuffled = []
    for index, value, shape in cells:
        order = rng.permutation(len(value))
        shuffled.append((index[order], value[order], shape))
    _same_model(
        fitted_to(model, cells), fitted_to(model, shuffled), "the same cells in another order"
    )


def empty_slice_is_accepted(model: Any) -> None:
    """A slice without any event is data like any other, from the first one on."""
    if not loss_of(model).unlisted_zeros_allowed:
        return
    slices = stream_for(model, 14).slices
    empty = Slice(np.empty((0, 2), dtype=int), [], slices[0].shape)
    for stream in ([*slices, empty, slices[0]], [empty, empty, *slices, empty]):
        fitted = fitted_to(model, stream)
        assert fitted.n_slices_ == len(stream), "an empty slice was not counted"
        assert all(np.all(np.isfinite(a)) for a in (fitted.weights_, *fitted.factors_)), (
            "an empty slice left numbers that are not finite"
        )
        assert np.all(np.isfinite(fitted.transform(empty))), "the weights of an empty slice"


def missing_cells_are_not_zeros(model: Any) -> None:
    """NaN and `unlisted="missing"` say the same, and not that the cell is zero.

    A method that is not defined on missing cells must refuse them.
    """
    rng = np.random.default_rng(2)
    forms: dict[str, list[Slice]] = {"NaN": [], "unlisted": [], "zero": []}
    for x in stream_for(model, 14).slices:
        array, holes = x.to_dense().copy(), rng.random(x.shape) < 0.2
        array[holes] = np.nan
        cells = np.argwhere(~holes), array[~holes], x.shape
        forms["NaN"].append(Slice.dense(array))
        forms["unlisted"].append(Slice(*cells, unlisted="missing"))
        forms["zero"].append(Slice(*cells))
    try:
        first = fitted_to(model, forms["NaN"])
    except OnlineGCPError:
        _refuses(clone(model), forms["unlisted"], "slices with missing cells")
        return
    _same_model(first, fitted_to(model, forms["unlisted"]), "NaN and cells listed as missing")
    if loss_of(model).unlisted_zeros_allowed:
        ours, theirs = (m.to_ktensor().full() for m in (first, fitted_to(model, forms["zero"])))
        assert not np.allclose(ours, theirs, rtol=1e-6, atol=0.0), (
            "missing cells were taken for zeros"
        )


def sparse_and_dense_slices_mix(model: Any) -> None:
    """Dense slices and lists of cells may alternate in one stream, and say the same."""
    slices = stream_for(model, 16).slices
    mixed = fitted_to(model, [_sparse(x) if t % 2 else x for t, x in enumerate(slices)])
    assert mixed.n_slices_ == 16, "sparse and dense slices did not mix"
    ours, theirs = mixed.to_ktensor().full(), fitted_to(model, slices).to_ktensor().full()
    # Sums in another order, but nothing that solvers make much larger than a rounding error.
    gap = np.linalg.norm(ours - theirs) / np.linalg.norm(theirs)
    assert gap < 0.01, f"lists of cells were learned differently from arrays, by {gap:.1%}"


def state_does_not_grow(model: Any) -> None:
    """What a model holds is of the same size after many slices as after some."""
    if model.bounded_by is not None:
        return  # how far it grows is asked by `declarations_are_kept`
    # A window of past slices may fill up first.
    enough = max(40, _window(model) + 20)
    slices = stream_for(model, enough).slices
    fitted = fitted_to(model, slices)
    sizes = []
    for x in [*slices[:20]] * 3:
        fitted.partial_fit(x)
        sizes.append(_size(fitted))
    # A solver may carry a rival of itself for some slices, so the smallest sizes are compared.
    # Room for a few more digits of counters, none for another row.
    first, last = min(sizes[:20]), min(sizes[-20:])
    assert last - first < 64, f"the state grew from {first} to {last} bytes"
    most = model.most_models + 1
    assert max(sizes) < most * first, f"the state is now {first}, now {max(sizes)} bytes"


def declarations_are_kept(model: Any) -> None:
    """Rank, batches and memory are what the class says they are."""
    slices, fitted = stream_for(model, 40).slices, clone(model)
    together = 1 if model.gathers is None else getattr(model, model.gathers)
    most = model._largest_state(slices[0].shape)
    assert model.bounded_by is None or most is not None, "how far the state may grow is not said"
    learned = False
    for n, x in enumerate(slices, 1):
        waited = fitted.n_waiting_ if n > 1 else 0
        fitted.partial_fit(x)
        learned = learned or fitted.last_ is not None
        if learned:
            assert fitted.n_waiting_ == (waited + 1) % together, (
                f"{fitted.n_waiting_} slices wait, after {waited}, where {together} are gathered"
            )
            held = fitted.state_bytes_ - fitted.n_waiting_ * x.value.nbytes
            assert most is None or held <= most, (
                f"the state takes {held} bytes, but {most} were declared"
            )
        assert model.changes_rank or len(fitted.weights_) == model.rank, (
            f"the model has {len(fitted.weights_)} components, not {model.rank}"
        )
        assert fitted.transform(x).shape == fitted.weights_.shape, "weights of another rank"
    assert learned, "40 slices were not enough to begin"
    if model.walks:
        few = fitted._check_slices(slices[:3], may_grow=True)
        ahead = fitted._walk(fitted._ready(), few, len(slices) + 1, 0)
        assert len(ahead.held) == 3, f"of three slices {len(ahead.held)} were learned in one call"


def slices_too_large_are_refused(model: Any) -> None:
    """A method that writes slices out says so before it takes the memory."""
    if model.dense_only:
        huge = Slice([[0, 0]], [1.0], (10**6, 10**6))
        refusal = ""
        try:
            clone(model).partial_fit(huge)
        except OnlineGCPError as error:
            refusal = str(error)
        assert refusal, "a slice of 10^12 cells was accepted by a method for dense ones"
        assert "state_limit" in refusal, f"the refusal names no limit: {refusal}"


def saved_and_loaded_goes_on_bit_for_bit(model: Any) -> None:
    """Saving, loading and going on equals never having stopped."""
    slices = stream_for(model, 20).slices
    through = fitted_to(model, slices)
    # A file holds no functions: a loss of the caller's own must be given again.
    options = {"loss": model.loss} if loss_of(model).code < 0 else {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        for stop in (2, 9, 15):
            before = fitted_to(model, slices[:stop])
            before.save(path)
            resumed = type(model).load(path, **options)
            _same_model(before, resumed, "a model and the same model saved and loaded")
            assert resumed.last_ == before.last_, "the record of the last slice was not kept"
            for x in slices[stop:]:
                resumed.partial_fit(x)
            _same_model(through, resumed, f"a run through and one resumed after slice {stop}")


def bad_slices_leave_the_model_unchanged(model: Any) -> None:
    """What cannot be learned is refused at any time, and nothing of it sticks."""
    slices, loss = stream_for(model, 16).slices, loss_of(model)
    through = fitted_to(model, slices)
    shape = slices[0].shape
    corner = [[0] * len(shape)]
    bad: dict[str, Callable[[], Any]] = {
        "infinity in an array": lambda: [np.full(shape, np.inf)],
        "infinity in a list of cells": lambda: (corner, [-np.inf], shape),
        "NaN in a list of cells": lambda: (corner, [np.nan], shape),
        "a good slice, then one of a wrong shape": lambda: [slices[14], np.ones((2, 2))],
        "a good slice, then no slice": lambda: [slices[14], "not a slice"],
    }
    if loss.domain != "real":
        bad["a value outside the domain"] = lambda: [slices[14], np.full(shape, -2.0)]
    later: dict[str, Callable[[], Any]] = {
        "a slice that lost a row": lambda: Slice.dense(np.ones((shape[0] - 1, *shape[1:]))),
        "a mode too few": lambda: Slice.dense(np.ones(shape[0])),
    }
    for seen in (0, 3, 14):
        fitted = fitted_to(model, slices[:seen])
        before = _numbers(fitted) if seen else []
        for what, make in (bad | later if seen else bad).items():
            _refuses(fitted, [make], what)
            assert fitted.__sklearn_is_fitted__() == (seen > 0), f"{what} made the model fitted"
            for a, b in zip(before, _numbers(fitted) if seen else [], strict=True):
                np.testing.assert_array_equal(a, b, f"{what} was refused but changed the model")
        fitted.partial_fit(slices[seen:])
        _same_model(fitted, through, "a run with refusals and one without")


def clone_carries_parameters_only(model: Any) -> None:
    """A clone of a fitted model has its parameters and nothing it learned."""
    fitted = fitted_to(model, stream_for(model, 14).slices)
    fresh = clone(fitted)
    assert str(fresh.get_params()) == str(model.get_params()), "a clone lost parameters"
    assert not hasattr(fresh, "n_slices_"), "a clone carries what was learned"


def _window(model: Any) -> int:
    """Past slices it holds at most."""
    solver = getattr(model, "solver", model)
    held = getattr(SGD() if solver == "sgd" else solver, "history_size", 0)
    return int(max(held, getattr(model, "window", None) or 0))


def _use(model: Any, x: Slice) -> tuple[Any, ...]:
    """Everything one may ask of a model."""
    weights = model.transform(x)
    corners = np.array([[0] * x.ndim, [n - 1 for n in x.shape]])
    values = model.predict(corners), model.predict(corners, weights)
    scores = model.score_samples(x), model.score(x)
    return weights, *values, *scores, model.inverse_transform(weights)


def _refuses(model: Any, inputs: Iterable[Any], what: str) -> None:
    """Some member of `inputs`, made on the spot where it is a function, must be an error."""
    try:
        for x in inputs:
            model.partial_fit(x() if callable(x) else x)
    except OnlineGCPError:
        return
    raise AssertionError(f"{what}: learned without an error")


def _size(model: Any) -> int:
    """Bytes of all that a model holds besides its parameters, whether a step needs it or not."""
    parameters = model.get_params(deep=False)
    if model.gathers is not None:
        parameters["_buffer"] = None  # whose length `declarations_are_kept` checks
    assert len(model._past) <= PAST, "more weights than forecasts need are kept"
    assert len(model._recent) <= MOST, "more slices than forecasts need are kept"
    parameters["_past"] = parameters["_recent"] = None  # fill up to that many
    parameters["_began_with"] = None  # some parameters once more
    return len(pickle.dumps({k: v for k, v in vars(model).items() if k not in parameters}))


def _sparse(x: Slice) -> Slice:
    """The same complete slice as a list of cells, every one of them listed."""
    return Slice(x.index, x.value, x.shape, unlisted="missing")


def _numbers(model: Any) -> list[NDArray[Any]]:
    """Everything a model remembers, as arrays."""
    state = {key: part for key, part in model.get_state().items() if key != "last"}
    return [model.weights_, *model.factors_, *_flat(state)]


def _flat(part: Any) -> Iterator[NDArray[Any]]:
    if isinstance(part, Slice):
        yield from (part.index, part.value)
    elif isinstance(part, Mapping):
        for key in sorted(part):
            yield from _flat(part[key])
    elif isinstance(part, Sequence) and not isinstance(part, str):
        for member in part:
            yield from _flat(member)
    elif hasattr(part, "to_dict"):
        yield from _flat(part.to_dict())
    elif is_dataclass(part):
        yield from _flat(vars(part))
    elif part is not None:
        yield np.array(part)


def _same_model(first: Any, second: Any, what: str) -> None:
    ours, theirs = _numbers(first), _numbers(second)
    assert len(ours) == len(theirs), f"{what} remember different things"
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b, f"{what} give different models")

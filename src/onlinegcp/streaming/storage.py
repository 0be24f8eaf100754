"""A streaming model as a file: its parameters, its state, and any slices it still needs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from inspect import isabstract
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp import __version__
from onlinegcp.errors import StateError
from onlinegcp.forecasting import Recent
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.storage.archive import read_archive, under, write_archive
from onlinegcp.storage.times import pack_time, unpack_time
from onlinegcp.streaming import auto_solver
from onlinegcp.streaming.model import StreamingModel
from onlinegcp.streaming.naming import Names
from onlinegcp.streaming.parameters import pack_parameters, unpack_parameters
from onlinegcp.streaming.record import StepRecord
from onlinegcp.streaming.settled import check_settled
from onlinegcp.streaming.state import ModelState

KIND = "streaming model"
RECENT = "recent."  # how the names of the arrays of the newest slices begin


def save_model(model: StreamingModel, path: str | os.PathLike[str]) -> None:
    """Store a model in one file, all or nothing."""
    model._check_fitted()
    check_settled(model)  # or the file would say one thing and hold another
    write_archive(path, KIND, *pack_model(model))


def _parameters(model: StreamingModel) -> dict[str, Any]:
    """As `get_params(deep=False)`, which looks at the constructor each time."""
    return {name: getattr(model, name) for name in _names_of(type(model))}


@cache
def _names_of(method: type[StreamingModel]) -> tuple[str, ...]:
    return tuple(method._get_param_names())


def pack_model(model: StreamingModel) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """A model as named arrays and a JSON-able record."""
    saved = model.get_state()
    arrays: dict[str, NDArray[Any]] = {}
    record: dict[str, Any] = {
        "method": type(model).__name__,
        "version": __version__,
        "n_slices": saved["n_slices"],
        "seed": saved["seed"],
        "parameters": pack_parameters(_parameters(model), arrays),
        "last": _pack_step(saved["last"]),
        "buffer": pack_slices(saved["buffer"], "buffer", arrays),
    }
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(model, name):
            record[name] = np.asarray(getattr(model, name)).tolist()
    if saved["names"] is not None:
        record["names"] = {"labels": saved["names"].labels, "modes": saved["names"].modes}
    arrays["past"] = saved["past"]
    arrays |= {f"{RECENT}{name}": part for name, part in saved["recent"].to_arrays().items()}
    state: ModelState | None = saved["state"]
    if state is not None:
        for k, a in enumerate(state.factors):
            arrays[f"factor.{k}"] = a  # written in pieces, whatever its strides
        arrays["weights"], arrays["mean_weights"] = state.weights, state.mean_weights
        for name, array in state.arrays.items():
            arrays[f"state.{name}"] = array
        record["n_modes"] = len(state.factors)
        record["scalars"] = state.scalars
        record["slices"] = pack_slices(state.slices, "slices", arrays)
        if state.live is not None:
            record["live"] = _pack_live(state.live_arrays(), arrays)
    return arrays, record


def load_model(
    path: str | os.PathLike[str],
    loss: Loss | None = None,
    method: type[StreamingModel] | None = None,
) -> StreamingModel:
    """The model stored at `path`, of whatever method it is.

    Parameters
    ----------
    path
        The file.
    loss
        The caller's own loss, where the model was saved with one.
    method
        The caller's own method, where it may be one that the registry does not know.
    """
    return unpack_model(*read_archive(path, KIND), loss=loss, method=method, source=path)


def unpack_model(
    arrays: dict[str, NDArray[Any]],
    record: dict[str, Any],
    *,
    loss: Loss | None = None,
    method: type[StreamingModel] | None = None,
    source: str | os.PathLike[str] = "the record",
) -> StreamingModel:
    """The model that `pack_model` packed; `source` names it in errors."""
    from onlinegcp.streaming import METHODS

    known = [*METHODS.values(), *([] if method is None or isabstract(method) else [method])]
    classes = {cls.__name__: cls for cls in known}
    if record.get("method") not in classes:
        raise StateError(
            f"{source} holds a {record.get('method')!r}, which this version does not know. Upgrade "
            f"onlinegcp, or load it with its own class; known methods are "
            f"{', '.join(sorted(classes))}."
        )
    _check_own_loss(source, record, loss)
    try:
        return _rebuild(classes[record["method"]], arrays, record, loss)
    except Exception as error:  # a part that is missing or odd may fail anywhere
        raise StateError(
            f"a whole model was needed, but {source} has a part that does not fit ({error!r}). It "
            f"comes from version {record.get('version')}, this is {__version__}: use that "
            f"version, or an earlier copy."
        ) from error


def _check_own_loss(
    path: str | os.PathLike[str], record: dict[str, Any], loss: Loss | None
) -> None:
    stored = record.get("parameters", {}).get("loss")
    wanted = stored.get("own_loss") if isinstance(stored, dict) else None
    given = None if loss is None else loss.name
    if wanted == given:
        return
    if wanted is None:
        raise StateError(
            f"{path} knows its loss, but {given!r} was passed. Load it without the loss."
        )
    raise StateError(
        f"{path} was saved with the loss {wanted!r} made from functions, which a file cannot "
        f"hold, but {'none' if given is None else repr(given)} was passed. Use "
        f"load(path, loss=...) with that loss."
    )


def _rebuild(
    cls: type[StreamingModel],
    arrays: dict[str, NDArray[Any]],
    record: dict[str, Any],
    loss: Loss | None,
) -> StreamingModel:
    model = cls(**unpack_parameters(cls.__name__, record["parameters"], arrays, loss=loss))
    state = None
    if "n_modes" not in record and not record["buffer"]:
        raise KeyError("n_modes")
    if "n_modes" in record:
        state = ModelState(
            tuple(arrays[f"factor.{k}"] for k in range(record["n_modes"])),
            arrays["weights"],
            arrays["mean_weights"],
            under(arrays, "state."),
            record["scalars"],
            tuple(unpack_slices(record["slices"], "slices", arrays)),
        )
        if "live" in record:
            state = auto_solver.unpack(state, _unpack_live(record["live"], arrays))
    model.set_state(
        {
            "n_slices": record["n_slices"],
            "seed": record["seed"],
            "state": state,
            "buffer": unpack_slices(record["buffer"], "buffer", arrays),
            "last": _unpack_step(record["last"]),
            "past": arrays.get("past", np.empty((0, 0))),
            "recent": Recent.of(under(arrays, RECENT)),
            "names": _unpack_names(record.get("names")),
        }
    )
    if "n_features_in_" in record:
        model.n_features_in_ = int(record["n_features_in_"])
    if "feature_names_in_" in record:
        model.feature_names_in_ = np.array(record["feature_names_in_"], dtype=object)
    return model


def _pack_live(flat: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """The scalars of a solver's own state; its arrays are set aside."""
    scalars: dict[str, Any] = {}
    for name, value in flat.items():
        if isinstance(value, np.ndarray):
            arrays[f"live.{name}"] = value
        else:
            scalars[name] = value.item() if isinstance(value, np.generic) else value
    return scalars


def _unpack_live(scalars: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    return {**scalars, **under(arrays, "live.")}


def pack_slices(
    slices: Sequence[Slice], name: str, arrays: dict[str, NDArray[Any]]
) -> list[dict[str, Any]]:
    """Slices as entries of a record; their arrays are put among `arrays`, under `name`."""
    entries = []
    for k, x in enumerate(slices):
        if x.array is not None:
            arrays[f"{name}.{k}.array"] = x.array
        else:
            arrays[f"{name}.{k}.index"], arrays[f"{name}.{k}.value"] = x.index, x.value
        entries.append(
            {
                "shape": list(x.shape),
                "unlisted": x.unlisted,
                "time": pack_time(x.time, or_text=True),
            }
        )
    return entries


def unpack_slices(
    entries: Sequence[Mapping[str, Any]], name: str, arrays: Mapping[str, NDArray[Any]]
) -> list[Slice]:
    """The slices that `pack_slices` packed."""
    slices = []
    for k, entry in enumerate(entries):
        time = unpack_time(entry["time"])
        if f"{name}.{k}.array" in arrays:
            slices.append(Slice.dense(arrays[f"{name}.{k}.array"], time=time))
        else:
            slices.append(
                Slice(
                    arrays[f"{name}.{k}.index"],
                    arrays[f"{name}.{k}.value"],
                    tuple(entry["shape"]),
                    time=time,
                    unlisted=entry["unlisted"],
                )
            )
    return slices


def _unpack_names(stored: Mapping[str, Any] | None) -> Names | None:
    if stored is None:
        return None
    labels = (None if names is None else tuple(names) for names in stored["labels"])
    return Names(tuple(labels), tuple(stored["modes"]))


def _pack_step(step: StepRecord | None) -> dict[str, Any] | None:
    if step is None:
        return None
    return {**vars(step), "time": pack_time(step.time, or_text=True)}


def _unpack_step(fields: dict[str, Any] | None) -> StepRecord | None:
    if fields is None:
        return None
    order = fields.get("order")
    kept = {"order": None if order is None else tuple(order)}
    return StepRecord(**{**fields, **kept, "time": unpack_time(fields["time"])})

"""What a run was asked for, as JSON and back: its model without what it learned, and its events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from onlinegcp import __version__
from onlinegcp.drawing.text import interval_of, noun_for
from onlinegcp.errors import DataError, StateError
from onlinegcp.losses import Loss
from onlinegcp.streaming import METHODS, SGD, StreamingModel
from onlinegcp.streaming.parameters import pack_parameters, unpack_parameters

# Settings of `from_events` that belong to one source and not to the run.
OF_THE_SOURCE = ("since", "until", "in_order", "close_last", "format")


def model_settings(model: StreamingModel) -> dict[str, Any]:
    """The method and parameters of a model."""
    parameters = model.get_params(deep=False)
    if parameters.get("solver") == "sgd":
        parameters["solver"] = SGD()  # a run says all that made it, defaults included
    return {"method": type(model).__name__, "parameters": pack_parameters(parameters)}


def event_settings(events: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of `from_events` as JSON."""
    from onlinegcp.events.given_labels import read_vocabulary
    from onlinegcp.events.modes import Mode

    kept = {n: v for n, v in events.items() if v is not None and n not in OF_THE_SOURCE}
    modes = kept["modes"]
    kept["modes"] = [
        _spelt(mode) if isinstance(mode, Mode) else mode
        for mode in ([modes] if isinstance(modes, str | Mode) else modes)
    ]
    if "vocabulary" in kept:  # a file may change or vanish
        kept["vocabulary"] = read_vocabulary(kept["vocabulary"])
    if "share" in kept:
        kept["share"] = [list(group) for group in kept["share"]]
    try:
        return dict(json.loads(json.dumps(kept)))
    except TypeError as error:
        raise DataError(
            f"settings of events that can be stored as text are needed, but {error}. Write "
            "durations as '1d' or '15m'."
        ) from error


def spoken(info: Mapping[str, Any]) -> dict[str, Any]:
    """How slices of a run are judged and spoken of, as `score_slice` takes it."""
    options, events = info["anomaly"], info.get("events") or {}
    return {
        "level": options["level"],
        "top": options["top"],
        "modes": info["modes"],
        "noun": noun_for(info.get("unit"), events.get("value")),
        "interval": interval_of(events.get("every")),
    }


def _spelt(mode: Any) -> str:
    """A mode as the command line spells it."""
    from onlinegcp.events.modes import parse_mode
    from onlinegcp.events.vocabulary import number_text

    text = mode.source
    if mode.derive == "bins":
        text += ":bins=" + "/".join(number_text(edge) for edge in mode.edges)
    elif mode.derive != "column":
        text += f":{mode.derive}"
    if parse_mode(text, [mode.source]) != mode:
        raise DataError(
            f"a mode of a run must keep its own name, but {text!r} is called {mode.name!r}. Leave "
            "the name out."
        )
    return str(text)


def fresh_model(info: Mapping[str, Any], loss: Loss | None) -> StreamingModel:
    """The model of a run that has learned nothing yet."""
    classes = {method.__name__: method for method in METHODS.values()}
    stored = info.get("model") or {}
    if stored.get("method") not in classes:
        raise StateError(
            f"the run's method must be one of {', '.join(sorted(classes))}, but is "
            f"{stored.get('method')!r}. Upgrade onlinegcp to open it."
        )
    # Whether the loss is the right one is checked with the checkpoint.
    parameters = unpack_parameters(stored["method"], stored["parameters"], loss=loss)
    try:
        return classes[stored["method"]](**parameters)
    except TypeError as error:
        raise StateError(
            f"the run has a parameter this version does not know ({error}). It was made by version "
            f"{info.get('version')}, this is {__version__}: use that one."
        ) from error

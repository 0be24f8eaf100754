"""Whether a record of a run has the types its readers count on; they need not ask again.

Names that are not listed here may hold anything, and those that are may be left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NUMBER: tuple[type, ...] = (int, float, type(None))
_TEXT: tuple[type, ...] = (str, type(None))
_LIST: tuple[type, ...] = (list, type(None))
_RECORD: tuple[type, ...] = (dict, type(None))

_STEP: dict[str, tuple[type, ...]] = {
    "number": (int,),
    "time": (str, int, float, type(None)),
    "warm": (bool,),
    "held": (bool,),
    "partial": (bool,),
    "weights": _LIST,
    "drift": _LIST,
    "order": _LIST,
    "anomaly": _RECORD,
    **dict.fromkeys(
        (
            *("nnz", "n_observed", "total", "norm_squared", "prequential", "local", "forget"),
            *("newton_steps", "births", "deaths", "merges", "rank", "seconds"),
        ),
        _NUMBER,
    ),
}
_ANOMALY: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(
        (
            *("p", "z", "score", "volume_p", "volume_z", "total", "rest_change"),
            *("expected_total", "expected_low", "expected_high"),
        ),
        _NUMBER,
    ),
    **dict.fromkeys(("alarm", "ended", "more_rows"), (int,)),
    **dict.fromkeys(("flagged", "volume_odd", "total_usual", "rest_usual"), (bool,)),
    **dict.fromkeys(("kind", "family", "severity", "sentence"), _TEXT),
    **dict.fromkeys(("cells", "modes", "largest", "newcomers", "components"), _LIST),
}
_CELL: dict[str, tuple[type, ...]] = {
    "labels": _LIST,
    "index": _LIST,
    **dict.fromkeys(("observed", "expected", "low", "high", "p", "share"), _NUMBER),
}
_INFO: dict[str, tuple[type, ...]] = {
    "format": (int,),
    **dict.fromkeys(("created", "version", "unit"), _TEXT),
    **dict.fromkeys(("modes", "command"), _LIST),
    **dict.fromkeys(("environment", "model", "events", "anomaly"), _RECORD),
}
_OPTIONS: dict[str, tuple[type, ...]] = {
    "level": (int, float),
    "top": (int,),
    "period": (int, type(None)),
    "longer": (bool,),
    "holidays": _TEXT,
    "hold_flagged": (bool,),
}


def check_step(step: Mapping[str, Any]) -> None:
    """Refuse the record of a slice that readers would stumble over, by a ValueError.

    Examples
    --------
    >>> check_step({"number": 1, "total": "many"})
    Traceback (most recent call last):
        ...
    ValueError: total is a str
    """
    _check(step, _STEP)
    for name in ("weights", "drift", "order"):
        _check_numbers(step.get(name), name)
    anomaly = step.get("anomaly")
    if anomaly:
        _check(anomaly, _ANOMALY, "anomaly ")
        for cell in anomaly.get("cells") or ():
            if not isinstance(cell, dict):
                raise ValueError(f"a cell is a {type(cell).__name__}")
            _check(cell, _CELL, "of a cell ")
        for rows in anomaly.get("modes") or ():
            if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                raise ValueError("a mode of an anomaly is no list of rows")
            for row in rows:
                _check(row, {**_CELL, "label": (str,)}, "of a row ")


def check_info(info: Mapping[str, Any]) -> None:
    """Refuse settings of a run that are none, by a ValueError."""
    _check(info, _INFO)
    for name in info.get("modes") or ():
        if not isinstance(name, str):
            raise ValueError(f"the name of a mode is a {type(name).__name__}")
    _check(info.get("anomaly") or {}, _OPTIONS, "anomaly ")
    model = info.get("model") or {}
    _check(model, {"method": _TEXT, "parameters": _RECORD}, "model ")


def _check(record: Mapping[str, Any], types: Mapping[str, tuple[type, ...]], of: str = "") -> None:
    for name, allowed in types.items():
        if name not in record:
            continue
        value = record[name]
        # For Python a truth value is a number, too.
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            raise ValueError(f"{of}{name} is a {type(value).__name__}")


def _check_numbers(values: Any, name: str) -> None:
    for value in values or ():
        if not isinstance(value, _NUMBER) or isinstance(value, bool):
            raise ValueError(f"{name} holds a {type(value).__name__}")

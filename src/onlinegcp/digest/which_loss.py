"""The loss of a run, as its settings have it."""

from __future__ import annotations

from onlinegcp.errors import DataError
from onlinegcp.losses import Loss, get_loss
from onlinegcp.losses.registry import from_dict
from onlinegcp.runlog import RunView


def loss_name(view: RunView) -> str:
    """Name of the loss the run was fitted with."""
    given = (view.info.get("model") or {}).get("parameters", {}).get("loss", "gaussian")
    if isinstance(given, dict):
        inner = given.get("loss", given)
        given = inner.get("name", "own") if isinstance(inner, dict) else given.get("own_loss")
    return str(given)


def loss_of(view: RunView) -> Loss:
    """The loss of a run; methods without one measure squares."""
    stored = ((view.info.get("model") or {}).get("parameters") or {}).get("loss", "gaussian")
    if isinstance(stored, dict) and "own_loss" in stored:
        raise DataError(
            "A loss of the package is needed to forecast a run from the command line, but this one "
            f"has {stored['own_loss']!r}. Load its model in Python and use model.forecast."
        )
    return from_dict(stored["loss"]) if isinstance(stored, dict) else get_loss(stored)

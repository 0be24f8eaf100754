"""A step succeeds or leaves no trace: the way back when an error comes up half-way."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def undone_on_error(model: Any) -> Iterator[None]:
    """Give a model back all its attributes if the body fails.

    What a step changes it replaces, so that the old values undo everything, but for states that a
    solver changes in place: such a model stays marked as torn.
    """
    before = dict(model.__dict__)
    try:
        yield
    except BaseException:
        torn = getattr(model, "_torn", False) and before.get("_state") is not None
        model.__dict__.clear()
        model.__dict__.update(before)
        if torn:
            model._torn = True
        raise

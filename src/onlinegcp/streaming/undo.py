"""A step succeeds or leaves no trace: the way back when an error comes up half-way."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def undone_on_error(model: Any) -> Iterator[None]:
    """Give a model back all its attributes if the body fails.

    What a step changes it replaces, so that the old values undo everything.
    """
    before = dict(model.__dict__)
    try:
        yield
    except BaseException:
        model.__dict__.clear()
        model.__dict__.update(before)
        raise

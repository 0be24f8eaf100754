"""A call changes a model as a whole or not at all, and calls of several threads come in turn."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, cast, final


@final
class Turn:
    """A lock that its thread may take again. A copy, or what comes out of a file, is a new one."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[Turn], tuple[()]]:
        return Turn, ()


@contextlib.contextmanager
def undone_on_error(model: Any) -> Iterator[None]:
    """Give a model back all its attributes if the body fails; others wait until it has ended.

    What a step changes it replaces, so that the old values undo everything, and whoever reads
    meanwhile has the state as it was before.
    """
    # A dictionary's own method: of two threads that come at once, both get the same lock.
    with cast(Turn, model.__dict__.setdefault("_turn", Turn())):
        before = dict(model.__dict__)
        try:
            yield
        except BaseException:
            model.__dict__.clear()
            model.__dict__.update(before)
            raise

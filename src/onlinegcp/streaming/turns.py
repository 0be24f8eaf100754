"""Calls that change a model: one at a time, and each of them as a whole or not at all.

A step works on a second copy of the model's arrays and then exchanges the two, so that a reader in
another thread would otherwise find the numbers changing under its eyes.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast, final

Method = TypeVar("Method", bound=Callable[..., Any])


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


def turn_of(model: Any) -> Turn:
    """The lock of a model, made when it is first asked for."""
    # A dictionary's own method: of two threads that come at once, both get the same lock.
    return cast(Turn, model.__dict__.setdefault("_turn", Turn()))


def in_turn(method: Method) -> Method:
    """A method that waits until no other thread is using the model."""

    @functools.wraps(method)
    def waiting(self: Any, *arguments: Any, **options: Any) -> Any:
        with turn_of(self):
            return method(self, *arguments, **options)

    return cast(Method, waiting)


@contextlib.contextmanager
def all_or_nothing(model: Any) -> Iterator[None]:
    """What happens inside changes the model as a whole; an error, or Ctrl-C, undoes all of it."""
    with turn_of(model):
        before = dict(model.__dict__)
        try:
            yield
        except BaseException:
            # What a step changes it replaces, so that the old values are still there.
            model.__dict__.clear()
            model.__dict__.update(before)
            raise

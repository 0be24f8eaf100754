"""Matrix products on one thread, for the time of a block.

A threaded BLAS spins at its barriers. On a machine with other work a product of 1 ms then takes
30 ms, and sums may come out in another order. A block within a block of the same thread costs
nothing: the outer one has made the setting.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

_here = threading.local()  # whether this thread is in such a block


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread (a few microseconds, within another such block one)."""
    if getattr(_here, "limited", False):
        yield
        return
    # Not the controller's own block, which also looks at libraries of other kinds.
    changed = [(each, threads) for each in _libraries() if (threads := each.get_num_threads()) != 1]
    for library, _ in changed:
        library.set_num_threads(1)
    _here.limited = True
    try:
        yield
    finally:
        _here.limited = False
        for library, threads in changed:
            library.set_num_threads(threads)


def hold_blas() -> None:
    """Limit BLAS to one thread for as long as this process lives."""
    for each in _libraries():
        each.set_num_threads(1)


def blas_threads() -> list[int]:
    """Threads that each BLAS of this process may use."""
    return [each.get_num_threads() for each in _libraries()]


@lru_cache(maxsize=1)
def _libraries() -> tuple[Any, ...]:
    return tuple(each for each in _controller().lib_controllers if each.user_api == "blas")


@lru_cache(maxsize=1)
def _controller() -> Any:
    # SciPy brings a BLAS of its own: it must be loaded when the controller looks for them.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()

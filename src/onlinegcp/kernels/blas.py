"""How many threads matrix products may use: as many as the caller asked for, by default one.

A threaded BLAS spins at its barriers. On a machine with other work a product of 1 ms then takes
30 ms, and sums may come out in another order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any


@contextmanager
def blas_threads(count: int = 1) -> Iterator[None]:
    """Limit BLAS to `count` threads for the time of a block (about 30 microseconds)."""
    with _controller().limit(limits=max(1, int(count)), user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _controller() -> Any:
    # SciPy brings a BLAS of its own: it must be loaded when the controller looks for them.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()

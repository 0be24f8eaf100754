"""A Dask cluster of two processes on this machine, for tests that kill one of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from onlinegcp.sums.connecting import PATIENT


@contextmanager
def two_workers(threads: int = 1) -> Iterator[Any]:
    """The cluster; it waits for another worker as long as a busy machine may need."""
    distributed, config = pytest.importorskip("distributed"), pytest.importorskip("dask.config")
    options = {"threads_per_worker": threads, "dashboard_address": None, "silence_logs": 50}
    with (
        config.set(PATIENT),
        distributed.LocalCluster(n_workers=2, processes=True, **options) as workers,
    ):
        yield workers

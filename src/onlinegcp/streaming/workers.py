"""Who works for a model while one of its methods runs: its threads, or its cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from onlinegcp.sums.local import Local, jobs

# One engine for every cluster: it knows what its workers hold.
_ENGINES: dict[tuple[Any, int | None], Local] = {}

Given = ParamSpec("Given")
Found = TypeVar("Found")


def with_workers(
    method: Callable[Concatenate[Any, Given], Found],
) -> Callable[Concatenate[Any, Given], Found]:
    """Let a method's pieces of work be done by the workers of its model."""

    @wraps(method)
    def shared(model: Any, /, *arguments: Given.args, **options: Given.kwargs) -> Found:
        with jobs(engine_of(model)):
            return method(model, *arguments, **options)

    return shared


def engine_of(model: Any) -> int | Local | None:
    """The cluster of a model, or the number of its threads."""
    cluster, threads = getattr(model, "cluster", None), model.n_jobs
    if cluster is None:
        return None if threads is None else int(threads)
    key = (cluster if isinstance(cluster, str) else id(cluster), threads)
    if key not in _ENGINES:
        from onlinegcp.kernels.blas import hold_blas
        from onlinegcp.kernels.machine import facts
        from onlinegcp.sums.dask import Cluster

        _ENGINES[key] = Cluster(cluster, threads, facts, hold_blas)
    return _ENGINES[key]

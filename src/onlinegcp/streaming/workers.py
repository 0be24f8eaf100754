"""Who works for a model while one of its methods runs: its threads, or its cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from onlinegcp.sums.local import jobs

Given = ParamSpec("Given")
Found = TypeVar("Found")


def with_workers(
    method: Callable[Concatenate[Any, Given], Found],
) -> Callable[Concatenate[Any, Given], Found]:
    """Let a method's pieces of work be done by the workers of its model."""

    @wraps(method)
    def shared(model: Any, /, *arguments: Given.args, **options: Given.kwargs) -> Found:
        with jobs(model.n_jobs):
            return method(model, *arguments, **options)

    return shared

"""Predict, then learn: a stream passed through a model, each slice judged before it is learned."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from onlinegcp.slices import Slice, as_slice
from onlinegcp.streaming import StepRecord, StreamingModel
from onlinegcp.streaming.naming import names_of

Verdict = TypeVar("Verdict")


@dataclass(frozen=True)
class Turn(Generic[Verdict]):
    """One slice that was judged and learned.

    Attributes
    ----------
    number
        Its number in the stream, from 1.
    x
        The slice.
    verdict
        What the judge said before it was learned; None during the warm start, which predicts
        nothing.
    record
        The model's own account; None during the warm start.
    seconds
        What learning took.
    """

    number: int
    x: Slice
    verdict: Verdict | None
    record: StepRecord | None
    seconds: float


def prequential(
    model: StreamingModel,
    stream: Iterable[Any],
    judge: Callable[[int, Slice], Verdict] = lambda number, x: None,  # type: ignore[assignment, return-value]
) -> Iterator[Turn[Verdict]]:
    """Let a model predict every slice of a stream before it learns it.

    Parameters
    ----------
    model
        The model, which learns the stream.
    stream
        Slices, or anything `as_slice` takes; labels say where rows belong.
    judge
        Called with the number and the slice before the model learns it, once the warm start is
        over.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinegcp import OnlineGCP
    >>> slices = np.random.default_rng(0).poisson(3.0, (6, 4, 3))
    >>> model = OnlineGCP(1, "poisson", init_slices=4)
    >>> turns = list(prequential(model, slices, lambda number, x: model.loss_of(x)))
    >>> [turn.verdict is None for turn in turns]
    [True, True, True, True, False, False]
    >>> abs(turns[-1].verdict - turns[-1].record.prequential) < 1e-6
    True
    """
    for number, given in enumerate(stream, 1):
        begun, seen = model.started_, model.__sklearn_is_fitted__()
        x = model.aligned(given)[0] if seen else as_slice(given)
        verdict = judge(number, x) if begun else None
        start = time.perf_counter()
        model.partial_fit([x if names_of(given) is None else given])
        seconds = time.perf_counter() - start
        yield Turn(number, x, verdict, model.last_ if begun else None, seconds)

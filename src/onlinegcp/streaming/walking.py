"""Several slices in one call: how many a method is given at once, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from onlinegcp.slices import Slice
from onlinegcp.streaming.record import StepRecord
from onlinegcp.streaming.scoring import Stopwatch
from onlinegcp.streaming.showing import PAST
from onlinegcp.streaming.state import FloatArray, ModelState

if TYPE_CHECKING:
    from onlinegcp.streaming.model import StreamingModel

# Compiled code cannot be interrupted: so many cells are learned within a second.
MOST_CELLS = 1 << 20


class Walk(NamedTuple):
    """What a method made of some slices.

    Attributes
    ----------
    state
        The state after the last of them.
    record
        The account of that one; None where the method stopped before the last it was given, and
        another call will follow.
    held
        What each component held in each of them (n, R), see `ModelState.magnitudes`.
    """

    state: ModelState
    record: StepRecord | None
    held: FloatArray


def walked(
    state: ModelState,
    held: FloatArray,
    slices: Sequence[Slice],
    number: int,
    losses: Sequence[float],
    watch: Stopwatch,
) -> Walk:
    """What compiled code made of some slices, or of the first of them where it stopped early.

    Parameters
    ----------
    state, held
        The state after the last it learned, and what components held in those it learned.
    slices, number
        All that it was given, and the number of the first.
    losses
        Prequential and local loss of the last, where it learned that.
    watch
        Running since the call began.
    """
    done, x = len(held), slices[-1]
    if done < len(slices):
        return Walk(state, None, held)
    watch.lap("solver")
    record = StepRecord(
        number=number + done - 1,
        time=x.time,
        nnz=x.nnz,
        n_observed=x.n_observed,
        norm_squared=x.norm_squared,
        prequential=losses[0],
        local=losses[1],
        seconds={part: seconds / done for part, seconds in watch.seconds.items()},
    )
    return Walk(state, record, held)


def within_reach(model: StreamingModel, slices: Sequence[Slice], first: int) -> Sequence[Slice]:
    """The slices that a model may learn in one call, from the first on.

    No more than whose weights are remembered, and up to where the number of slices is a power of
    two, for there a model is looked at.
    """
    if not model.walks:
        return slices[first : first + 1]
    n = model.n_slices_
    most = min(PAST, (1 << n.bit_length()) - n, MOST_CELLS // slices[first].size)
    return slices[first : first + max(1, most)]

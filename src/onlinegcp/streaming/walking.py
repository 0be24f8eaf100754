"""Several slices in one call: how many a method is given at once, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from onlinegcp.slices import Slice
from onlinegcp.streaming.record import StepRecord
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

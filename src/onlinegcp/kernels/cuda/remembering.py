"""How much of the past to keep, decided on the card: the rules of `solvers.auto.forgetting`.

So the host need not look at a slice between solving its weights and learning it.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

import math
from functools import cache
from typing import Any

from numba import cuda, float64
from numpy.typing import NDArray

from onlinegcp.kernels.cuda.boxes import Box
from onlinegcp.kernels.cuda.card import Card
from onlinegcp.kernels.cuda.lanes import THREADS, device, kernel
from onlinegcp.kernels.cuda.overlap import after_others
from onlinegcp.kernels.cuda.questions import Lesson, Recalled, Rules

Array = NDArray[Any]

RULES = len(Rules._fields)
MEMORY, BEND, CAP = range(3)  # places in `numbers`
# As names of numbers in a kernel, which knows no tuples with names.
(
    WINDOW, COMMON_STEP, SHORTEST, REACH, DOWN_STEP, UP_STEP, RETURN, OWN_LOW, OWN_HIGH, LONGEST
) = range(RULES)  # fmt: skip


@device
def between(value, least, most):
    """The nearest number within bounds; NaN stays."""
    if value < least:
        return least
    return most if value > most else value


@cache
def remember_kernel() -> Any:
    """Move the memory against the slopes of the loss, and make forgetting factors of it."""

    @kernel
    def remember(
        width,
        modes,  # whose `exposed` is part of the slopes; 0: of none
        slopes,  # (2 width + 2,) slopes, bends and the common bend
        exposed,  # (modes * width,)
        rules,
        numbers,  # (3,) memory, bend, the schedule's factor
        own,
        bends,
        lift,
        new_numbers,  # (2,) out
        new_own,  # (width,) out, and so on
        new_bends,
        lam,
        new_lift,
    ):
        after_others()
        held = cuda.shared.array(0, float64)
        r = cuda.threadIdx.x
        while r < width:
            slope = slopes[r]
            for k in range(modes):
                slope += exposed[k * width + r]
            held[r] = slope
            r += cuda.blockDim.x
        cuda.syncthreads()
        total = 0.0
        for q in range(width):
            total += held[q]
        bend = rules[WINDOW] * numbers[BEND] + slopes[2 * width]
        step = between(-total / bend, -rules[COMMON_STEP], rules[COMMON_STEP])
        memory = between(numbers[MEMORY] + step, rules[SHORTEST], rules[REACH])
        cap = numbers[CAP]
        r = cuda.threadIdx.x
        while r < width:
            curve = rules[WINDOW] * bends[r] + slopes[width + r]
            move = between(-held[r] / curve, rules[DOWN_STEP], rules[UP_STEP])
            mine = between(rules[RETURN] * (own[r] + move), rules[OWN_LOW], rules[OWN_HIGH])
            keep = -math.expm1(-between(memory + mine, rules[SHORTEST], rules[LONGEST]))
            keep = cap if keep > cap else keep
            raised = (1.0 - keep) / max(keep, 1e-12) if keep > 0.0 else 0.0
            new_own[r] = mine
            new_bends[r] = curve
            lam[r] = keep
            new_lift[r] = raised + lift[r]
            r += cuda.blockDim.x
        if cuda.threadIdx.x == 0:
            new_numbers[MEMORY] = memory
            new_numbers[BEND] = bend

    return remember


class Remembering:
    """The vectors of the forgetting on either side, as part of what else travels.

    Parameters
    ----------
    card
        Where it is decided.
    asked, told
        Boxes with the vectors of `asks` and `tells`.
    width
        Padded number of components.
    """

    def __init__(self, card: Card, asked: Box, told: Box, width: int) -> None:
        self._card, self._asked, self._told, self._width = card, asked, told, width

    @staticmethod
    def asks(width: int) -> dict[str, int]:
        """Vectors that go to the card."""
        numbers = {"rules": RULES, "remembered": 3}
        return numbers | dict.fromkeys(("own", "bends", "lift", "lam"), width)

    @staticmethod
    def tells(width: int) -> dict[str, int]:
        """Vectors that come back."""
        return {"remembered": 2} | dict.fromkeys(("own", "bends", "lam", "lift"), width)

    def ask(self, lesson: Lesson) -> None:
        """Write down what is known before the slice."""
        asked, kept = self._asked, lesson.kept
        asked["own"][:], asked["bends"][:], asked["lift"][:] = kept.own, kept.bends, kept.lift
        if lesson.rules is None:
            asked["lam"][:] = kept.lam
        else:
            asked["rules"][:] = lesson.rules
            asked["remembered"][:] = kept.memory, kept.bend, lesson.cap

    def decide(self, slopes: Any, exposed: Any, modes: int) -> None:
        """Part of a recording: move the memory by slopes that lie on the card."""
        asked, told = self._asked.card, self._told.card
        remember_kernel()[1, THREADS, self._card.stream, 8 * self._width](
            self._width, modes, slopes, exposed, asked("rules"), asked("remembered"),
            asked("own"), asked("bends"), asked("lift"), told("remembered"), told("own"),
            told("bends"), told("lam"), told("lift"),
        )  # fmt: skip

    def factors(self, learned: bool) -> tuple[Any, Any]:
        """Forgetting factors and d log(lam * rate) / d eta, on the card."""
        box = self._told if learned else self._asked
        return box.card("lam"), box.card("lift")

    def decided(self, lesson: Lesson) -> Recalled:
        """What was decided."""
        told = self._told
        if lesson.rules is None:
            return lesson.kept
        memory, bend = told["remembered"].tolist()
        lam, lift, own, bends = (told[name].copy() for name in ("lam", "lift", "own", "bends"))
        return Recalled(lam, lift, own, bends, memory, bend)

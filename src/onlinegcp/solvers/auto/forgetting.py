"""How fast the past is forgotten: a fixed half-life, or learned from the prequential loss.

The memory of N slices is held as eta = log N, one for the model and a correction per component.
Factors carry their derivative with respect to eta; the slope of the prequential loss along it
moves eta by a damped Gauss-Newton step. Slope and curvature scale with the data alike, so there
is no learning rate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import DataError
from onlinegcp.solvers.auto.model import Forgetting

Array = NDArray[Any]

# Weight of slice t among the first t is t^-KAPPA: a little more than an equal share, which
# discards what a poor warm start explained badly.
KAPPA = 0.8
START = -np.log(1.0 - 0.93)  # memory of 14 slices
# Below one and a half slices there are more unknowns than data; a thousand is as good as for ever.
SHORTEST, LONGEST = np.log(1.5), np.log(1000.0)
WINDOW = 0.95  # curvature is averaged over about 20 slices
# One slice moves the memory by a tenth at most, so that no single storm or holiday sets it. A
# component may fall three times as fast: forgetting too late costs more than forgetting too much,
# which the next slices mend.
COMMON_STEP = 0.1
DOWN_STEP, UP_STEP = -0.3, 0.1
RETURN = 0.98  # a component falls back to the common memory within about 50 slices
OWN_LOW, OWN_HIGH = -3.0, 2.0  # 1/20 to 7 times the common memory
FIRST_BEND = 10.0  # events: what a component must have seen before its slope means anything


def start(forget: float | str, width: int, unit: float) -> Forgetting:
    """Make the state for forget="auto", 1.0 (stationary) or a half-life in slices (> 1).

    Parameters
    ----------
    forget
        "auto", 1.0 or a half-life.
    width
        Padded number of components.
    unit
        Size of one event in the data's units.
    """
    return Forgetting(
        fixed=parse(forget),
        memory=float(START),
        own=np.zeros(width),
        bend=FIRST_BEND * unit,
        bends=np.full(width, FIRST_BEND * unit),
        lift=np.zeros(width),
    )


def parse(forget: float | str) -> float | None:
    """Return the forgetting factor per slice, None for "auto"; refuses what means nothing.

    Examples
    --------
    >>> parse("auto"), parse(1.0), round(parse(10), 4)
    (None, 1.0, 0.933)
    """
    if forget == "auto":
        return None
    number = isinstance(forget, int | float | np.number) and not isinstance(forget, bool)
    if number and 1.0 <= float(forget) < np.inf:
        return 1.0 if forget == 1.0 else float(2.0 ** (-1.0 / float(forget)))
    raise DataError(
        f"forget must be 'auto', 1.0 (nothing is forgotten) or a half-life of more than one slice, "
        f"but it is {forget!r}. For a forgetting factor theta give log(1/2) / log(theta)."
    )


def schedule(n_slices: int) -> float:
    """Largest forgetting factor after n slices: the new one weighs n^-KAPPA of everything.

    Examples
    --------
    >>> schedule(1), round(schedule(100), 4)
    (0.0, 0.9828)
    """
    if n_slices <= 1:
        return 0.0
    share, before = n_slices**-KAPPA, (n_slices - 1) ** -KAPPA
    return float((1.0 - share) / share * before)


def learn(state: Forgetting, slopes: Array, bends: Array, bend: float, cap: float) -> None:
    """Move the memory against the slope of the prequential loss.

    Parameters
    ----------
    state
        Updated in place.
    slopes, bends
        Slope and curvature of the loss in each component's log-memory.
    bend
        Curvature of the loss in the common log-memory.
    cap
        The schedule's factor for this slice.
    """
    state.bend = WINDOW * state.bend + bend
    state.bends = WINDOW * state.bends + bends
    step = -float(slopes.sum()) / state.bend
    # Not np.clip, which takes ten times as long for so few numbers; NaN passes through either.
    moved = state.memory + _between(step, -COMMON_STEP, COMMON_STEP)
    state.memory = _between(moved, float(SHORTEST), reach(cap))
    own = np.minimum(np.maximum(-slopes / state.bends, DOWN_STEP), UP_STEP)
    state.own = np.minimum(np.maximum(RETURN * (state.own + own), OWN_LOW), OWN_HIGH)


def reach(cap: float) -> float:
    """The longest log-memory that the schedule's factor allows."""
    # Within a factor of two of the schedule's memory, eta could not come back in time otherwise.
    longest = -np.log1p(-cap) + np.log(2.0) if cap < 1.0 else LONGEST
    return float(max(SHORTEST, min(LONGEST, longest)))


def _between(value: float, least: float, most: float) -> float:
    return least if value < least else most if value > most else float(value)


def learn_common(state: Forgetting, slope: float, bend: float, cap: float) -> None:
    """Move the common memory alone, where the past mixes the components."""
    slopes = np.zeros_like(state.own)
    slopes[0] = slope
    learn(state, slopes, np.zeros_like(slopes), bend, cap)
    state.own[:] = 0.0


def factors(state: Forgetting, cap: float) -> tuple[Array, Array]:
    """Return the forgetting factor of every component and d log(lam * rate) / d eta."""
    if state.fixed is not None:
        return np.full_like(state.own, min(cap, state.fixed)), np.zeros_like(state.own)
    memory = np.clip(state.memory + state.own, SHORTEST, LONGEST)
    lam = np.minimum(cap, -np.expm1(-memory))
    lift = np.where(lam > 0.0, (1.0 - lam) / np.maximum(lam, 1e-12), 0.0) + state.lift
    return lam, lift


def reset_component(state: Forgetting, component: int, unit: float) -> None:
    """Start a component's own memory afresh, after its slot was given a new pattern."""
    state.own[component] = 0.0
    state.bends[component] = FIRST_BEND * unit
    state.lift[component] = 0.0

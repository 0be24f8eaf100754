"""Which component a model could do without: the one that the others can imitate best.

The pattern of each is approximated by the others' (under the bound, where there is one). What is
left over, as large as the component usually is, would be missed; the rest the others would take
over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.solvers.auto.model import Model
from onlinegcp.solvers.auto.nonnegative import solve_vector
from onlinegcp.solvers.auto.resizing import with_components

Array = NDArray[Any]

RIDGE = 1e-9  # of cosines, so that two equal patterns do not make them singular


@dataclass(frozen=True)
class Imitation:
    """A component, and how the others would stand in for it.

    Attributes
    ----------
    given
        Its place.
    shares
        By how much the weight of each component rises per unit of the given one's (R,); 0 for
        itself.
    """

    given: int
    shares: Array


def most_redundant(model: Model) -> Imitation:
    """The component that would be missed least."""
    rank = model.factors.rank
    gram = np.ones((rank, rank))
    for view in model.factors.views():
        gram *= view.T @ view
    norms = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    alike = gram / np.outer(norms, norms) + RIDGE * np.eye(rank)
    shares = np.zeros((rank, rank))  # of unit patterns
    missed = np.zeros(rank)
    for given in range(rank):
        others = [r for r in range(rank) if r != given]
        system, right = alike[np.ix_(others, others)], alike[others, given]
        row = solve_vector(system, right) if model.bounded else np.linalg.solve(system, right)
        shares[given, others] = row
        left = 1.0 - 2.0 * row @ right + row @ system @ row
        missed[given] = max(left, 0.0) * model.past.importance(model.usage[given], norms[given])
    least = int(np.argmin(missed))
    return Imitation(least, shares[least] * norms[least] / norms)


def without(model: Model, imitation: Imitation) -> Model:
    """The model without a component; the others have always had its part besides their own."""
    twin, given = model.copy(), imitation.given
    for vector in (twin.mean_weights, twin.last_weights):
        vector[: len(imitation.shares)] += imitation.shares * vector[given]
    twin.past.fold(given, imitation.shares)
    left = [place for place in range(twin.factors.rank) if place != given]
    return with_components(twin, left)

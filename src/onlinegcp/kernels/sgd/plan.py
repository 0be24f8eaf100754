"""The records that kernels of stochastic gradient descent share: plans, samples, problems.

A stratum says where its cells come from (`source`), how many, what each counts for (`weight`),
where the datum comes from (`values`), and whether the loss of a zero is subtracted (`corrected`,
the listed part of semi-stratified sampling). Sampling rules live in `solvers.sgd.sampling`; kernels
only carry out a plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.layout import Blocks, aligned_zeros

# Sources of cells.
LISTED_ALL = 0  # every listed cell once
LISTED_RANDOM = 1  # listed cells, with replacement
CELL_ALL = 2  # every cell of the box once
CELL_RANDOM = 3  # cells of the box, with replacement
ZERO_ALL = 4  # every unlisted cell once
ZERO_REJECT = 5  # unlisted cells: draw any cell until it is not listed
ZERO_SELECT = 6  # unlisted cells: draw its rank among them (zeros are rare)

# Sources of data.
VALUE_ZERO = 0  # the datum is taken as 0
VALUE_ARRAY = 1  # read from the dense array
VALUE_LOOKUP = 2  # listed value if the cell is listed, else 0
VALUE_LISTED = 3  # value of the listed cell

# Kinds of step.
SGD, ADAM, ADAGRAD, AMSGRAD = 0, 1, 2, 3

# One random word serves several modes as long as their product stays below this: the largest
# relative difference between two cells' probabilities is then 2^40 / 2^64 = 6e-8.
WORD_CELLS = 1 << 40

# Rejection is planned only where at least half of the cells are zeros: missing this many times in
# a row has probability 2^-200.
MAX_ATTEMPTS = 200


@dataclass(frozen=True)
class Stratum:
    """One kind of draw.

    Attributes
    ----------
    source, values
        Codes of this module.
    count
        Number of samples.
    weight
        What each sample counts for.
    corrected
        Whether f(0, m) is subtracted from f(x, m).
    spread
        Whether random cells are drawn one from each of `count` equal shares of the range, in
        order, instead of all from the whole range. The mean over draws is the same, the variance
        smaller, and neighbouring samples touch neighbouring memory. A rejected cell is replaced
        by one from the whole range: summed over the samples, every unlisted cell then still has
        the same probability.
    """

    source: int
    count: int
    weight: float
    values: int = VALUE_ZERO
    corrected: bool = False
    spread: bool = True

    @property
    def share(self) -> int:
        """Length of one share when the range is 2^64, or 0 for draws from the whole range."""
        return (1 << 64) // self.count if self.spread and self.count > 1 else 0


@dataclass(frozen=True)
class Plan:
    """The strata of a sample, in the order in which samples are numbered."""

    strata: tuple[Stratum, ...]

    @property
    def count(self) -> int:
        """Number of samples."""
        return sum(stratum.count for stratum in self.strata)

    @property
    def sources(self) -> set[int]:
        """Which sources occur."""
        return {stratum.source for stratum in self.strata}

    @property
    def needs_membership(self) -> bool:
        """Whether some draw asks if a cell is listed."""
        return ZERO_REJECT in self.sources or self.needs_lookup

    @property
    def needs_lookup(self) -> bool:
        """Whether some draw asks for the value of any cell."""
        return any(stratum.values == VALUE_LOOKUP for stratum in self.strata)

    @property
    def needs_linear(self) -> bool:
        """Whether some draw counts unlisted cells."""
        return bool(self.sources & {ZERO_ALL, ZERO_SELECT})


@dataclass(frozen=True)
class Sample:
    """Cells that stand for a slice: sum of weight * f(value, m) estimates its loss.

    Attributes
    ----------
    index
        Coordinates (n, d), int32.
    value, weight
        Data and what they count for, (n,) float64.
    corrected
        The first so many samples count weight * (f(value, m) - f(0, m)).
    """

    index: NDArray[np.int32]
    value: NDArray[np.float64]
    weight: NDArray[np.float64]
    corrected: int = 0


def words_of_modes(shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Number of the random word from which each mode's coordinate is taken.

    Examples
    --------
    >>> words_of_modes((100_000, 100_000, 1_000)).tolist()
    [0, 0, 1]
    """
    words = []
    word, cells = 0, 1
    for length in shape:
        if cells * length > WORD_CELLS:
            word, cells = word + 1, 1
        cells *= length
        words.append(word)
    return np.array(words, dtype=np.int64)


@dataclass(frozen=True)
class FoldedHistory:
    """What ties the factors to their old values, folded to one matrix (errata row 15).

    Attributes
    ----------
    S
        Sum of w_h s_h s_h' over the history, (R, R), or None. The penalty is
        1/2 sum_h w_h ||M(old, s_h) - M(new, s_h)||^2.
    old
        The factor matrices held as the past.
    anchors
        Weights w_k of the penalties w_k / 2 ||A_k - old_k||^2, one per mode, or None.
    """

    S: NDArray[np.float64] | None
    old: Blocks
    anchors: NDArray[np.float64] | None = None


@dataclass
class Moments:
    """Running means that a step method carries from step to step; arrays like the blocks'.

    Attributes
    ----------
    u, v, largest
        First moment, second moment and its largest value so far, for the factors.
    weights_u, weights_v, weights_largest
        The same for the weights.
    taken
        Number of steps taken.
    """

    u: NDArray[Any]
    v: NDArray[Any]
    largest: NDArray[Any]
    weights_u: NDArray[Any]
    weights_v: NDArray[Any]
    weights_largest: NDArray[Any]
    taken: int = 0

    @classmethod
    def zeros(
        cls, blocks: Blocks, kind: int, *, factors: bool = True, weights: bool = True
    ) -> Moments:
        """Moments before the first step; what the method or the solve does not use is empty."""
        none = aligned_zeros((0, blocks.width))

        def make(wanted: bool, rows: int) -> NDArray[Any]:
            return aligned_zeros((rows, blocks.width)) if wanted else none

        first, second, top = kind in (ADAM, AMSGRAD), kind != SGD, kind == AMSGRAD
        rows = len(blocks.data)
        return cls(
            u=make(first and factors, rows),
            v=make(second and factors, rows),
            largest=make(top and factors, rows),
            weights_u=make(first and weights, 1),
            weights_v=make(second and weights, 1),
            weights_largest=make(top and weights, 1),
        )

    def copy(self) -> Moments:
        """The same numbers in new memory."""
        out = {name: _aligned_copy(getattr(self, name)) for name in _MOMENT_NAMES}
        return Moments(**out, taken=self.taken)


@dataclass(frozen=True)
class Problem:
    """One block problem of the unified SGD solver, as kernels see it.

    Attributes
    ----------
    blocks, weights
        The unknowns, changed in place: stacked factors, and (width,) padded weights.
    modes
        Which factor matrices are updated.
    update_weights
        Whether the weights are updated.
    code, parameter
        The loss.
    lower
        Bound of every updated number.
    ridge, weight_ridge
        Penalties ridge / 2 ||A_k||^2 and weight_ridge / 2 ||weights||^2 on updated blocks.
    history
        Ties to the past, or None.
    row_weights
        What cells count for by their last coordinate, (I_d,), or None.
    """

    blocks: Blocks
    weights: NDArray[Any]
    modes: tuple[int, ...]
    update_weights: bool
    code: int = 0
    parameter: float = 0.0
    lower: float = -np.inf
    ridge: float = 0.0
    weight_ridge: float = 0.0
    history: FoldedHistory | None = None
    row_weights: NDArray[np.float64] | None = None


def _aligned_copy(array: NDArray[Any]) -> NDArray[Any]:
    out = aligned_zeros(array.shape)
    out[...] = array
    return out


_MOMENT_NAMES = ("u", "v", "largest", "weights_u", "weights_v", "weights_largest")

"""Which cells stand for a slice: rules that turn a slice into a plan of draws.

Every rule is unbiased: the weighted sum over its sample has the slice's loss as its mean. Draws are
with replacement; a stratum that is asked for at least as many cells as it has is taken as a whole
with weight 1 instead (errata row 9). Formulas: Kolda & Hong (2020), sections 4 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from onlinegcp.checks import check_choice, check_whole
from onlinegcp.errors import DataError
from onlinegcp.kernels.sgd.plan import (
    CELL_ALL,
    CELL_RANDOM,
    LISTED_ALL,
    LISTED_RANDOM,
    VALUE_ARRAY,
    VALUE_LISTED,
    VALUE_LOOKUP,
    VALUE_ZERO,
    ZERO_ALL,
    ZERO_REJECT,
    ZERO_SELECT,
    Plan,
    Stratum,
)

if TYPE_CHECKING:
    from onlinegcp.slices import Slice

KINDS = ("uniform", "stratified", "semi_stratified", "all", "dense")

# Sample numbers are 40 bits wide.
_MOST_SAMPLES = 1 << 40


@dataclass(frozen=True)
class Sampler:
    """A sampling rule.

    Parameters
    ----------
    kind
        "uniform" (any observed cell), "stratified" (listed cells and unlisted zeros apart),
        "semi_stratified" (listed cells, and any cell taken as a zero: no rejection, more
        variance), "all" (every observed cell, no randomness) or "dense" (Gaussian loss only:
        the exact gradient from matrix products).
    n_listed
        Cells drawn from the listed ones ("uniform": from all observed ones); None for the default
        size of the slice at hand.
    n_zeros
        Cells drawn from the unlisted zeros; None for the default.

    Examples
    --------
    >>> Sampler("stratified", n_listed=1000, n_zeros=5000).kind
    'stratified'
    """

    kind: str = "stratified"
    n_listed: int | None = None
    n_zeros: int | None = None

    def __post_init__(self) -> None:
        check_choice("A sampler's kind", self.kind, KINDS)
        for name in ("n_listed", "n_zeros"):  # a stratum without samples would bias the gradient
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), 1, _MOST_SAMPLES - 1)

    def for_gradient(self, x: Slice, iterations: int) -> Sampler:
        """Fill in the default sizes for `iterations` gradients of a slice.

        Parameters
        ----------
        x
            The slice.
        iterations
            Most iterations that the solve may take.
        """
        steps = max(1, iterations)
        if self.kind == "uniform":
            wanted = max(1000, -(-10 * x.n_observed // steps))
            return self._sized(max(1, min(wanted, x.n_observed)))
        return self._sized(max(1000, -(-3 * x.n_listed // steps)))

    def for_objective(self, x: Slice) -> Sampler:
        """Fill in the default sizes for estimating the objective of a slice."""
        if self.kind == "uniform":
            wanted = max(-(-x.n_observed // 10), 1_000_000)
            return self._sized(max(1, min(wanted, x.n_observed)))
        return self._sized(max(-(-x.n_listed // 100), 100_000))

    def _sized(self, count: int) -> Sampler:
        return replace(
            self,
            n_listed=count if self.n_listed is None else self.n_listed,
            n_zeros=count if self.n_zeros is None else self.n_zeros,
        )

    def plan(self, x: Slice) -> Plan:
        """What to draw from a slice; sizes left open are those of one gradient.

        Parameters
        ----------
        x
            The slice; when it is empty of observed cells, so is the plan.
        """
        sized = self.for_gradient(x, 1000)
        n_listed, n_zeros = sized.n_listed or 0, sized.n_zeros or 0
        zeros = x.n_unlisted_zeros
        if self.kind in ("all", "dense"):
            if x.n_observed >= _MOST_SAMPLES:
                raise DataError(
                    f"Taking every cell needs fewer than 2^40 observed cells, the slice has "
                    f"{x.n_observed}; use the stratified sampler."
                )
            n_listed = n_zeros = max(1, x.n_observed)
        if self.kind == "uniform":
            if not zeros:
                strata = [_listed(x, n_listed)]
            elif n_listed >= x.size:
                strata = [_listed(x, x.size), _zeros(x, x.size)]
            else:
                strata = [Stratum(CELL_RANDOM, n_listed, x.size / n_listed, VALUE_LOOKUP)]
        elif self.kind == "semi_stratified" and zeros:
            strata = [replace(_listed(x, n_listed), corrected=True), _any_as_zero(x, n_zeros)]
        else:
            strata = [_listed(x, n_listed), _zeros(x, n_zeros)]
        return Plan(tuple(stratum for stratum in strata if stratum.count))


def get_sampler(sampler: str | Sampler | None, x: Slice) -> Sampler:
    """Turn an option into a sampler.

    Parameters
    ----------
    sampler
        A `Sampler`, the name of a kind, or None: stratified where a slice has unlisted zeros,
        else uniform.
    x
        The slice it is for.
    """
    if sampler is None:
        return Sampler("stratified" if x.n_unlisted_zeros else "uniform")
    if isinstance(sampler, Sampler):
        return sampler
    if not isinstance(sampler, str):
        raise DataError(
            f"A sampler must be a Sampler or one of {', '.join(KINDS)}, got {sampler!r}; "
            "pass a name, or Sampler(kind, n_listed, n_zeros)."
        )
    return Sampler(sampler)


def _listed(x: Slice, count: int) -> Stratum:
    """The listed cells; those of a dense array are all cells, which need no list."""
    dense = x.array is not None
    values = VALUE_ARRAY if dense else VALUE_LISTED
    if count >= x.n_listed:
        return Stratum(CELL_ALL if dense else LISTED_ALL, x.n_listed, 1.0, values)
    return Stratum(CELL_RANDOM if dense else LISTED_RANDOM, count, x.n_listed / count, values)


def _zeros(x: Slice, count: int) -> Stratum:
    """The unlisted zeros; rejection is used where it accepts at least every second cell."""
    zeros = x.n_unlisted_zeros
    if count >= zeros:
        return Stratum(ZERO_ALL, zeros, 1.0, VALUE_ZERO)
    source = ZERO_REJECT if 2 * zeros >= x.size else ZERO_SELECT
    return Stratum(source, count, zeros / count, VALUE_ZERO)


def _any_as_zero(x: Slice, count: int) -> Stratum:
    if count >= x.size:
        return Stratum(CELL_ALL, x.size, 1.0, VALUE_ZERO)
    return Stratum(CELL_RANDOM, count, x.size / count, VALUE_ZERO)

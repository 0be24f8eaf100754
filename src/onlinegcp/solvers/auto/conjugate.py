"""The past of Poisson and odds losses: a conjugate prior per entry, updated in closed form.

Per row and component the past is a Gamma prior, shape old factor times rate, which the slice's
responsibilities and exposure update: new = (lam rate old + phi) / (lam rate + exposure). There is
no step size, and entries stay positive. For Poisson all modes move at once, as in EM (one step for
the whole model), and slice loss plus history do not rise, the floor under the factors aside. Other
losses, and missing cells, move one mode after the other, because their exposure changes with every
mode; scaling the columns, or sampled exposure, may then raise the sum a little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import DataError
from onlinegcp.kernels.auto import conjugate_rows
from onlinegcp.kernels.auto.arguments import Blend
from onlinegcp.kernels.layout import ALL_MODES, Blocks
from onlinegcp.losses import Loss, OddsForm
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import forgetting, newton, seeds
from onlinegcp.solvers.auto.cells import cells_of
from onlinegcp.solvers.auto.checkerboard import Checkerboard
from onlinegcp.solvers.auto.held_out import Parts
from onlinegcp.solvers.auto.model import Model, Past, Step, silent
from onlinegcp.solvers.auto.newton import Solution
from onlinegcp.solvers.auto.odds_sums import OddsSums, Slopes, sum_columns
from onlinegcp.solvers.auto.part_sums import PartSums
from onlinegcp.solvers.auto.resizing import taken
from onlinegcp.sums import verbs
from onlinegcp.sums.chunks import row_blocks

Array = NDArray[Any]

SWEEPS = 2  # over all modes: the second sees what the first has moved
# Entries are kept above FLOOR_EVENTS over the component's mass, and never forced above
# FLOOR_SHARE of a uniform column: multiplicative updates cannot leave zero by themselves.
FLOOR_EVENTS = 0.1
FLOOR_SHARE = 0.01
# The factors move on before the weights could be used to more digits than these.
STREAM_TOLERANCE = 1e-3
STREAM_STEPS = 3


@dataclass
class Conjugate(Past):
    """What the model remembers besides factors whose columns sum to one.

    Attributes
    ----------
    rate
        Accumulated exposure of every entry (rows, width).
    mass
        Accumulated counts per component (width,), forgotten by the schedule only: a floor that
        follows the learned forgetting would rise as memory shortens and leak mass.
    sensitivity
        Derivative of the factors with respect to the log-memory (rows, width).
    """

    name: ClassVar[str] = "conjugate"
    rate: Array
    mass: Array
    sensitivity: Array

    @classmethod
    def start(cls, factors: Blocks, *, bounded: bool) -> Self:
        """The past before the first slice."""
        rows, width = factors.data.shape
        return cls(np.zeros((rows, width)), np.zeros(width), np.zeros((rows, width)))

    def absorb(
        self, model: Model, x: Slice, loss: Loss, weights: Array, cap: float, seed: int
    ) -> None:
        """Take in a slice of the warm start at the factors as they are."""
        exposure = np.zeros_like(model.factors.data)
        _sums(model, x, loss, seed, model.n_slices).rates(weights, ALL_MODES, exposure)
        self.rate = cap * self.rate + exposure
        self.mass = cap * self.mass + weights

    def settle(self, model: Model, rows: Array, slices: Sequence[Slice]) -> None:
        """Learn the size of one event, and raise the factors to the floor it makes."""
        logs, count = 0.0, 0
        for x in slices:
            value = cells_of(x).value
            logs, count = logs + float(np.log(value).sum()), count + value.size
        model.unit = float(np.exp(logs / max(count, 1)))
        model.memory.bend *= model.unit
        model.memory.bends *= model.unit
        self.tidy(model)

    def step(self, model: Model, x: Slice, loss: Loss, cap: float, seed: int) -> Step:
        """Score a slice, then learn it."""
        sums = _sums(model, x, loss, seed, model.n_slices)
        if sums.empty:
            return silent(model.factors.width)
        weights, steps, before = newton.solve_roughly(
            sums, _start(model, sums), tolerance=STREAM_TOLERANCE, max_steps=STREAM_STEPS
        )
        slopes = None
        if model.memory.learned:
            slopes = sums.slopes(weights, self.sensitivity)
            forgetting.learn(model.memory, slopes.slopes, slopes.bends, slopes.bend, cap)
        if before is None:
            before = sums.loss(weights) if slopes is None else sums.value(weights) - slopes.logs
        lam, _ = forgetting.factors(model.memory, cap)
        weights = self.update(model, sums, weights, cap, slopes)
        # A further multiplicative step for the weights changed no loss by more than 1e-4.
        return Step(weights, before, sums.loss(weights), steps, lam)

    def update(
        self, model: Model, sums: OddsSums, weights: Array, cap: float, slopes: Slopes | None
    ) -> Array:
        """Absorb one slice into the factors; return the weights for the new ones.

        Parameters
        ----------
        model
            Updated in place; columns sum to one before and after.
        sums
            The slice, over the model's factors.
        weights
            Weights solved with the factors before the update.
        cap
            The schedule's forgetting factor for this slice.
        slopes
            What the slice says at these factors, where that is known already.
        """
        factors, memory = model.factors, model.memory
        lam, lift = forgetting.factors(memory, cap)
        old = verbs.copied(factors.data)
        sweep = self._sweep_all if sums.shares_exposure else self._sweep_modes
        weights, phi, exposure, scale = sweep(sums, weights, lam, old, slopes)
        first = slice(factors.offsets[0], factors.offsets[1])
        # Counts the past stands for, read off the first mode.
        prior = np.einsum("ir,ir->r", self.rate[first], old[first]) * lam
        counts = sum_columns(phi, first.start, first.stop)
        self.mass *= cap
        self.mass += counts
        parts = Blend(old, phi, self.rate, lam, exposure)
        for k in range(factors.ndim):
            floor = floor_of(factors, self.mass, model.unit, k)
            self._absorb_mode(factors, k, parts, scale[k], lift, floor, learn=memory.learned)
        if memory.learned:
            memory.lift = prior * lift / np.maximum(prior + counts, 1e-300)
        sums.refresh()
        return weights

    def _absorb_mode(
        self,
        factors: Blocks,
        mode: int,
        parts: Blend,
        scale: Array,
        lift: Array,
        floor: Array,
        *,
        learn: bool,
    ) -> None:
        """Make the slice part of the past of one mode."""
        change, data, width = self.sensitivity, factors.data, factors.width
        blocks = row_blocks(factors.offsets[mode], factors.offsets[mode + 1])
        if len(blocks) == 1:
            conjugate_rows.absorb(parts, *blocks[0], scale, lift, floor, learn, change, data)
            return
        # Divisions, and columns in strides: an entry takes as long as several multiply-adds.
        work, drift = 4 * factors.shape[mode] * width, np.zeros(width)

        def follow(first: int, last: int) -> Array:
            sums = np.empty(width)
            conjugate_rows.follow(parts, first, last, lift, change, sums)
            return sums

        def settle(first: int, last: int) -> Array:
            sums = np.empty(width)
            conjugate_rows.settle(
                parts, first, last, scale, floor, learn, drift, change, data, sums
            )
            return sums

        if learn:
            drift += verbs.rows(follow, blocks, work)
        sums = verbs.rows(settle, blocks, work)

        def divide(first: int, last: int) -> None:
            conjugate_rows.divide_columns(first, last, sums, data)

        verbs.rows(divide, blocks, work)

    def _sweep_all(
        self, sums: OddsSums, weights: Array, lam: Array, old: Array, slopes: Slopes | None
    ) -> tuple[Array, Array, Array, Array]:
        """Move all modes and the weights at once, SWEEPS times."""
        factors = sums.factors
        data, offsets = factors.data, factors.offsets
        column_sums = np.zeros(factors.width)
        phi = np.empty_like(data) if slopes is None else slopes.phi
        for sweep in range(SWEEPS):
            if sweep > 0 or slopes is None:
                sums.responsibilities(weights, ALL_MODES, phi)
            counts = sum_columns(phi, offsets[0], offsets[1])
            parts = Blend(old, phi, self.rate, lam, counts[None, :])
            for k in range(factors.ndim):
                _blend_mode(factors, k, parts, column_sums)
            weights = counts
        return weights, phi, weights[None, :], np.ones((factors.ndim, factors.width))

    def _sweep_modes(
        self, sums: OddsSums, weights: Array, lam: Array, old: Array, slopes: Slopes | None
    ) -> tuple[Array, Array, Array, Array]:
        """Move one mode after the other, SWEEPS times; each column's scale goes to the weights."""
        factors = sums.factors
        data = factors.data
        scale = np.ones((factors.ndim, factors.width))
        if slopes is None:
            phi, exposure = np.empty_like(data), np.empty_like(data)
        else:
            phi, exposure = slopes.phi, slopes.exposure
        weights, parts = weights.copy(), Blend(old, phi, self.rate, lam, exposure)
        for sweep in range(SWEEPS):
            for k in range(factors.ndim):
                if sweep > 0 or k > 0 or slopes is None:
                    sums.responsibilities(weights, k, phi, exposure)
                _blend_mode(factors, k, parts, scale[k])
                scale[k][scale[k] <= 0.0] = 1.0
                weights *= scale[k]
                sums.refresh()
        return weights, phi, exposure, scale

    def solve(self, model: Model, x: Slice, loss: Loss, *, tolerance: float, seed: int) -> Solution:
        """Solve for the weights of a slice; changes nothing."""
        sums = _sums(model, x, loss, seed, 0)
        return newton.solve_odds_form(sums, _start(model, sums), tolerance=tolerance)

    def grow(self, model: Model, longer: Callable[[Array], Array]) -> Conjugate:
        """The past with new rows: they have no exposure yet."""
        return Conjugate(longer(self.rate), self.mass, longer(self.sensitivity))

    def tidy(self, model: Model) -> None:
        """Raise entries to the floor, which lets new ones leave zero; columns sum to one."""
        rank = model.factors.rank
        for k, view in enumerate(model.factors.views()):
            np.maximum(view, floor_of(model.factors, self.mass, model.unit, k)[:rank], out=view)
            view /= view.sum(axis=0)

    def sizes(self, columns: Array) -> Array:
        """Sums of columns."""
        return np.asarray(columns.sum(axis=0))

    def merge(self, model: Model, kept: int, given: int) -> None:
        """Join two components of the same pattern: counts and exposure add up."""
        data = model.factors.data
        counts = self.rate[:, kept] * data[:, kept] + self.rate[:, given] * data[:, given]
        self.rate[:, kept] += self.rate[:, given]
        seen = self.rate[:, kept] > 0.0
        data[seen, kept] = counts[seen] / self.rate[seen, kept]
        for view in model.factors.views():
            view[:, kept] /= max(float(view[:, kept].sum()), 1e-300)
        self.mass[kept] += self.mass[given]
        self.sensitivity[:, kept] = 0.0

    def clear(self, slot: int, weight: float) -> None:
        """Forget all of a component but one slice in which it had this weight."""
        self.rate[:, slot] = weight
        self.mass[slot] = weight
        self.sensitivity[:, slot] = 0.0

    def seed(
        self, model: Model, x: Slice, loss: Loss, weights: Array, seed: int
    ) -> tuple[list[Array], float] | None:
        """One component fitted to what the others leave of a slice: columns and weight."""
        return seeds.seed_counts(model.factors, cells_of(x), _form(loss), weights)

    def predict_parts(
        self, model: Model, x: Slice, loss: Loss, board: Checkerboard, seed: int
    ) -> Parts:
        """Predict every part of a slice from the others; zeros of Poisson are not visited."""
        form, cells = _form(loss), cells_of(x)
        if not (form.linear and cells.full):
            return super().predict_parts(model, x, loss, board, seed)
        factors, rank = model.factors, model.factors.rank
        # What the others say counts for their share of the pattern, the usual for one event.
        event = model.unit * rank / max(cells.total, model.unit)
        found, lost = [], 0.0
        for part, rest in PartSums.each_and_rest(factors, cells, form, board):
            usual, exposure = _start(model, rest), rest.column_sums()
            row = newton.solve_odds_form(rest, usual, tolerance=STREAM_TOLERANCE).weights
            row = (exposure * row + event * usual) / (exposure + event)
            lost += part.value(row) - part.listed(row)[0]
            found.append(row[:rank])
        return Parts(board, tuple(found), lost)

    def importance(self, usage: float, norm: float) -> float:
        """Counts stand for themselves, wherever they fall."""
        return usage

    def fold(self, given: int, shares: Array) -> None:
        """Let the others have had shares of a component's counts."""
        rank, mass = len(shares), self.mass
        more = 1.0 + shares * mass[given] / np.maximum(mass[:rank], 1e-300)
        more = np.minimum(more, 2.0)  # no pattern becomes more certain than what it has seen
        self.rate[:, :rank] *= more
        mass[:rank] *= more

    def take(self, order: Sequence[int]) -> Conjugate:
        """The past of some components."""
        return Conjugate(
            taken(self.rate, order), taken(self.mass, order), taken(self.sensitivity, order)
        )

    def split(self, parent: int, slot: int, kept: float, given: float) -> None:
        """Let two halves have had these shares of every past weight."""
        for numbers in (self.rate, self.mass):
            numbers[..., slot] = given * numbers[..., parent]
            numbers[..., parent] *= kept
        self.sensitivity[:, [parent, slot]] = 0.0


def _blend_mode(factors: Blocks, mode: int, parts: Blend, sums: Array) -> None:
    """New rows of one mode from past and slice; columns sum to one, `sums` are those before."""
    data = factors.data
    blocks = row_blocks(factors.offsets[mode], factors.offsets[mode + 1])
    if len(blocks) == 1:
        conjugate_rows.blend(parts, *blocks[0], sums, data)
        return
    work = 4 * factors.shape[mode] * factors.width  # divisions

    def blend(first: int, last: int) -> Array:
        found = np.empty(factors.width)
        conjugate_rows.blend_rows(parts, first, last, found, data)
        return found

    sums[...] = verbs.rows(blend, blocks, work)
    verbs.rows(lambda low, high: conjugate_rows.divide(low, high, sums, data), blocks, work)


def floor_of(factors: Blocks, mass: Array, unit: float, mode: int) -> Array:
    """Smallest entry of every column of a mode (width,)."""
    # A mass below the events would make a share above one, which is not the smaller of the two.
    events = max(FLOOR_EVENTS * unit, 1e-300)
    floor = np.minimum(events / np.maximum(mass, events), FLOOR_SHARE / factors.shape[mode])
    floor[factors.rank :] = 0.0
    return np.asarray(floor)


def _sums(model: Model, x: Slice, loss: Loss, seed: int, number: int) -> OddsSums:
    return OddsSums(model.factors, cells_of(x), _form(loss), seed, number)


def _start(model: Model, sums: OddsSums) -> Array:
    total = sums.column_sums() if sums.form.linear else np.ones(model.factors.width)
    return newton.start_weights(model.mean_weights, sums.cells.total, total, model.factors.rank)


def _form(loss: Loss) -> OddsForm:
    form = loss.traits.odds_form
    if form is None:
        raise DataError(
            f"The state was started with a Poisson or odds loss, but the loss is now "
            f"{loss.name!r}. Use the loss it was started with."
        )
    return form

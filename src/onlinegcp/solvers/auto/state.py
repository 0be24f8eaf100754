"""What the tuning-free solver carries from slice to slice: arrays and scalars of fixed size."""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.layout import Blocks, aligned_zeros, stack_factors
from onlinegcp.solvers.auto.conjugate import History
from onlinegcp.solvers.auto.fisher_rows import RowHistory, empty_history
from onlinegcp.solvers.auto.forgetting import Forgetting
from onlinegcp.solvers.auto.quadratic import SquareHistory

Array = NDArray[Any]

_PARTS: dict[str, type[Any]] = {
    "memory": Forgetting,
    "conjugate": History,
    "square": SquareHistory,
    "rows": RowHistory,
}


@dataclass
class AutoState:
    """State of the solver.

    Attributes
    ----------
    kind
        Which history is in use: "conjugate", "square" or "rows".
    factors
        The factors; columns sum to one (conjugate) or have unit length.
    memory
        The forgetting.
    conjugate, square, rows
        The histories; those not in use hold empty arrays.
    mean_weights, usage, last_weights
        Running means of the weights and of their size, and the latest weights (width,).
    unit
        Size of one event in the data's units.
    volume
        Usual squared norm per observed cell, against which loud slices are tempered.
    n_slices
        Slices learned, warm start included.
    reseed
        Whether components may be replaced on trial.
    bounded
        Whether factors and weights are kept at or above zero.
    trial
        A second model with one component replaced, while it is on trial.
    trial_slot, trial_merge, trial_split
        The component it replaced, the one that was merged with (-1: none), and whether the free
        slot got half of another component.
    trial_gains
        Number, sum and sum of squares of its prequential gains.
    trial_started, trial_next, trial_failures
        When the trial began, when the next may begin, and failures in a row.
    split_next, split_failures
        The same for trials that split a component.
    """

    kind: str
    factors: Blocks
    memory: Forgetting
    conjugate: History
    square: SquareHistory
    rows: RowHistory
    mean_weights: Array
    usage: Array
    last_weights: Array
    unit: float = 1.0
    volume: float = 0.0
    n_slices: int = 0
    reseed: bool = True
    bounded: bool = False
    trial: AutoState | None = None
    trial_slot: int = -1
    trial_merge: int = -1
    trial_split: bool = False
    trial_gains: Array | None = None
    trial_started: int = 0
    trial_next: int = 0
    trial_failures: int = 0
    split_next: int = 0
    split_failures: int = 0

    def clone(self) -> AutoState:
        """Copy everything but the trial."""
        trial, self.trial = self.trial, None
        try:
            twin = copy.deepcopy(self)
        finally:
            self.trial = trial
        twin.factors = self.factors.copy()
        return twin

    def to_dict(self) -> dict[str, Any]:
        """Return the state as a flat mapping of names to arrays and scalars."""
        flat: dict[str, Any] = {
            "shape": np.array(self.factors.shape, dtype=np.int64),
            "rank": self.factors.rank,
            "factors": self.factors.data.copy(),
        }
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in _PARTS:
                for part in fields(value):
                    content = getattr(value, part.name)
                    flat[f"{item.name}.{part.name}"] = (
                        np.copy(content) if isinstance(content, np.ndarray) else content
                    )
            elif item.name == "trial":
                if value is not None:
                    flat.update({f"trial.{name}": part for name, part in value.to_dict().items()})
            elif item.name == "trial_gains":
                flat[item.name] = np.zeros(3) if value is None else value.copy()
            elif item.name != "factors":
                flat[item.name] = np.copy(value) if isinstance(value, np.ndarray) else value
        return flat

    @staticmethod
    def from_dict(flat: dict[str, Any]) -> AutoState:
        """Rebuild a state from `to_dict`; the next step is the same to the last bit."""
        shape = [int(n) for n in np.asarray(flat["shape"])]
        rank = int(flat["rank"])
        factors = stack_factors([np.zeros((n, rank)) for n in shape])
        factors.data[...] = flat["factors"]
        parts: dict[str, Any] = {}
        for name, record in _PARTS.items():
            values = {
                part.name: _own(flat[f"{name}.{part.name}"], part.type) for part in fields(record)
            }
            parts[name] = record(**values)
        plain: dict[str, Any] = {}
        for item in fields(AutoState):
            if item.name in (*_PARTS, "factors", "trial"):
                continue
            plain[item.name] = _own(flat[item.name], item.type)
        inner = {
            name.removeprefix("trial."): value
            for name, value in flat.items()
            if name.startswith("trial.")
        }
        trial = AutoState.from_dict(inner) if inner else None
        return AutoState(factors=factors, trial=trial, **parts, **plain)

    def extend_rows(self, shape: tuple[int, ...]) -> None:
        """Lengthen the modes; new rows are zero and have no history."""
        old = self.factors
        where = np.concatenate(
            [
                np.arange(old.shape[k]) + start
                for k, start in enumerate(np.concatenate([[0], np.cumsum(shape)[:-1]]))
            ]
        ).astype(np.int64)
        count = sum(shape)

        def spread(stacked: Array) -> Array:
            if stacked.shape[0] != len(where):
                return stacked
            longer = aligned_zeros((count, *stacked.shape[1:]))
            longer[where] = stacked
            return longer

        offsets = np.concatenate([[0], np.cumsum(shape)]).astype(np.int64)
        self.factors = Blocks(spread(old.data), offsets, old.rank)
        self.conjugate.rate = spread(self.conjugate.rate)
        self.conjugate.sensitivity = spread(self.conjugate.sensitivity)
        self.square.sensitivity = spread(self.square.sensitivity)
        self.square.slope = spread(self.square.slope)
        self.rows.curvature = spread(self.rows.curvature)
        self.rows.slope = spread(self.rows.slope)
        self.rows.sensitivity = spread(self.rows.sensitivity)


def empty_state(
    kind: str, factors: Blocks, memory: Forgetting, reseed: bool, bounded: bool
) -> AutoState:
    """State that has learned nothing; only the history in use gets memory."""
    rows, width = factors.data.shape
    none = np.zeros((0, width))
    conjugate = History(none, np.zeros(width), none)
    square = SquareHistory(np.zeros((0, 0)), none, 0.0, none)
    per_row = RowHistory(np.zeros((0, width, 1)), none, none, np.zeros(width), np.zeros(width), 1.0)
    if kind == "conjugate":
        conjugate = History(np.zeros((rows, width)), np.zeros(width), np.zeros((rows, width)))
    elif kind == "square":
        products = np.zeros((factors.rank, factors.rank))
        slope = np.zeros((rows if bounded else 0, width))
        square = SquareHistory(products, np.zeros((rows, width)), 0.0, slope)
    else:
        per_row = empty_history(factors)
    mean, usage, last = np.zeros(width), np.zeros(width), np.zeros(width)
    return AutoState(
        kind, factors, memory, conjugate, square, per_row, mean, usage, last, reseed=reseed,
        bounded=bounded,
    )  # fmt: skip


def _own(value: Any, kind: Any) -> Any:
    """Bring a value back to its field's type: checkpoints may hold scalars as 0-d arrays."""
    name = str(kind)
    if name == "float":
        return float(value)
    if name == "int":
        return int(value)
    if name == "bool":
        return bool(value)
    if name == "str":
        return str(value)
    return np.array(value, dtype=np.float64)

"""Table 2 of the paper, the sample counts of its text, and the reduced sizes of `--scale small`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from onlinegcp.streaming.sgd import SGD

Scale = Literal["paper", "small"]


@dataclass(frozen=True)
class Settings:
    """Rank, warm start and the settings of the paper's solver, named as `SGD` names them.

    Every experiment has history_decay = 1, no penalties and 100 iterations per epoch. Errata rows
    17 to 19 say how the table's slips are read. A sample count at or above the number of cells
    there are takes all of them.
    """

    rank: int
    weight_rate: float
    weight_epochs: int
    factor_rate: float
    factor_epochs: int
    history_weight: float
    history_size: int
    init_slices: int
    objective_listed: int
    objective_zeros: int | None  # None where slices are dense and nothing is unlisted
    gradient_listed: int
    gradient_zeros: int | None
    weight_iterations: int = 100
    factor_iterations: int = 100
    history_decay: float = 1.0
    factor_penalty: float = 0.0
    weight_penalty: float = 0.0

    def parameters(self) -> dict[str, Any]:
        """Keyword arguments of `OnlineGCP`, the loss and the seed apart."""
        settings = asdict(self)
        shared = {name: settings.pop(name) for name in ("rank", "init_slices")}
        return {**shared, "solver": SGD(**settings)}


ALL = 10**9  # more than any slice lists: every nonzero is used

PAPER = {
    "gaussian": Settings(20, 10.0, 20, 1e-4, 5, 1.0, 50, 10, 10_000, None, 10_000, None),
    "poisson": Settings(20, 1.0, 20, 1e-4, 10, 10.0, 50, 10, ALL, 50_000, ALL, 10_000),
    "taxi": Settings(50, 10.0, 1, 1e-3, 1, 1.0, 30, 20, 50_000, 50_000, 10_000, 10_000),
    "chicago": Settings(50, 0.1, 5, 1e-3, 5, 10.0, 500, 20, ALL, 10_000, ALL, 1_000),
}

# Fewer components and samples for smaller slices; rates, epochs and history as in the paper.
SMALL = {
    "gaussian": replace(PAPER["gaussian"], rank=5, objective_listed=1_000, gradient_listed=1_000),
    "poisson": replace(PAPER["poisson"], rank=5, objective_zeros=2_000, gradient_zeros=1_000),
    "taxi": replace(
        PAPER["taxi"],
        rank=8,
        objective_listed=5_000,
        objective_zeros=5_000,
        gradient_listed=2_000,
        gradient_zeros=2_000,
    ),
    "chicago": replace(PAPER["chicago"], rank=8),
}

TABLES: dict[Scale, dict[str, Settings]] = {"paper": PAPER, "small": SMALL}

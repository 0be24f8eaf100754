"""The patterns of a model as a small table: how strong each is, and the labels that weigh most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinegcp.notebook.html import bars, card, share_bar, table, text

FloatArray = NDArray[np.float64]
_MOST_SHOWN = 12  # patterns of a card
_WIDTH = 34  # characters of a label, so that a table of patterns fits a notebook


def brief_percent(share: float) -> str:
    """A share as a percentage that stands in a list of many; what is there is not called 0.

    Examples
    --------
    >>> brief_percent(0.123), brief_percent(0.004), brief_percent(0.00001), brief_percent(0.0)
    ('12%', '0.4%', '<0.1%', '0%')
    """
    if 0.0 < share < 0.001:
        return "<0.1%"
    return f"{share:.1%}" if 0.0 < share < 0.0095 else f"{share:.0%}"


@final
@dataclass(frozen=True)
class ComponentTable:
    """Patterns, strongest first; counted from 1 in the order of the columns of the factors.

    Attributes
    ----------
    numbers : (R,) array
        Number of each pattern.
    shares : (R,) array
        Its share in the slice the weights belong to.
    modes : tuple of str
        Names of the modes.
    labels : tuple of tuples of str
        Names of the rows of each mode.
    columns : tuple of (I_k, R) arrays
        Column of each pattern along each mode; absolute values sum to 1.
    top : int
        Labels shown per mode.
    """

    numbers: NDArray[np.int64]
    shares: FloatArray
    modes: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    columns: tuple[FloatArray, ...]
    top: int = 3

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[position] for position in range(len(self)))

    def __getitem__(self, position: int) -> dict[str, Any]:
        """One pattern: its number, its share, and for each mode the labels that weigh most."""
        modes = {}
        for mode, names, column in zip(self.modes, self.labels, self.columns, strict=True):
            size = np.abs(column[:, position])
            best = np.argsort(-size, kind="stable")[: self.top]
            modes[mode] = [(names[i], float(column[i, position])) for i in best if size[i] > 0]
        return {
            "component": int(self.numbers[position]),
            "share": float(self.shares[position]),
            "modes": modes,
        }

    def __repr__(self) -> str:
        head = ["", "share", *self.modes]
        rows = [
            [
                str(row["component"]),
                brief_percent(row["share"]),
                *(_cut(_told(row["modes"][mode])) for mode in self.modes),
            ]
            for row in self
        ]
        widths = [max(len(line[k]) for line in (head, *rows)) for k in range(len(head))]
        lines = [
            "  ".join(
                cell.rjust(width) if k < 2 else cell.ljust(width)
                for k, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in (head, *rows)
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self) -> str:
        """The table as HTML, with each column as small bars."""
        rows = []
        for position, row in enumerate(self):
            cells = [text(row["component"]), share_bar(row["share"])]
            for mode, names, column in zip(self.modes, self.labels, self.columns, strict=True):
                cells.append(
                    f"{text(_told(row['modes'][mode]))}<br>{bars(column[:, position], names)}"
                )
            rows.append(cells)
        return table(["", "share", *self.modes], rows)


def component_table(
    weights: ArrayLike,
    factors: Sequence[ArrayLike],
    labels: Sequence[Sequence[object] | None] | None = None,
    *,
    modes: Sequence[str] | None = None,
    top: int = 3,
) -> ComponentTable:
    """The patterns of weights and factors, strongest first.

    Parameters
    ----------
    weights
        (R,).
    factors
        One (I_k, R) matrix per mode.
    labels
        Names of the rows of each mode; their numbers where there are none.
    modes
        Names of the modes; "mode 1" and so on by default.
    top
        Labels to show per mode.

    Examples
    --------
    >>> component_table([1.0, 6.0], [[[1, 0], [0, 1]], [[2, 1], [2, 3]]], [("cat", "dog"), None])
       share  mode 1    mode 2
    2    86%  dog 100%  1 75%, 0 25%
    1    14%  cat 100%  0 50%, 1 50%
    """
    matrices = [np.asarray(factor, dtype=np.float64) for factor in factors]
    sums = [np.abs(matrix).sum(axis=0) for matrix in matrices]
    size = np.abs(np.asarray(weights, dtype=np.float64)) * np.prod(sums, axis=0)
    total = float(size.sum())
    shares = size / total if total > 0 else size
    order = np.argsort(-shares, kind="stable")
    columns = tuple(
        (matrix / np.where(held > 0, held, 1.0))[:, order]
        for matrix, held in zip(matrices, sums, strict=True)
    )
    given = labels if labels is not None else [None] * len(matrices)
    names = tuple(
        tuple(map(str, range(len(matrix)) if found is None else found))
        for matrix, found in zip(matrices, given, strict=True)
    )
    called = (
        tuple(modes) if modes is not None else tuple(f"mode {k + 1}" for k in range(len(names)))
    )
    return ComponentTable(order + 1, shares[order], called, names, columns, top)


def component_card(title: str, facts: str, found: ComponentTable) -> str:
    """A model as HTML: what it is, and its strongest patterns."""
    shown = ComponentTable(
        found.numbers[:_MOST_SHOWN],
        found.shares[:_MOST_SHOWN],
        found.modes,
        found.labels,
        tuple(column[:, :_MOST_SHOWN] for column in found.columns),
        found.top,
    )
    more = len(found) - _MOST_SHOWN
    rest = f'<div style="opacity:.7">and {more} more</div>' if more > 0 else ""
    return card(title, facts, shown.to_html() + rest)


def _told(parts: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{label} {brief_percent(share)}" for label, share in parts)


def _cut(told: str) -> str:
    return told if len(told) <= _WIDTH else told[: _WIDTH - 1] + "…"

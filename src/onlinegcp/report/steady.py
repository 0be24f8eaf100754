"""Names that stay while a page is watched: a pattern is renamed when it has become another."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import final

import numpy as np

from onlinegcp.drawing.profiles import FloatArray
from onlinegcp.report.words import EVERYTHING, Pattern

# Cosines between the columns a name was made from and those of now, multiplied over modes.
SAME = 0.8


@final
class SteadyNames:
    """The names a reader has seen, each with the columns it was made from.

    Examples
    --------
    >>> names, columns = SteadyNames(), [np.array([[1.0], [0.0]])]
    >>> first = names.keep([Pattern(0, 1.0, "To A", "To A")], columns)
    >>> turned = [np.array([[0.9], [0.2]])]
    >>> names.keep([Pattern(0, 1.0, "To A and B", "To A and B")], turned)[0].headline
    'To A'
    >>> names.keep([Pattern(0, 1.0, "To B", "To B")], [np.array([[0.0], [1.0]])])[0].headline
    'To B'
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[str, tuple[FloatArray, ...]]] = {}

    def keep(self, found: Sequence[Pattern], factors: Sequence[FloatArray]) -> list[Pattern]:
        """The patterns, under the names they had while they are the same."""
        columns = {
            p.component: tuple(factor[:, p.component].copy() for factor in factors) for p in found
        }
        self._kept = {
            r: kept
            for r, kept in self._kept.items()
            if r in columns
            and _alike(kept[1], columns[r]) >= SAME
            and (kept[0] != EVERYTHING or len(found) == 1)
        }
        for pattern in found:
            r, name = pattern.component, pattern.headline
            if r not in self._kept:
                taken = {kept for kept, _ in self._kept.values()}
                # It may have become what another one is called.
                other = (
                    f"{name} ({number})" for number in itertools.chain([r + 1], itertools.count(1))
                )
                name = next(said for said in itertools.chain([name], other) if said not in taken)
                self._kept[r] = name, columns[r]
        return [dataclasses.replace(p, headline=self._kept[p.component][0]) for p in found]


def _alike(before: Sequence[FloatArray], now: Sequence[FloatArray]) -> float:
    product = 1.0
    for old, new in zip(before, now, strict=True):
        length = float(np.linalg.norm(old) * np.linalg.norm(new))
        inner = abs(float(old @ new[: len(old)])) if len(new) >= len(old) else 0.0
        product *= inner / length if length > 0 else 0.0
    return product

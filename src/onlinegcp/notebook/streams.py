"""How a stream of slices in memory shows itself: how many, how large, and how much each holds."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

from onlinegcp.notebook.html import bars, card


class StreamCard(abc.ABC):
    """A stream with slices and a loss."""

    slices: Sequence[Any]
    loss: str

    def __len__(self) -> int:
        return len(self.slices)

    def __repr__(self) -> str:
        shape = self.slices[0].shape if self.slices else ()
        return f"Stream({len(self)} slices of shape {shape}, loss={self.loss!r})"

    def _repr_html_(self) -> str:
        shape = self.slices[0].shape if self.slices else ()
        facts = f"{len(self):,} slices of {' x '.join(f'{n:,}' for n in shape)}, {self.loss}"
        return card("Stream", facts, f"<br>{bars([x.total for x in self.slices])}")

"""What the past contributes to the factor problem of a new slice.

Every history that penalises changes of the model, 1/2 sum_h w_h ||Mbar_h - M_h||_F^2 (paper eq. 4),
depends on the past only through one R x R matrix S = sum_h w_h s_h s_h' (errata row 15), so
`fold` is all a solver needs from a window (value and gradient: `kernels.sgd.reference`).

Kinds: "reservoir" (uniform sample of all rows ever offered), "last" (the newest rows),
"exponential" (no rows at all, S itself decays), "data" (keeps the slices, paper eq. 3),
"factors" (penalty on the factors, paper footnote), "none".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels import random
from onlinegcp.slices import Slice

FloatArray: TypeAlias = NDArray[np.float64]
HistoryKind: TypeAlias = Literal["reservoir", "last", "exponential", "data", "factors", "none"]
KINDS: tuple[HistoryKind, ...] = ("reservoir", "last", "exponential", "data", "factors", "none")


@dataclass(frozen=True)
class History:
    """The past as a solver sees it; a value, replaced after every slice.

    Attributes
    ----------
    kind
        One of `KINDS`.
    size
        Largest number of rows kept (H of the paper).
    weight, decay
        Row h weighs ``weight * decay ** (t - h)`` at slice t (w and theta of the paper).
    rows, stamps
        The kept weight vectors s_h (n, R) and the slice numbers h they belong to.
    offered
        Rows offered so far, warm start included (errata row 11).
    folded
        The matrix S of an exponential history, before its decay to the present slice.
    slices
        The kept slices of a "data" history, one per row.
    """

    kind: HistoryKind
    size: int
    weight: float
    decay: float
    rows: FloatArray
    stamps: NDArray[np.int64]
    offered: int = 0
    folded: FloatArray | None = None
    slices: tuple[Slice, ...] = field(default=(), repr=False)

    @classmethod
    def empty(
        cls, kind: HistoryKind, rank: int, *, size: int, weight: float, decay: float
    ) -> History:
        """A history that has seen nothing."""
        return cls(
            kind,
            int(size),
            float(weight),
            float(decay),
            np.empty((0, rank)),
            np.empty(0, dtype=np.int64),
            folded=np.zeros((rank, rank)) if kind == "exponential" else None,
        )

    def offer(self, row: FloatArray, stamp: int, x: Slice | None = None, *, seed: int) -> History:
        """The history after slice number `stamp`, whose weights are `row`.

        Parameters
        ----------
        row
            Weights s_t of the slice (R,).
        stamp
            Slice number t.
        x
            The slice; needed by a "data" history only.
        seed
            The reservoir's coin is a hash of seed and stamp.
        """
        offered = self.offered + 1
        if self.kind in ("none", "factors"):
            return replace(self, offered=offered)
        if self.kind == "exponential":
            assert self.folded is not None
            # Kept as sum_h w theta^(stamp - h) s_h s_h'; `fold` adds the decay to the present.
            age = stamp - int(self.stamps[0]) if len(self.stamps) else 0
            folded = self.decay**age * self.folded + self.weight * np.outer(row, row)
            return replace(
                self, offered=offered, folded=folded, stamps=np.array([stamp], dtype=np.int64)
            )
        if self.size == 0:
            return replace(self, offered=offered)
        kept = len(self.rows)
        if kept < self.size:
            place = kept
        elif self.kind == "reservoir":
            # Vitter's algorithm R: the n-th row enters with probability H / n.
            coin = random.uniform(random.stream_key(seed, stamp, random.RESERVOIR), 1)[0]
            place = int(coin * offered)
            if place >= self.size:
                return replace(self, offered=offered)
        else:
            place = 0  # the oldest row leaves
        rows, stamps, slices = self.rows, self.stamps, list(self.slices)
        if place < kept:
            rows = np.delete(rows, place, axis=0)
            stamps = np.delete(stamps, place)
            if slices:
                del slices[place]
        if self.kind == "data":
            assert x is not None
            slices.append(x)
        return replace(
            self,
            offered=offered,
            rows=np.vstack([rows, row]),
            stamps=np.append(stamps, np.int64(stamp)),
            slices=tuple(slices),
        )

    def row_weights(self, now: int) -> FloatArray:
        """w_h of every kept row, seen from slice number `now`."""
        return np.asarray(self.weight * self.decay ** (now - self.stamps), dtype=np.float64)

    def fold(self, now: int) -> FloatArray | None:
        """The matrix S at slice number `now`; None where the past adds no such term."""
        if self.kind == "exponential":
            if self.offered == 0 or self.weight == 0:
                return None
            assert self.folded is not None
            return np.asarray(self.decay ** (now - int(self.stamps[0])) * self.folded)
        if self.kind not in ("reservoir", "last") or len(self.rows) == 0 or self.weight == 0:
            return None
        return np.asarray((self.rows * self.row_weights(now)[:, None]).T @ self.rows)

    def to_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Everything the next step depends on, as arrays and scalars (slices apart)."""
        arrays: dict[str, NDArray[Any]] = {"rows": self.rows, "stamps": self.stamps}
        if self.folded is not None:
            arrays["folded"] = self.folded
        return arrays, {"offered": self.offered}

    def from_state(
        self,
        arrays: dict[str, NDArray[Any]],
        record: dict[str, Any],
        slices: Sequence[Slice] = (),
    ) -> History:
        """This history's settings with the contents of a saved one."""
        return replace(
            self,
            rows=arrays["rows"],
            stamps=arrays["stamps"],
            offered=int(record["offered"]),
            folded=arrays.get("folded"),
            slices=tuple(slices),
        )

"""How many components: held-out loss along the stream for each rank, and agreement of two starts.

Every slice is predicted before it is learned. Its weights are fitted to one half of its cells and
judged on the other, then the other way round, so that more components do not look better merely
because they have more weights to fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import DataError
from onlinegcp.evaluate.measures import factor_match
from onlinegcp.evaluate.prequential import prequential
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.streaming import OnlineGCP
from onlinegcp.streaming.rank_study import smallest_as_good

FloatArray = NDArray[np.float64]

# Two starts that agree so well have found the same patterns.
STABLE = 0.8


@final
@dataclass(frozen=True)
class RankStudy:
    """What was found for every rank.

    Attributes
    ----------
    ranks
        The ranks tried, ascending.
    losses
        (ranks, slices) held-out loss of each slice after the warm start, mean of the starts.
    stability
        Agreement of the factors two starts end with, 1 for the same.
    n_cells
        Observed cells per slice.
    best
        Rank with the smallest loss.
    recommended
        Smallest rank that is not worse than the best by more than one standard error of the
        difference.
    """

    ranks: tuple[int, ...]
    losses: FloatArray
    stability: FloatArray
    n_cells: float
    best: int
    recommended: int

    @property
    def mean_losses(self) -> FloatArray:
        """Held-out loss per cell of each rank."""
        return np.asarray(self.losses.mean(axis=1) / self.n_cells)

    @property
    def advice(self) -> str:
        """The recommendation in words."""
        at = self.ranks.index(self.recommended)
        text = f"Use rank {self.recommended}"
        if self.recommended == self.best:
            text += ": it predicts best."
            if len(self.ranks) > 1 and self.best == max(self.ranks):
                text += " It is also the largest tried, and a larger one may do better still."
        else:
            text += f": it predicts as well as rank {self.best}, within the noise."
        agreement = self.stability[at]
        if agreement >= STABLE:
            return f"{text} Two starts find the same patterns (agreement {agreement:.2f})."
        stable = [r for r, s in zip(self.ranks, self.stability, strict=True) if s >= STABLE]
        text += f" Two starts agree only by {agreement:.2f}, so read its patterns with care"
        below = [rank for rank in stable if rank < self.recommended]
        return f"{text}; up to rank {max(below)} they are the same." if below else f"{text}."

    def figure(self) -> Any:
        """Loss and stability over the rank, as a plotly figure."""
        import plotly.graph_objects as go

        figure = go.Figure()
        figure.add_scatter(
            x=self.ranks, y=self.mean_losses, name="held-out loss per cell", mode="lines+markers"
        )
        figure.add_scatter(
            x=self.ranks,
            y=self.stability,
            name="agreement of two starts",
            mode="lines+markers",
            line={"dash": "dot"},
            yaxis="y2",
        )
        figure.add_vline(
            x=self.recommended, line_dash="dash", annotation_text=f"rank {self.recommended}"
        )
        figure.update_layout(
            title=self.advice,
            template="plotly_white",
            xaxis={"title": "rank", "tickvals": self.ranks},
            yaxis={"title": "held-out loss per cell"},
            yaxis2={"title": "agreement", "overlaying": "y", "side": "right", "range": [0, 1.05]},
            legend={"orientation": "h", "y": -0.2},
        )
        return figure


def rank_grid(most: int) -> tuple[int, ...]:
    """Ranks worth trying: every one at first, then about 40 % apart.

    Examples
    --------
    >>> rank_grid(40)
    (1, 2, 3, 4, 6, 8, 11, 15, 21, 29, 40)
    """
    if most < 1:
        raise DataError(f"the largest rank must be at least 1, but is {most}. Choose a larger one.")
    found = [1]
    while found[-1] < most:
        found.append(min(most, max(found[-1] + 1, round(found[-1] * 1.4))))
    return tuple(found)


def study_ranks(
    slices: Sequence[Slice],
    ranks: Sequence[int],
    loss: str | Loss,
    *,
    warm_start: int = 10,
    seed: int = 0,
    progress: Callable[[int, int, int], object] | None = None,
) -> RankStudy:
    """Try several ranks on one stream.

    Parameters
    ----------
    slices
        The stream, all slices of one shape.
    ranks
        Ranks to try.
    loss
        The loss.
    warm_start
        Slices each model starts from; it is judged on the rest.
    seed
        Seed of the first start; the second has the next one.
    progress
        Called with the rank, the start (0 or 1) and the number of slices learned.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.gamma(0.5, 1, (12, 2)), rng.gamma(0.5, 1, (10, 2))
    >>> rows = rng.gamma(2, 20, (25, 2))
    >>> stream = [Slice.dense(rng.poisson((a * row) @ b.T).astype(float)) for row in rows]
    >>> study_ranks(stream, [1, 2, 3], "poisson", warm_start=5).recommended
    2
    """
    if len(slices) < warm_start + 2:
        raise DataError(
            f"at least two slices beyond the warm start of {warm_start} are needed to judge ranks, "
            f"but there are {len(slices)}. Give more data, or a smaller warm start."
        )
    tried = tuple(sorted(set(ranks)))
    losses, stability = [], []
    for rank in tried:
        found, factors = [], []
        for start in (0, 1):
            model = OnlineGCP(rank, loss, init_slices=warm_start, random_state=seed + start)
            lost = []
            for turn in prequential(model, slices, partial(_held_out_loss, model)):
                if turn.verdict is not None:
                    lost.append(turn.verdict)
                if progress is not None:
                    progress(rank, start, turn.number)
            found.append(lost)
            factors.append(model.factors_)
        losses.append(np.mean(found, axis=0))
        stability.append(factor_match(*factors))
    table = np.array(losses)
    best, chosen = recommend(tried, table)
    n_cells = float(np.mean([x.n_observed for x in slices[warm_start:]]))
    return RankStudy(tried, table, np.array(stability), n_cells, best, chosen)


def recommend(ranks: Sequence[int], losses: FloatArray) -> tuple[int, int]:
    """The rank that loses least, and the smallest one that is as good within the noise.

    Parameters
    ----------
    ranks
        Ascending.
    losses
        (ranks, slices).
    """
    return ranks[int(np.argmin(losses.mean(axis=1)))], smallest_as_good(ranks, losses)


def _held_out_loss(model: OnlineGCP, number: int, x: Slice) -> float:
    """Loss of a slice whose halves are each predicted with weights from the other."""
    return model.predict_halves(x, number=number).loss

"""Scores a slice before it is learned: how odd it is, which rows are to blame, in one sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlinegcp.anomaly.levels import Levels
from onlinegcp.anomaly.pairs import IntArray
from onlinegcp.anomaly.reasons import (
    Labels,
    alone_of,
    label_of,
    largest_rows,
    odd_pairs,
    odd_rows,
    told_newcomers,
    told_row,
    totals,
    without_all_odd_rows,
    without_odd_rows,
)
from onlinegcp.anomaly.tails import LOWEST_LOG, normal_quantile
from onlinegcp.anomaly.tracker import AnomalyTracker
from onlinegcp.anomaly.verdict import Verdict
from onlinegcp.anomaly.words import describe
from onlinegcp.errors import DataError
from onlinegcp.kernels.blas import one_blas_thread
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice, as_slice, widen
from onlinegcp.streaming.model import StreamingModel
from onlinegcp.streaming.naming import padded

FloatArray: TypeAlias = NDArray[np.float64]

SEVERITIES = (("low", 1.0), ("medium", 1e-2), ("high", 1e-4))  # below this part of the level
TOLD = math.log(0.1)  # p-value of a slice from which on its rows are looked through
TOLERANCE = 3e-3  # of the weights that a misfit is measured with
MEMORY = 0.1  # share of the newest weights in the usual ones


@dataclass(frozen=True)
class Anomaly:
    """How odd a slice is, and why.

    Attributes
    ----------
    p, z, score
        Chance of an ordinary slice as odd, the standard normal quantile it stands for, and
        -log10(p), by which slices are ranked.
    flagged, severity
        Whether p is below the level, and by how much: "low", "medium" or "high".
    kind, family
        "volume" or "pattern", and the statistic that was oddest (see `Verdict`).
    volume_p, volume_z, volume_odd
        Of the total alone; negative z where there was less than expected.
    total, expected_total, expected_low, expected_high
        The total, its forecast and usual range.
    modes
        For each mode its significant rows, oddest first: label, observed, expected, low, high, p,
        whether it is new, and whether expected, low and high are what the rows that it follows say
        in this slice (`follows`), instead of what it usually is. Rows that moved with the slice,
        but less, are `milder`: odd, but not what happened, and the sentence leaves them out.
    more_rows
        Significant rows beyond those that `modes` has.
    cells
        Pairs of rows that are significant; labels of the other modes are empty. `milder` as of
        rows.
    largest
        Where many rows are a little off: those that are off most, with their modes.
    newcomers
        Modes with more in labels never seen than usual, where none of these is named by itself.
    total_usual
        Whether the total is within its usual range.
    rest_usual, rest_change
        Whether the other rows are as usual, and their common change.
    odd_rows
        For each mode the numbers of its significant rows.
    counted
        Whether rows are sums of counts, or means of values.
    alarm
        Flagged slices in a row up to this one: 1 where an alarm begins.
    ended
        Flagged slices in a row before this one, where it ends an alarm.
    sentence
        All of it in words.
    verdict
        For `AnomalyTracker.update`.
    """

    p: float
    z: float
    score: float
    flagged: bool
    severity: str | None
    kind: str | None
    family: str
    volume_p: float
    volume_z: float
    volume_odd: bool
    total: float
    expected_total: float
    expected_low: float
    expected_high: float
    modes: tuple[tuple[dict[str, Any], ...], ...]
    more_rows: int
    cells: tuple[dict[str, Any], ...]
    largest: tuple[tuple[int, dict[str, Any]], ...]
    newcomers: tuple[tuple[int, dict[str, Any]], ...]
    total_usual: bool
    rest_usual: bool
    rest_change: float
    odd_rows: tuple[IntArray, ...]
    counted: bool
    alarm: int
    ended: int
    verdict: Verdict = field(repr=False)
    sentence: str = ""

    def to_json(self) -> dict[str, Any]:
        """The record a step line holds, of plain numbers, texts and lists."""
        names = (
            *("p", "z", "score", "flagged", "severity", "kind", "family", "volume_p", "volume_z"),
            *("volume_odd", "total", "expected_total", "expected_low", "expected_high"),
            *(
                "total_usual",
                "rest_usual",
                "rest_change",
                "more_rows",
                "alarm",
                "ended",
                "sentence",
            ),
        )
        record: dict[str, Any] = {name: getattr(self, name) for name in names}
        record["modes"] = [[dict(row) for row in rows] for rows in self.modes]
        record["cells"] = [dict(cell) for cell in self.cells]
        record["largest"] = [[k, dict(row)] for k, row in self.largest]
        record["newcomers"] = [[k, dict(row)] for k, row in self.newcomers]
        return record


def score_slice(
    model: StreamingModel | None,
    x: Any,
    labels: Labels | None = None,
    *,
    history: AnomalyTracker,
    level: float = 0.01,
    top: int = 10,
    modes: Sequence[str] = (),
    noun: str = "events",
    interval: str = "",
) -> Anomaly:
    """Say how odd a slice is, given the past; neither model nor past is changed.

    Call it before the slice is learned. Nothing is flagged before the history has seen ten slices.

    Parameters
    ----------
    model
        A streaming model past its warm start, which adds how well the slice fits its patterns; or
        None for counts that no model has seen.
    x
        The slice.
    labels
        Names of the rows of each mode; by default those the model's data came with, or numbers.
    history
        The past; call its `update` with the result.
    level
        Share of ordinary slices that may be flagged, 0 < level < 1.
    top
        Rows of each mode, and pairs, that are named at most.
    modes
        Names of the modes; by default those the model's data came with.
    noun
        What the total counts.
    interval
        How far apart slices are, such as "monthly", for the sentence.
    """
    if not 0.0 < level < 1.0:
        raise DataError(f"level must lie between 0 and 1, but got {level!r}. Usual is 0.01.")
    counted, misfit, usual = True, math.nan, None
    if model is None:
        whole = as_slice(x)
    else:
        # Rows that came with labels belong where the model has them.
        whole, names = model.aligned(x)
        if names is not None:
            labels = padded(names.labels, whole.shape) if labels is None else labels
            modes = modes or model.mode_names_ or ()
        counted = is_counted(model.loss_)
        # With two modes at most, rows and pairs tell all that the cells of counts can.
        if not counted or whole.ndim > 2:
            usual = _usual_weights(history.weights, model.weights_)
            misfit = misfit_of(model, whole, usual)
    verdict = history.judge(whole, counted=counted, misfit=misfit, weights=usual)
    return _told(verdict, whole, labels, history, math.log(level), top, modes, noun, interval)


def is_counted(loss: Loss) -> bool:
    """Whether data of this loss are counts, or amounts that add up like them."""
    return loss.domain in ("nonnegative", "binary", "at_least_one")


def misfit_of(model: StreamingModel, x: Slice, usual: FloatArray) -> float:
    """What the model's patterns leave unexplained of a slice; NaN where it sees nothing of it.

    For Poisson the mean surprise of an event under the usual mixture of patterns, which does not
    depend on how many events there are and needs no fit; else the loss per cell with weights fitted
    to the slice, as a logarithm where it is a square.
    """
    known, loss = known_part(x, model.shape_), model.loss_
    if known.n_observed == 0:
        return math.nan
    if loss.traits.poisson:
        return model.surprise_of(known, usual)
    with one_blas_thread():  # small products, which threads would only slow down
        weights = model.weigh(known, tolerance=TOLERANCE)
        mean = model.loss_of(known, weights) / known.n_observed
    return math.log(mean) if mean > 0.0 and loss.traits.quadratic else mean


def _usual_weights(before: FloatArray, newest: FloatArray) -> FloatArray:
    """Weights averaged over some slices, so that an odd one does not set the standard."""
    newest = newest / max(float(np.abs(newest).sum()), 1e-300)  # a mixture, however many events
    return newest if len(before) != len(newest) else before + MEMORY * (newest - before)


def known_part(x: Slice, shape: tuple[int, ...]) -> Slice:
    """The slice as a model of this shape can see it: without rows it does not have."""
    if x.shape == shape or x.ndim != len(shape):
        return x
    if any(n > m for n, m in zip(x.shape, shape, strict=True)):
        inside = (x.index < np.array(shape)).all(axis=1)
        smaller = tuple(map(min, x.shape, shape))
        x = Slice(x.index[inside], x.value[inside], smaller, time=x.time, unlisted=x.unlisted)
    return x if x.array is not None else widen(x, shape)


def drift(old: Sequence[FloatArray], new: Sequence[FloatArray]) -> FloatArray:
    """How far each component has turned: 1 - product over modes of |cosine(old, new column)|.

    Parameters
    ----------
    old, new
        One (I_k, R) matrix per mode; `new` may have more rows, which `old` has as zeros.

    Returns
    -------
    drift
        (R,), 0 for the same direction, 1 for nothing in common in some mode.

    Examples
    --------
    >>> drift([np.array([[1.0, 1.0], [0.0, 0.0]])], [np.array([[2.0, 0.0], [0.0, 3.0]])])
    array([0., 1.])
    """
    product = np.ones(new[0].shape[1])
    for before, after in zip(old, new, strict=True):
        inner = np.abs(np.einsum("ir,ir->r", before, after[: len(before)]))
        norms = np.linalg.norm(before, axis=0), np.linalg.norm(after, axis=0)
        length = norms[0] * norms[1]
        # Two columns of zeros are the same, one of them has nothing in common with any other.
        same = np.where(norms[0] + norms[1] > 0.0, 0.0, 1.0)
        product *= np.divide(inner, length, out=same, where=length > 0.0)
    return np.asarray(np.clip(1.0 - product, 0.0, 1.0))


def _told(
    verdict: Verdict,
    x: Slice,
    labels: Labels | None,
    history: AnomalyTracker,
    limit: float,
    top: int,
    names: Sequence[str],
    noun: str,
    interval: str,
) -> Anomaly:
    flagged, total = verdict.log_p < limit, x.total
    volume = verdict.families.get("volume", 0.0) if verdict.ready else 0.0
    low, expected, high = totals(verdict.whole, history, x)
    volume_z = normal_quantile(volume - math.log(2.0)) if volume < 0.0 else 0.0
    # A total that a slice is flagged for is odd, although it may be less so by itself.
    volume_odd = volume < limit or (flagged and verdict.family == "volume")
    nothing = (np.zeros(0, dtype=np.int64), np.zeros(0))
    odd = tuple(nothing for _ in verdict.rows)
    told = verdict.ready and verdict.log_p < max(limit, TOLD)
    if told:
        odd = tuple(
            odd_rows(seen, k, history, limit, verdict) for k, seen in enumerate(verdict.rows)
        )
    wholes = without_odd_rows(verdict, odd, x, history)
    # The rest is what no row that is named has a part in: of what single modes and all of them
    # together leave, that which explains most.
    telling = [t for t, (found, _) in zip(wholes, odd, strict=True) if len(found)] or wholes
    telling = telling + without_all_odd_rows(verdict, [found for found, _ in odd], x, history)
    # Rows were judged as shares of this slice's total; they are told against an ordinary one, and
    # so is the rest: an outage that goes on is soon expected of the total, but not of an ordinary
    # slice. Where labels come and go it is the other way round: what is odd is never ordinary.
    least, middle, most = totals(verdict.whole, history, x, Levels.REST)
    if told and not any(least <= t <= most for t in telling):
        past = (least, middle, most), (low, expected, high)
        least, middle, most = min(past, key=lambda of: min(abs(t - of[1]) for t in telling))
    ordinary = [middle if not least <= t <= most else t for t in wholes]
    rows: tuple[tuple[dict[str, Any], ...], ...] = tuple(() for _ in verdict.rows)
    cells: tuple[dict[str, Any], ...] = ()
    scales = [
        whole / max(seen.total * history.unit, 1e-300) if history.counted else 1.0
        for whole, seen in zip(ordinary, verdict.rows, strict=True)
    ]
    if told:
        rows = tuple(
            tuple(
                told_row(
                    seen,
                    i,
                    label_of(labels, k, i),
                    log_p,
                    history,
                    scales[k],
                    alone_of(verdict, k, i),
                )
                for i, log_p in zip(*(part[:top].tolist() for part in found), strict=True)
            )
            for k, (seen, found) in enumerate(zip(verdict.rows, odd, strict=True))
        )
        blamed = [found for found, _ in odd]
        cells = odd_pairs(
            verdict, x.ndim, labels, history, limit, top, (least, middle, most), blamed
        )
    rest = min(telling, key=lambda t: abs(t - middle))
    rest_usual = least <= rest <= most
    if volume_odd and abs(rest - middle) > 0.5 * abs(total - middle):
        rest_usual = False  # the rows that are named do not explain the total
    anomaly = Anomaly(
        p=math.exp(max(verdict.log_p, LOWEST_LOG)),
        z=normal_quantile(verdict.log_p) if verdict.log_p < 0.0 else 0.0,
        score=-verdict.log_p / math.log(10.0),
        flagged=flagged,
        severity=_severity(verdict.log_p - limit) if flagged else None,
        kind=None if not flagged else "volume" if verdict.family == "volume" else "pattern",
        family=verdict.family if verdict.ready else "",
        volume_p=math.exp(max(volume, LOWEST_LOG)),
        volume_z=math.copysign(volume_z, float(verdict.whole.surprise[0])),
        volume_odd=volume_odd,
        total=total,
        expected_total=expected,
        expected_low=low,
        expected_high=high,
        modes=rows,
        more_rows=sum(max(len(found) - top, 0) for found, _ in odd),
        cells=cells,
        largest=largest_rows(verdict, labels, history, scales) if verdict.family == "many" else (),
        newcomers=told_newcomers(verdict, odd, history, limit, scales) if flagged else (),
        total_usual=low <= total <= high,
        rest_usual=rest_usual,
        rest_change=rest / middle - 1.0 if middle > 0.0 else 0.0,
        odd_rows=tuple(rows for rows, _ in odd),
        counted=bool(history.counted),
        alarm=history.alarm + 1 if flagged else 0,
        ended=0 if flagged or history.goes_on(verdict) else history.alarm,
        verdict=verdict,
    )
    counted = noun if history.counted else ""
    record: dict[str, Any] = {"total": total, "family": anomaly.family}
    record = anomaly.to_json() if flagged else record | {"total_usual": anomaly.total_usual}
    said = describe(record, time=_written(x.time), modes=names, noun=counted, interval=interval)
    object.__setattr__(anomaly, "sentence", said)
    return anomaly


def _severity(beyond: float) -> str:
    return [name for name, part in SEVERITIES if beyond < math.log(part)][-1]


def _written(time: Any) -> Any:
    if isinstance(time, np.datetime64):
        return str(time)
    return time.isoformat() if hasattr(time, "isoformat") else time

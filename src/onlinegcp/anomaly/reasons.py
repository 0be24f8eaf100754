"""Which rows, pairs and newcomers of a slice are to blame, with what they usually are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlinegcp.anomaly.levels import Levels, as_counts
from onlinegcp.anomaly.pairs import MASK, SHIFT, IntArray, mixtures
from onlinegcp.anomaly.shares import USUAL, Judged
from onlinegcp.anomaly.tails import LOWEST_LOG
from onlinegcp.anomaly.tracker import AnomalyTracker
from onlinegcp.anomaly.verdict import Verdict
from onlinegcp.kernels.shares import SURPRISE
from onlinegcp.slices import Slice

FloatArray: TypeAlias = NDArray[np.float64]
Labels: TypeAlias = Sequence[Sequence[str] | None]

LEAST_SURPRISE = 2.0  # standard deviations below which nothing is worth a word
ALONE = "alone up"  # family that is there where rows are known to follow others
TOP_MANY = 3  # rows named where many are a little off


def totals(
    whole: Judged, history: AnomalyTracker, x: Slice, place: int = Levels.TOTAL
) -> tuple[float, float, float]:
    """Low end, forecast and high end of the total of the observed cells.

    Parameters
    ----------
    whole
        The slice as a whole, judged.
    history
        What it was judged by.
    x
        The slice.
    place
        Which total: as it is, or as if no row were odd.
    """
    if place == Levels.REST and not (history.counted and math.isfinite(whole.deviation[place])):
        place = Levels.TOTAL  # not known apart, or not for long enough
    if not math.isfinite(whole.deviation[place]):
        return -math.inf, x.total, math.inf
    middle, width = float(whole.forecast[place]), USUAL * float(whole.deviation[place])
    part = x.n_observed / x.size
    if not history.counted:
        return (middle - width) * part, middle * part, (middle + width) * part
    part *= history.unit
    low, middle, high = (v * part for v in as_counts(middle, width))
    return low, middle, high


def without_odd_rows(
    verdict: Verdict,
    odd: Sequence[tuple[IntArray, FloatArray]],
    x: Slice,
    history: AnomalyTracker,
) -> list[float]:
    """For each mode the slice's total if its odd rows were as all others; of values the total."""
    if not history.counted:
        return [x.total] * x.ndim
    totals = []
    for k, (seen, (rows, _)) in enumerate(zip(verdict.rows, odd, strict=True)):
        forecast, observed = seen.forecast[: seen.n_known], seen.observed[: seen.n_known]
        part = whole = float(forecast.sum())
        if len(rows):
            known = rows[rows < seen.n_known]
            forecast, observed = np.delete(forecast, known), np.delete(observed, known)
            part = float(forecast.sum())
        total = float(observed.sum()) * whole / part if part > 0.0 else seen.total
        new = float(verdict.newcomers.forecast[k]) if verdict.newcomers.ready else 0.0
        totals.append((total + new) * history.unit)
    return totals


def without_all_odd_rows(
    verdict: Verdict, odd: Sequence[IntArray], x: Slice, history: AnomalyTracker
) -> list[float]:
    """The slice's total if the odd rows of all modes were as all others, where several have some.

    A station that is closed lacks departures and arrivals: what one mode says of the rest still
    holds what the other one lost. How often two rows meet is taken from how often they occur.
    """
    found = [k for k, rows in enumerate(odd) if len(rows)]
    if not history.counted or len(found) < 2:
        return []
    inside, part = np.zeros(len(x.value), dtype=bool), 1.0
    for k in found:
        seen = verdict.rows[k]
        inside |= np.isin(x.index[:, k], odd[k])
        forecast = seen.forecast[: seen.n_known]
        usual = float(np.delete(forecast, odd[k][odd[k] < seen.n_known]).sum())
        part *= usual / max(float(forecast.sum()), 1e-300)
    return [float(x.value[~inside].sum()) / part] if part > 0.0 else []


def odd_rows(
    seen: Judged, k: int, history: AnomalyTracker, limit: float, verdict: Verdict
) -> tuple[IntArray, FloatArray]:
    """Rows that would be odd as the only ones of their mode, oddest first, and their log p.

    A row is odd for itself, or for not moving as those do that it usually follows. A slice that is
    flagged for a row names it, although what is odd by itself may be less so.
    """
    n = max(1, int((seen.forecast > 0.1).sum())) if history.counted else len(seen.surprise)
    looks = [(f"up {k}", f"down {k}", seen.surprise, n)]
    if verdict.alone is not None and ALONE in verdict.families:
        left, asked = verdict.alone.of_mode(k)[1], int(np.count_nonzero(verdict.alone.heavy))
        looks.append((ALONE, "alone down", left, asked))
    cause = verdict.family if verdict.log_p < limit else ""
    found: dict[int, float] = {}
    for up, down, surprises, n in looks:
        for i in _oddest(surprises):
            surprise = float(surprises[i])
            family = up if surprise > 0.0 else down
            log_p = history.log_p_of(family, abs(surprise), n)
            reason = family == cause and abs(surprise) >= verdict.statistics[family]
            if log_p < limit or reason:
                found[i] = min(log_p, found.get(i, 0.0))
    rows = sorted(found, key=found.__getitem__)
    return np.array(rows, dtype=np.int64), np.array([found[i] for i in rows])


def alone_of(verdict: Verdict, k: int, i: int) -> FloatArray | None:
    """What a row shows without those that it follows, where it follows any."""
    if verdict.alone is None or ALONE not in verdict.families:
        return None
    return verdict.alone.of_mode(k)[:, i]


def _oddest(surprises: FloatArray) -> list[int]:
    """Rows worth a look, the most surprising first."""
    size = np.abs(surprises)
    rows = np.flatnonzero(size >= LEAST_SURPRISE)
    return [int(i) for i in rows[np.argsort(-size[rows], kind="stable")]]


def told_newcomers(
    verdict: Verdict,
    odd: Sequence[tuple[IntArray, FloatArray]],
    history: AnomalyTracker,
    limit: float,
    ordinary: Sequence[float],
) -> tuple[tuple[int, dict[str, Any]], ...]:
    """Modes in which new rows together hold more than usual, while no single one is odd."""
    told = []
    for k, (seen, (named, _)) in enumerate(zip(verdict.rows, odd, strict=True)):
        new, family = verdict.newcomers, f"up {k}"
        if not new.ready or (named >= seen.n_known).any():
            continue
        surprise = float(new.surprise[k])
        cause = verdict.family == family and surprise >= verdict.statistics[family]
        n = max(1, int((seen.forecast > 0.1).sum()))
        if cause or (surprise > 0.0 and history.log_p_of(family, surprise, n) < limit):
            told.append((k, told_row(new, k, "", 0.0, history, ordinary[k])))
    return tuple(told)


def odd_pairs(
    verdict: Verdict,
    n_modes: int,
    labels: Labels | None,
    history: AnomalyTracker,
    limit: float,
    top: int,
    usual: tuple[float, float, float],
    odd: Sequence[IntArray],
) -> tuple[dict[str, Any], ...]:
    """Pairs that are odd by themselves, or together with the others of a row.

    As with rows, those that a slice is flagged for are among them. Pairs of rows that are `odd`
    themselves are explained by these.
    """
    found: list[dict[str, Any]] = []
    n = max(1, sum(int((seen.forecast > 0.1).sum()) for _, seen in verdict.pairs))
    flagged = verdict.log_p < limit
    cause, largest = verdict.family, verdict.statistics.get(verdict.family, math.inf)
    for part, (keys, judged) in zip(history.pairs, verdict.pairs, strict=True):
        explained = np.isin(keys >> SHIFT, odd[part.first]) | np.isin(keys & MASK, odd[part.second])
        seen = replace(judged, compared=judged.compared.copy(), told_extremes=None)
        total = judged.total * history.unit
        ordinary = 1.0 if usual[0] <= total <= usual[2] or total <= 0.0 else usual[1] / total
        seen.compared[SURPRISE, explained] = 0.0
        mixed = np.zeros(len(keys), dtype=bool)
        found_mixtures = mixtures(keys, seen)
        sides = (
            ()
            if found_mixtures is None
            else ((keys >> SHIFT, found_mixtures.first), (keys & MASK, found_mixtures.second))
        )
        for rows, z in sides:
            blamed = [
                i for i in np.flatnonzero(z >= LEAST_SURPRISE)
                if history.log_p_of("mixture", float(z[i]), int(np.count_nonzero(z))) < limit
                or (flagged and cause == "mixture" and z[i] >= largest)
            ]  # fmt: skip
            mixed |= np.isin(rows, blamed)
        for i in _oddest(seen.surprise)[: 4 * top]:
            surprise = float(seen.surprise[i])
            family = "pairs up" if surprise > 0.0 else "pairs down"
            log_p = history.log_p_of(family, abs(surprise), n)
            reason = flagged and family == cause and abs(surprise) >= largest
            if log_p < limit or mixed[i] or reason:
                places = dict(zip((part.first, part.second), part.rows(int(keys[i])), strict=True))
                names = [
                    label_of(labels, k, places[k]) if k in places else "" for k in range(n_modes)
                ]
                record = told_row(seen, i, "", log_p, history, ordinary)
                del record["label"], record["follows"]
                index = [places.get(k) for k in range(n_modes)]
                found.append({"index": index, "labels": names, **record})
    return tuple(sorted(found, key=lambda cell: cell["p"])[: 2 * top])


def told_row(
    seen: Judged,
    i: int,
    label: str,
    log_p: float,
    history: AnomalyTracker,
    ordinary: float,
    alone: FloatArray | None = None,
) -> dict[str, Any]:
    """A row as it is told, against an ordinary slice.

    One that is where it often is, but not where the rows are that it follows (`alone`, its column
    of `Alone.left`), is told against what these say in this slice.
    """
    expected, deviation = float(seen.forecast[i]), float(seen.deviation[i])
    surprise, observed = float(seen.surprise[i]), float(seen.observed[i])
    follows = False
    if alone is not None and abs(surprise) < LEAST_SURPRISE <= abs(alone[1]):
        said = expected + deviation * (surprise - float(alone[0]))
        follows = (observed < said) == (alone[1] < 0.0) and (said > 0.0 or not history.counted)
        if follows:
            expected, deviation = said, deviation * float(alone[0] / alone[1])
            surprise, ordinary = float(alone[1]), 1.0
    width, surprise = USUAL * deviation, abs(surprise)
    if surprise >= LEAST_SURPRISE:  # the range is that by which it was found to be odd
        width = min(width, USUAL / surprise * abs(observed - expected))
    low = max(expected - width, 0.0) if history.counted else expected - width
    ordinary = ordinary if history.counted else 1.0
    scale = history.unit * ordinary  # the unit of what is not counted is one
    return {
        "label": label,
        "observed": observed * history.unit,
        "expected": expected * scale,
        "low": low * scale,
        "high": (expected + width) * scale,
        "p": math.exp(max(log_p, LOWEST_LOG)),
        "new": i >= seen.n_known,
        "follows": follows,
        # Odd the other way than it moved: the slice as a whole moved further.
        "milder": (observed - expected) * (observed - ordinary * expected) < 0.0,
    }


def largest_rows(
    verdict: Verdict, labels: Labels | None, history: AnomalyTracker, ordinary: Sequence[float]
) -> tuple[tuple[int, dict[str, Any]], ...]:
    places = sorted(
        ((-abs(float(r)), k, i) for k, seen in enumerate(verdict.rows)
         for i, r in enumerate(seen.surprise) if seen.forecast[i] > 0.5 or not history.counted),
    )[:TOP_MANY]  # fmt: skip
    return tuple(
        (k, told_row(verdict.rows[k], i, label_of(labels, k, i), 0.0, history, ordinary[k]))
        for _, k, i in places
    )


def label_of(labels: Labels | None, k: int, i: int) -> str:
    names = None if labels is None or k >= len(labels) else labels[k]
    return str(i) if names is None or i >= len(names) else str(names[i])

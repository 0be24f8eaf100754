"""Scores for every event of a table: how surprising the rows and pairs are that it belongs to.

Every time bin is judged against the past and only then learned. An event is as odd as the oddest
excess it is part of: of one of its labels, or of two of them together.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from onlinegcp.anomaly.pairs import SHIFT
from onlinegcp.anomaly.tails import LOWEST_LOG
from onlinegcp.anomaly.tracker import AnomalyTracker
from onlinegcp.anomaly.verdict import Verdict
from onlinegcp.errors import DataError
from onlinegcp.events import from_events
from onlinegcp.events.stream import EventStream
from onlinegcp.events.tables import open_tables
from onlinegcp.slices import Slice
from onlinegcp.storage.labels import chosen

if TYPE_CHECKING:
    import polars as pl

FloatArray: TypeAlias = NDArray[np.float64]
Per: TypeAlias = Literal["event", "cell", "row"]
ADDED = ("score", "p")  # columns beside the table's own


def score_events(
    source: Any,
    *,
    per: Per = "event",
    tracker: AnomalyTracker | None = None,
    counted: bool = True,
    format: str | None = None,
    **settings: Any,
) -> pl.DataFrame:
    """Score every event of a table as it comes: bin by bin, each before it is learned.

    Parameters
    ----------
    source
        A data frame, or anything `from_events` reads more than once.
    per
        "event" for the table with two more columns; "cell" or "row" for one line per cell, or per
        label of each mode, of every slice.
    tracker
        The past to start from, which learns; an empty one by default.
    counted
        Whether cells count events, or sum amounts; else rows are judged by their means.
    format
        Of files, should it not be recognised.
    **settings
        As in `from_events`: time, every, modes, ...

    Returns
    -------
    A frame with the columns `score`, -log10(p), higher for odder, and `p`, the chance of an
    ordinary event as odd; in the order of the table. Rows that no bin took (no time, no key) have
    none. A row of several value columns is as odd as the oddest of its values.

    Examples
    --------
    >>> import polars as pl
    >>> usual = [(day, label) for day in range(30) for label in "aabbbc"]
    >>> frame = pl.DataFrame([*usual, *[(29, "z")] * 9], schema=["day", "label"], orient="row")
    >>> scored = score_events(frame, time="day", every=1, modes=["label"])
    >>> scored["label"][int(scored["score"].arg_max())], scored.columns
    ('z', ['day', 'label', 'score', 'p'])
    """
    if per not in get_args(Per):
        raise DataError(f"per must be event, cell or row, but got {per!r}. Choose one of them.")
    frame = _whole_table(source, format)
    taken = [name for name in ADDED if name in frame.columns]
    if taken and per == "event":
        raise DataError(
            f"The table gets the columns score and p, but has {' and '.join(taken)} already. "
            "Rename them first."
        )
    stream = from_events(frame, **settings)
    past = AnomalyTracker() if tracker is None else tracker
    tables, scores = [_no_lines(per, stream)], {}
    for x in stream:
        verdict = past.judge(x, counted=counted)
        if per == "row":
            tables.append(_rows(x, verdict, stream, past))
        else:
            log_p = event_log_p(verdict, x, past)
            scores[x.time] = x, log_p
            if per == "cell":
                tables.append(_cells(x, log_p, stream))
        past.learn(verdict)
    if per == "event":
        return _beside(frame, stream, scores)
    import polars as pl

    return pl.concat(tables)


def event_log_p(verdict: Verdict, x: Slice, tracker: AnomalyTracker) -> FloatArray:
    """Log-probability, for each listed cell, that an ordinary event is as odd as those in it.

    Parameters
    ----------
    verdict
        What `AnomalyTracker.judge` found about the slice.
    x
        The slice.
    tracker
        Which found it, and has not learned it yet.
    """
    from scipy.special import log_ndtr

    largest = np.zeros(len(x.value))
    if not verdict.ready:
        return largest
    for k, seen in enumerate(verdict.rows):
        surprise = seen.surprise if tracker.counted else np.abs(seen.surprise)
        np.maximum(largest, surprise[x.index[:, k]], out=largest)
    for part, (keys, seen) in zip(tracker.pairs, verdict.pairs, strict=True):
        mine = (x.index[:, part.first].astype(np.int64) << SHIFT) | x.index[:, part.second]
        order = np.argsort(keys, kind="stable")
        np.maximum(largest, seen.surprise[order[np.searchsorted(keys[order], mine)]], out=largest)
    views = len(verdict.rows) + len(verdict.pairs)
    return _oddest_of(np.maximum(log_ndtr(-largest), LOWEST_LOG), np.array(views))


def _oddest_of(chances: FloatArray, looks: NDArray[np.int64]) -> FloatArray:
    """Log-chance that the oddest of several looks is so odd, from that of one of them."""
    small = chances < -30.0
    exact = -np.expm1(looks * np.log1p(-np.exp(np.minimum(chances, -1e-9))))
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(small, chances + np.log(looks), np.log(exact)))


def _whole_table(source: Any, format: str | None) -> pl.DataFrame:
    """The table with all its columns, in its order."""
    import polars as pl

    if isinstance(source, pl.DataFrame):
        return source
    tables = open_tables(source, format=format)
    if tables.live:
        raise DataError(
            "Events are scored in a table that can be read twice, but the source is read as it "
            "comes. Write it to a file first."
        )
    blocks = []
    for part in tables.parts:
        blocks += [block.frame for block in part.read(part.columns() or [])]
    if not blocks:  # a table of names only has no events, and no others are missing
        return pl.DataFrame(schema=[name for part in tables.parts for name in part.columns() or []])
    return pl.concat(blocks, how="vertical_relaxed")


def _beside(
    frame: pl.DataFrame, stream: EventStream, scores: dict[Any, tuple[Slice, FloatArray]]
) -> pl.DataFrame:
    """The table with the scores of the cells its rows went to."""
    found = []
    for bins, codes in stream.places():
        log_p = np.full(len(codes), np.nan)
        for time, rows in bins:
            if time not in scores:
                continue
            x, values = scores[time]
            known = rows[((codes[rows] >= 0) & (codes[rows] < np.array(x.shape))).all(axis=1)]
            if len(known) and len(values):
                cells = np.ravel_multi_index(tuple(x.index.astype(np.int64).T), x.shape)
                mine = np.ravel_multi_index(tuple(codes[known].T), x.shape)
                place = np.minimum(np.searchsorted(cells, mine), len(cells) - 1)
                log_p[known] = np.where(cells[place] == mine, values[place], np.nan)
        found.append(log_p)
    # A row of a wide table is several events, one for each column of values.
    scored = np.concatenate(found or [np.zeros(0)])
    if len(scored) > frame.height:
        by_row = scored.reshape(frame.height, -1)
        looks = np.maximum(np.isfinite(by_row).sum(axis=1), 1)
        scored = _oddest_of(np.fmin.reduce(by_row, axis=1), looks)
    return frame.hstack(_columns(scored))


def _columns(log_p: FloatArray) -> pl.DataFrame:
    import polars as pl

    score = np.abs(log_p / math.log(10.0))  # of a negative number or zero
    return pl.DataFrame({"score": score, "p": np.exp(log_p)}).with_columns(pl.all().fill_nan(None))


def _schema(per: str, stream: EventStream) -> dict[str, Any]:
    """Columns of the lines of cells or rows, without their scores, also where there are none."""
    import polars as pl

    texts = ("time", *stream.mode_names) if per == "cell" else ("time", "mode", "label")
    numbers = ("observed",) if per == "cell" else ("observed", "expected")
    return {**dict.fromkeys(texts, pl.String), **dict.fromkeys(numbers, pl.Float64)}


def _no_lines(per: str, stream: EventStream) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(schema=_schema(per, stream)).hstack(_columns(np.zeros(0)))


def _cells(x: Slice, log_p: FloatArray, stream: EventStream) -> pl.DataFrame:
    """One line per listed cell."""
    import polars as pl

    labels: dict[str, Any] = {}
    for k, (name, names) in enumerate(zip(stream.mode_names, stream.labels, strict=True)):
        present, places = np.unique(x.index[:, k], return_inverse=True)
        labels[name] = np.array(chosen(names, present), dtype=str)[places] if len(present) else []
    table = {"time": [str(x.time)] * len(log_p), **labels, "observed": x.value}
    return pl.DataFrame(table, schema=_schema("cell", stream)).hstack(_columns(log_p))


def _rows(x: Slice, verdict: Verdict, stream: EventStream, past: AnomalyTracker) -> pl.DataFrame:
    """One line per label of each mode that has events, or should have."""
    import polars as pl
    from scipy.special import log_ndtr

    tables = []
    for name, names, seen in zip(stream.mode_names, stream.labels, verdict.rows, strict=True):
        told = np.flatnonzero((np.nan_to_num(seen.observed) != 0.0) | (seen.forecast > 0.5))
        told = told[told < len(names)]
        unit, n = past.unit, len(told)
        surprise = seen.surprise[told] if verdict.ready else np.zeros(n)
        log_p = np.minimum(math.log(2.0) + log_ndtr(-np.abs(surprise)), 0.0)
        table = {
            "time": [str(x.time)] * n,
            "mode": [name] * n,
            "label": chosen(names, told),
            "observed": seen.observed[told] * unit,
            "expected": seen.forecast[told] * unit,
        }
        lines = pl.DataFrame(table, schema=_schema("row", stream))
        tables.append(lines.hstack(_columns(np.maximum(log_p, LOWEST_LOG))))
    return pl.concat(tables)

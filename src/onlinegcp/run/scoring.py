"""Every event of a table, scored by what a run has seen; the run is not changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onlinegcp.anomaly import AnomalyTracker, is_counted, score_events
from onlinegcp.anomaly.event_scores import Per
from onlinegcp.errors import StateError
from onlinegcp.streaming import StreamingModel

if TYPE_CHECKING:
    import polars as pl


def score_table(
    source: Any,
    info: Mapping[str, Any],
    labels: Sequence[Sequence[str]] | None,
    tracker: AnomalyTracker,
    model: StreamingModel,
    *,
    per: Per = "event",
    format: str | None = None,
) -> pl.DataFrame:
    """Score a table; its time bins are judged in order, each before it counts for the next.

    Parameters
    ----------
    source
        A data frame, or files that can be read twice.
    info, labels, tracker, model
        Settings, labels, past and model of the run.
    per
        "event", "cell" or "row", as in `anomaly.score_events`.
    format
        parquet, arrow, csv or jsonl, should it not be recognised.

    Returns
    -------
    The table in its order with the columns `score` and `p`.
    """
    settings = info.get("events")
    if settings is None:
        raise StateError(
            "a run on events was needed to score a table, but this one was made from slices. Use "
            "anomaly.score_slice on slices."
        )
    known = dict(zip(info["modes"], labels or (), strict=False))
    # Modes that share a vocabulary name it once, and modes derived from times have their own.
    others = {name for group in settings.get("share") or () for name in list(group)[1:]}
    others |= {name for name in known if ":" in name}
    vocabulary = {name: names for name, names in known.items() if name not in others}
    return score_events(
        source,
        per=per,
        tracker=tracker.copy(),
        counted=is_counted(model.loss_),
        format=format,
        **{**settings, "vocabulary": vocabulary, "top": None},
    )

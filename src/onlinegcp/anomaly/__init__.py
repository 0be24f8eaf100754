"""How odd a slice is against its own past, which rows are to blame, and in what words."""

from __future__ import annotations

from onlinegcp.anomaly.event_scores import score_events
from onlinegcp.anomaly.holding import held_back
from onlinegcp.anomaly.score import Anomaly, drift, is_counted, score_slice
from onlinegcp.anomaly.tracker import AnomalyTracker

__all__ = [
    "Anomaly",
    "AnomalyTracker",
    "drift",
    "held_back",
    "is_counted",
    "score_events",
    "score_slice",
]

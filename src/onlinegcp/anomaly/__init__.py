"""How odd a slice is: by the model, by its neighbours in time, and where."""

from __future__ import annotations

from onlinegcp.anomaly.score import Anomaly, drift, score_slice
from onlinegcp.anomaly.tracker import AnomalyTracker

__all__ = ["Anomaly", "AnomalyTracker", "drift", "score_slice"]

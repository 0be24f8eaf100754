"""Streaming methods behind one protocol; `METHODS` lists them by name."""

from __future__ import annotations

from onlinegcp.streaming.cp_stream import CPStream
from onlinegcp.streaming.model import StreamingModel
from onlinegcp.streaming.online_cp import OnlineCP
from onlinegcp.streaming.online_gcp import OnlineGCP
from onlinegcp.streaming.online_sgd import OnlineSGD
from onlinegcp.streaming.record import StepRecord
from onlinegcp.streaming.sgd import SGD

METHODS: dict[str, type[StreamingModel]] = {
    "online_gcp": OnlineGCP,
    "online_sgd": OnlineSGD,
    "online_cp": OnlineCP,
    "cp_stream": CPStream,
}

__all__ = [
    "METHODS",
    "SGD",
    "CPStream",
    "OnlineCP",
    "OnlineGCP",
    "OnlineSGD",
    "StepRecord",
    "StreamingModel",
]

"""Streaming methods behind one protocol; `METHODS` lists them by name."""

from __future__ import annotations

from onlinegcp.streaming.acp import ACP
from onlinegcp.streaming.cp_stream import CPStream
from onlinegcp.streaming.gocpte import GOCPTE
from onlinegcp.streaming.model import StreamingModel
from onlinegcp.streaming.olstec import OLSTEC
from onlinegcp.streaming.online_cp import OnlineCP
from onlinegcp.streaming.online_gcp import OnlineGCP
from onlinegcp.streaming.online_sgd import OnlineSGD
from onlinegcp.streaming.record import StepRecord
from onlinegcp.streaming.rlst import RLST
from onlinegcp.streaming.sdt import SDT
from onlinegcp.streaming.sgd import SGD

METHODS: dict[str, type[StreamingModel]] = {
    "online_gcp": OnlineGCP,
    "online_sgd": OnlineSGD,
    "online_cp": OnlineCP,
    "cp_stream": CPStream,
    "olstec": OLSTEC,
    "rlst": RLST,
    "sdt": SDT,
    "acp": ACP,
    "gocpte": GOCPTE,
}

__all__ = [
    "ACP",
    "GOCPTE",
    "METHODS",
    "OLSTEC",
    "RLST",
    "SDT",
    "SGD",
    "CPStream",
    "OnlineCP",
    "OnlineGCP",
    "OnlineSGD",
    "StepRecord",
    "StreamingModel",
]

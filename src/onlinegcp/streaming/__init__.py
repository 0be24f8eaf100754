"""Streaming methods behind one protocol; `METHODS` lists them by name."""

from __future__ import annotations

from onlinegcp.streaming.acp import ACP
from onlinegcp.streaming.cp_stream import CPStream
from onlinegcp.streaming.ensign import Ensign
from onlinegcp.streaming.gocpte import GOCPTE
from onlinegcp.streaming.mast import MAST
from onlinegcp.streaming.model import StreamingModel
from onlinegcp.streaming.olstec import OLSTEC
from onlinegcp.streaming.online_cp import OnlineCP
from onlinegcp.streaming.online_gcp import OnlineGCP
from onlinegcp.streaming.online_sgd import OnlineSGD
from onlinegcp.streaming.post import POST
from onlinegcp.streaming.record import StepRecord
from onlinegcp.streaming.rlst import RLST
from onlinegcp.streaming.sambaten import SamBaTen
from onlinegcp.streaming.sdt import SDT
from onlinegcp.streaming.seek_and_destroy import SeekAndDestroy
from onlinegcp.streaming.sgd import SGD
from onlinegcp.streaming.vbi import VBI

METHODS: dict[str, type[StreamingModel]] = {
    "online_gcp": OnlineGCP,
    "online_sgd": OnlineSGD,
    "online_cp": OnlineCP,
    "cp_stream": CPStream,
    "post": POST,
    "vbi": VBI,
    "seek_and_destroy": SeekAndDestroy,
    "mast": MAST,
    "sambaten": SamBaTen,
    "ensign": Ensign,
    "olstec": OLSTEC,
    "rlst": RLST,
    "sdt": SDT,
    "acp": ACP,
    "gocpte": GOCPTE,
}

__all__ = [
    "ACP",
    "GOCPTE",
    "MAST",
    "METHODS",
    "OLSTEC",
    "POST",
    "RLST",
    "SDT",
    "SGD",
    "VBI",
    "CPStream",
    "Ensign",
    "OnlineCP",
    "OnlineGCP",
    "OnlineSGD",
    "SamBaTen",
    "SeekAndDestroy",
    "StepRecord",
    "StreamingModel",
]

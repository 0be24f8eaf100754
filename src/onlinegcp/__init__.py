"""Streaming generalized CP tensor decomposition.

The public names are loaded on first use, so that ``import onlinegcp`` costs next to nothing and a
program pays only for the parts it calls.

Examples
--------
>>> import onlinegcp
>>> onlinegcp.as_slice([[1, 0], [0, 2]]).total
3.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onlinegcp.errors import BackendError as BackendError
    from onlinegcp.errors import CancellingWarning as CancellingWarning
    from onlinegcp.errors import DataError as DataError
    from onlinegcp.errors import DivergenceWarning as DivergenceWarning
    from onlinegcp.errors import MissingFileError as MissingFileError
    from onlinegcp.errors import OnlineGCPError as OnlineGCPError
    from onlinegcp.errors import RankWarning as RankWarning
    from onlinegcp.errors import ScaleWarning as ScaleWarning
    from onlinegcp.errors import StateError as StateError
    from onlinegcp.events import from_events as from_events
    from onlinegcp.events.modes import bins as bins
    from onlinegcp.events.modes import column as column
    from onlinegcp.events.modes import hour as hour
    from onlinegcp.events.modes import month as month
    from onlinegcp.events.modes import weekday as weekday
    from onlinegcp.events.remote.databases import database as database
    from onlinegcp.events.remote.logs import EventLog as EventLog
    from onlinegcp.events.remote.logs import LogBatch as LogBatch
    from onlinegcp.events.stream import EventStream as EventStream
    from onlinegcp.ktensor import KTensor as KTensor
    from onlinegcp.losses import Loss as Loss
    from onlinegcp.losses import get_loss as get_loss
    from onlinegcp.many.fitting import fit_many as fit_many
    from onlinegcp.many.streams import ManyStreams as ManyStreams
    from onlinegcp.problems import load_flights as load_flights
    from onlinegcp.slices import Slice as Slice
    from onlinegcp.slices import as_slice as as_slice
    from onlinegcp.slices import stack as stack
    from onlinegcp.sources import load_npz as load_npz
    from onlinegcp.sources import read_tns as read_tns
    from onlinegcp.sources import save_npz as save_npz
    from onlinegcp.sources import write_tns as write_tns
    from onlinegcp.static.auto_ten import auto_ten as auto_ten
    from onlinegcp.static.auto_ten import core_consistency as core_consistency
    from onlinegcp.static.cp_als import cp_als as cp_als
    from onlinegcp.static.cp_apr import cp_apr as cp_apr
    from onlinegcp.static.gcp import gcp as gcp
    from onlinegcp.streaming.acp import ACP as ACP
    from onlinegcp.streaming.cp_stream import CPStream as CPStream
    from onlinegcp.streaming.ensign import Ensign as Ensign
    from onlinegcp.streaming.gocpte import GOCPTE as GOCPTE
    from onlinegcp.streaming.mast import MAST as MAST
    from onlinegcp.streaming.olstec import OLSTEC as OLSTEC
    from onlinegcp.streaming.online_cp import OnlineCP as OnlineCP
    from onlinegcp.streaming.online_gcp import OnlineGCP as OnlineGCP
    from onlinegcp.streaming.online_sgd import OnlineSGD as OnlineSGD
    from onlinegcp.streaming.post import POST as POST
    from onlinegcp.streaming.rlst import RLST as RLST
    from onlinegcp.streaming.sambaten import SamBaTen as SamBaTen
    from onlinegcp.streaming.sdt import SDT as SDT
    from onlinegcp.streaming.seek_and_destroy import SeekAndDestroy as SeekAndDestroy
    from onlinegcp.streaming.sgd import SGD as SGD
    from onlinegcp.streaming.vbi import VBI as VBI

__version__ = "0.1.0"

# Where each public name lives. Type checkers read the imports above; a test keeps the two equal.
_HOMES = {
    "BackendError": "errors",
    "DataError": "errors",
    "DivergenceWarning": "errors",
    "RankWarning": "errors",
    "ScaleWarning": "errors",
    "CancellingWarning": "errors",
    "MissingFileError": "errors",
    "OnlineGCPError": "errors",
    "StateError": "errors",
    "Slice": "slices",
    "as_slice": "slices",
    "stack": "slices",
    "KTensor": "ktensor",
    "Loss": "losses",
    "get_loss": "losses",
    "read_tns": "sources",
    "write_tns": "sources",
    "load_npz": "sources",
    "save_npz": "sources",
    "from_events": "events",
    "EventStream": "events.stream",
    "database": "events.remote.databases",
    "EventLog": "events.remote.logs",
    "LogBatch": "events.remote.logs",
    "hour": "events.modes",
    "weekday": "events.modes",
    "month": "events.modes",
    "bins": "events.modes",
    "column": "events.modes",
    "ManyStreams": "many.streams",
    "fit_many": "many.fitting",
    "load_flights": "problems",
    "cp_als": "static.cp_als",
    "auto_ten": "static.auto_ten",
    "core_consistency": "static.auto_ten",
    "cp_apr": "static.cp_apr",
    "gcp": "static.gcp",
    "CPStream": "streaming.cp_stream",
    "VBI": "streaming.vbi",
    "SeekAndDestroy": "streaming.seek_and_destroy",
    "SamBaTen": "streaming.sambaten",
    "POST": "streaming.post",
    "MAST": "streaming.mast",
    "Ensign": "streaming.ensign",
    "OnlineCP": "streaming.online_cp",
    "OnlineGCP": "streaming.online_gcp",
    "OnlineSGD": "streaming.online_sgd",
    "OLSTEC": "streaming.olstec",
    "RLST": "streaming.rlst",
    "SDT": "streaming.sdt",
    "ACP": "streaming.acp",
    "GOCPTE": "streaming.gocpte",
    "SGD": "streaming.sgd",
}

__all__ = [
    "ACP",
    "GOCPTE",
    "MAST",
    "OLSTEC",
    "POST",
    "RLST",
    "SDT",
    "SGD",
    "VBI",
    "BackendError",
    "CPStream",
    "CancellingWarning",
    "DataError",
    "DivergenceWarning",
    "Ensign",
    "EventLog",
    "EventStream",
    "KTensor",
    "LogBatch",
    "Loss",
    "ManyStreams",
    "MissingFileError",
    "OnlineCP",
    "OnlineGCP",
    "OnlineGCPError",
    "OnlineSGD",
    "RankWarning",
    "SamBaTen",
    "ScaleWarning",
    "SeekAndDestroy",
    "Slice",
    "StateError",
    "__version__",
    "as_slice",
    "auto_ten",
    "bins",
    "column",
    "core_consistency",
    "cp_als",
    "cp_apr",
    "database",
    "fit_many",
    "from_events",
    "gcp",
    "get_loss",
    "hour",
    "load_flights",
    "load_npz",
    "month",
    "read_tns",
    "save_npz",
    "stack",
    "weekday",
    "write_tns",
]


if not TYPE_CHECKING:  # which would take any name for a public one

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'onlinegcp' has no attribute {name!r}")
        import importlib

        found = getattr(importlib.import_module(f"onlinegcp.{_HOMES[name]}"), name)
        globals()[name] = found  # so that this runs once per name
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

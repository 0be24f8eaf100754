"""Many small streams, one per customer, machine or shop: independent models in one directory."""

from __future__ import annotations

from onlinegcp.many.files import is_many
from onlinegcp.many.learning import News
from onlinegcp.many.streams import ManyStreams, fit_many

__all__ = ["ManyStreams", "News", "fit_many", "is_many"]

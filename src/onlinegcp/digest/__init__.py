"""A run without its lines: all that report, live page and commands need, in bounded space."""

from __future__ import annotations

from onlinegcp.digest.digest import Digest, as_digest
from onlinegcp.digest.reading import catch_up, read_digest, stored_digest
from onlinegcp.digest.which_loss import loss_name, loss_of

__all__ = [
    "Digest", "as_digest", "catch_up", "loss_name", "loss_of", "read_digest", "stored_digest",
]  # fmt: skip

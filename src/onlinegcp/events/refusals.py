"""Errors about the times of rows: too late, or too far ahead."""

from __future__ import annotations

from typing import Any

from onlinegcp.errors import DataError


def late_error(where: str, time: Any) -> DataError:
    """A row whose bin was closed before it came."""
    return DataError(
        f"Rows must come in order of time, but {where} belongs to {time}, which was closed before. "
        "Sort the source, give bins that are not complete with close_last=False, or use "
        "on_late='drop' to leave such rows out and count them."
    )


def gap_error(where: str, before: Any, time: Any, n_between: int, most: int) -> DataError:
    """A row that would make very many empty slices.

    Parameters
    ----------
    where
        The row, in words.
    before, time
        The bin before the gap, and the row's.
    n_between, most
        Empty bins between the two, and how many there may be.
    """
    return DataError(
        f"Time may jump over at most {most:,} empty bins, but {where} belongs to {time}, "
        f"{n_between:,} bins after {before}. Is this time right? If not, leave it out with "
        f"until='{time}', or since='{time}' if those before it are wrong. If it is, use "
        f"max_gap={n_between} to have that many empty slices, or empty='skip' for none."
    )

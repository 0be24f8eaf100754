"""Records of JSON that go too deep are refused before polars sees them.

A line of a kilobyte is enough: lists within lists a thousand times end the process, and records
within records take all memory there is.
"""

from __future__ import annotations

import re

from onlinegcp.errors import DataError

DEEPEST = 50  # levels; errors of polars tell them by a recursion that ends at some hundreds
_NOT_OPENING = bytes(set(range(256)) - set(b"[{\n"))
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')


def refuse_depths(lines: bytes, name: str, n_before: int) -> None:
    """Refuse the first record that goes too deep.

    Parameters
    ----------
    lines
        A record each.
    name
        What they are of, for the error.
    n_before
        Records before them.

    Examples
    --------
    >>> refuse_depths(b'{"a": [[1]]}', "x.jsonl", 0)
    """
    # Nothing goes deeper than it has opening brackets, which are quickly counted.
    if max(map(len, lines.translate(None, _NOT_OPENING).split(b"\n"))) <= DEEPEST:
        return
    records = filter(bytes.strip, lines.split(b"\n"))
    for row, record in enumerate(records, n_before + 1):
        if (levels := _levels(record)) > DEEPEST:
            raise DataError(
                f"A JSON record may go {DEEPEST} levels deep, but row {row:,} of {name} goes "
                f"{levels:,} deep. Write what lies that deep as text, or leave it out."
            )


def _levels(record: bytes) -> int:
    """How many lists and records lie within each other."""
    level = deepest = 0
    for bracket in _TEXT.sub(b"", record).translate(None, _NO_BRACKET):
        level += 1 if bracket in b"[{" else -1
        deepest = max(deepest, level)
    return deepest

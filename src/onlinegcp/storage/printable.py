"""Text from data, made fit to be shown: no control characters, and no longer than can be read.

Labels and names come from anywhere. Escape sequences in them would reach the terminal, invisible
marks turn the direction of a line, and one label of a megabyte makes a page of fifty.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from onlinegcp.storage.labels import blocks_of, held

# Controls (C0 but for tab and newline, DEL, C1), marks of direction, and halves of characters.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_PATH = re.compile(r"(?<![\w./:-])(?:/[^\s/'\"]+)*/(?=[^\s/])")
LONGEST = 200


def printable(text: str) -> str:
    """The text with whatever is not to be seen written out.

    Examples
    --------
    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return _HIDDEN.sub(_written, text) if _HIDDEN.search(text) else text


def short(text: str, most: int = LONGEST) -> str:
    """The text, printable and cut where it is too long to be read.

    Examples
    --------
    >>> short("abcdefgh", 5)
    'abcd…'
    """
    return printable(text if len(text) <= most else text[: most - 1] + "…")


def all_short(texts: Sequence[str]) -> Sequence[str]:
    """Texts made short; the very same where none has to be: there may be millions."""
    if all(
        max(map(len, block)) <= LONGEST and not _HIDDEN.search("\n".join(block))
        for block in blocks_of(texts)
    ):
        return texts
    return held(map(short, texts))


def presentable(value: Any) -> Any:
    """All texts of a JSON value, names included, made short and printable."""
    if isinstance(value, str):
        return short(value)
    if isinstance(value, dict):
        return {short(str(name)): presentable(item) for name, item in value.items()}
    return [presentable(item) for item in value] if isinstance(value, list) else value


def without_folders(text: str) -> str:
    """The text with names of files in place of absolute paths, which are nobody else's concern.

    Examples
    --------
    >>> without_folders("/home/ann/trips.run/steps.jsonl is damaged (see /tmp/a b)")
    'steps.jsonl is damaged (see a b)'
    """
    return _PATH.sub("", text)


def _written(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"

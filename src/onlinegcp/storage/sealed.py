"""Records of JSON with a checksum, so that a byte that was changed is noticed.

The checksum is the last entry of the record, and is of all bytes before it. Records without one,
as older versions wrote them, are read as they are.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

_HEX = frozenset(b"0123456789abcdef")
# In one line, and over several: what stands before the eight digits and after.
_FORMS = ((b',"crc":"', b'"}'), (b',\n "crc": "', b'"\n}'))
# A seal with this many wrong bytes is still recognised as one.
_SPOILT = 4


def seal(record: bytes) -> bytes:
    """A record of JSON, not empty, with its checksum; in one line or written with indent=1.

    Examples
    --------
    >>> seal(b'{"number":1}')
    b'{"number":1,"crc":"fd3a2de7"}'
    """
    before, after = _FORMS[record.endswith(b"\n}")]
    body = record[: -len(after) + 1]
    return body + before + f"{zlib.crc32(body):08x}".encode() + after


def fits(sealed: bytes) -> bool:
    """Whether a record in one line has its checksum, without reading what it says.

    Examples
    --------
    >>> fits(b'{"number":1,"crc":"fd3a2de7"}\\n'), fits(b'{"number":2,"crc":"fd3a2de7"}\\n')
    (True, False)
    """
    text = sealed.rstrip(b"\n")
    return _marked(text) and int(text[-10:-2], 16) == zlib.crc32(text[:-18])


def _marked(text: bytes) -> bool:
    """Whether a record in one line ends with a seal, as nearly all do."""
    before, after = _FORMS[0]
    return text[-18:-10] == before and text[-2:] == after and _HEX.issuperset(text[-10:-2])


def unseal(sealed: bytes) -> tuple[dict[str, Any], bool]:
    """The record, without its checksum, and whether there was one.

    Raises a ValueError where it does not fit, or the text is no record.

    Examples
    --------
    >>> unseal(b'{"number":1,"crc":"fd3a2de7"}')
    ({'number': 1}, True)
    >>> unseal(b'{"number":2,"crc":"fd3a2de7"}')
    Traceback (most recent call last):
        ...
    ValueError: its checksum does not fit
    """
    text = sealed.rstrip(b"\n")
    found = None
    if _marked(text):
        if int(text[-10:-2], 16) != zlib.crc32(text[:-18]):
            raise ValueError("its checksum does not fit")
        return _parsed(text[:-18] + b"}"), True
    for before, after in _FORMS:
        length = len(before) + 8 + len(after)
        tail = text[-length:]
        if len(text) <= length:
            continue
        digits = tail[len(before) : len(before) + 8]
        wrong = sum(a != b for a, b in zip(before, tail, strict=False))
        wrong += sum(a != b for a, b in zip(after, tail[-len(after) :], strict=True))
        wrong += sum(digit not in _HEX for digit in digits)
        if wrong > _SPOILT:
            continue
        body = text[:-length]
        if wrong or int(digits, 16) != zlib.crc32(body):
            raise ValueError("its checksum does not fit")
        found = body + after[1:]
        break
    return _parsed(text if found is None else found), found is not None


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        record = json.loads(text)
    except RecursionError as error:
        raise ValueError("it goes too deep") from error
    if not isinstance(record, dict):
        raise ValueError("no record")
    return record

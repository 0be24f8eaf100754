"""Packed files: how much they may unpack to, so that a small one cannot fill the memory."""

from __future__ import annotations

import gzip
import os
import zipfile
import zlib
from pathlib import Path
from typing import IO

from onlinegcp.errors import DataError

# Bytes that a file may unpack to if it is packed more tightly than data usually are; set the
# variable to allow more.
LIMIT = 1 << 30
VARIABLE = "ONLINEGCP_MOST_UNPACKED"
TIGHT = 20
_PIECE = 1 << 22


def check_unpacked(path: Path, packed: int, unpacked: int) -> None:
    """Refuse a file that unpacks to more than is allowed.

    Parameters
    ----------
    path
        The file, for the error.
    packed, unpacked
        Its size, and that of what is in it, in bytes, as far as known.
    """
    limit = _limit()
    if unpacked > limit and unpacked > TIGHT * packed:
        raise DataError(
            f"A packed file may unpack to {limit:,} bytes, but {path} has {packed:,} bytes and "
            f"unpacks to {unpacked:,} or more. If you trust it, set {VARIABLE} to a larger number "
            "of bytes."
        )


def check_zip(path: Path, file: IO[bytes]) -> None:
    """The same for a zip file, by its table of contents; what is no zip file is left to others."""
    try:
        with zipfile.ZipFile(file) as content:
            unpacked = sum(entry.file_size for entry in content.infolist())
        size = file.seek(0, os.SEEK_END)
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, RuntimeError):
        size, unpacked = 0, 0
    file.seek(0)
    check_unpacked(path, size, unpacked)


def gunzip(path: Path, data: bytes) -> bytes:
    """What gzipped data hold, unpacked piece by piece."""
    pieces, total, rest = [], 0, data
    while rest:
        stream = zlib.decompressobj(wbits=31)
        while not stream.eof:
            piece = stream.decompress(rest, _PIECE)
            if not piece and not stream.unconsumed_tail and not stream.eof:
                raise EOFError("it ends too early")
            rest = stream.unconsumed_tail
            total += len(piece)
            check_unpacked(path, len(data), total)
            pieces.append(piece)
        rest = stream.unused_data.lstrip(b"\0")
        if rest and not rest.startswith(b"\x1f\x8b"):
            raise gzip.BadGzipFile("there is something else after it")
    return b"".join(pieces)


def _limit() -> int:
    given = os.environ.get(VARIABLE, "")
    if not given:
        return LIMIT
    if not given.isdecimal():
        raise DataError(f"{VARIABLE} must be a number of bytes, but is {given!r}. Correct it.")
    return int(given)

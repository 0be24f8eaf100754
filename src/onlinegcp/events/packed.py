"""Packed files: gzip, bzip2, xz and Zstandard, recognised by how they begin."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onlinegcp.errors import DataError

PACKED = (".gz", ".bz2", ".xz", ".zst")
_ZSTANDARD = b"\x28\xb5\x2f\xfd"


def unpacker(start: bytes, name: str) -> Callable[[Path], Any]:
    """What opens a file whose first bytes are these, for reading what is in it.

    Parameters
    ----------
    start
        The first eight bytes or so.
    name
        For errors.
    """
    if start[:2] == b"\x1f\x8b":
        return gzip.GzipFile
    if start[:3] == b"BZh":
        return bz2.BZ2File
    if start[:6] == b"\xfd7zXZ\x00":
        return lzma.LZMAFile
    if start[:4] == _ZSTANDARD:
        return _zstandard(name)
    return lambda path: path.open("rb")


def is_packed(start: bytes) -> bool:
    """Whether a file that begins so is packed."""
    return start[:2] == b"\x1f\x8b" or start[:3] == b"BZh" or start[:4] in (b"\xfd7zX", _ZSTANDARD)


def is_damage(error: BaseException) -> bool:
    """Whether an error says that a packed file is damaged."""
    if type(error).__name__ == "ZstdError":
        return True
    # bzip2 has no error of its own.
    plain = isinstance(error, OSError) and error.errno is None
    return isinstance(error, (gzip.BadGzipFile, zlib.error, lzma.LZMAError)) or plain


def _zstandard(name: str) -> Callable[[Path], Any]:
    try:
        import zstandard
    except ImportError as error:
        raise DataError(
            f"The package zstandard is needed to read {name}, but it is not installed. Install it "
            "with `pip install zstandard`, or unpack the file with `zstd -d`."
        ) from error

    # Files are often written in several frames, one after the other.
    def unpack(path: Path) -> Any:
        reader = zstandard.ZstdDecompressor()
        return reader.stream_reader(path.open("rb"), read_across_frames=True, closefd=True)

    return unpack

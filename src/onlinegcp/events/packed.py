"""Packed files: gzip, bzip2, xz, Zstandard and zip, recognised by how they begin."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onlinegcp.errors import DataError

PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_ZIP = b"PK\x03\x04"
_BROKEN = (gzip.BadGzipFile, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
_OLD_WORKBOOK = b"\xd0\xcf\x11\xe0"


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
    if start[:4] == _ZIP:
        return lambda path: _zipped(path, name)
    if start[:4] == _OLD_WORKBOOK:
        raise _workbook(name)
    return lambda path: path.open("rb")


def is_packed(start: bytes) -> bool:
    """Whether a file that begins so is packed."""
    return (
        start[:2] == b"\x1f\x8b"
        or start[:3] == b"BZh"
        or start[:4] in (b"\xfd7zX", _ZSTANDARD, _ZIP)
    )


def is_damage(error: BaseException) -> bool:
    """Whether an error says that a packed file is damaged."""
    if type(error).__name__ == "ZstdError":
        return True
    # bzip2 has no error of its own.
    plain = isinstance(error, OSError) and error.errno is None
    return isinstance(error, _BROKEN) or plain


def _zipped(path: Path, name: str) -> Any:
    """The one table in an archive."""
    archive = zipfile.ZipFile(path)
    members = [member for member in archive.infolist() if not member.is_dir()]
    if any(member.filename == "[Content_Types].xml" for member in members):
        raise _workbook(name)
    # macOS adds a folder of its own to archives.
    members = [member for member in members if not member.filename.startswith("__MACOSX/")]
    if len(members) != 1:
        raise DataError(
            f"An archive must hold one table, but {name} holds {len(members)} files. Unpack it, "
            "and give the files, or a pattern such as 'folder/*.csv'."
        )
    if members[0].flag_bits & 1:
        raise DataError(
            f"An archive that anybody can open is needed, but {name} asks for a password. Unpack "
            "it first."
        )
    return archive.open(members[0])


def _workbook(name: str) -> DataError:
    return DataError(
        f"A table of rows is needed, but {name} is a workbook. Save its sheet as CSV, or read it "
        "with polars (`pl.read_excel`) and give the table from Python."
    )


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

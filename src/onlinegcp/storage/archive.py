"""The one way anything is stored: a npz file of arrays and a JSON record, all or nothing.

Every file carries what it holds (`kind`) and a format version.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import DataError, MissingFileError, StateError
from onlinegcp.storage.atomic import replacing
from onlinegcp.storage.block import joined, parted
from onlinegcp.storage.unpacking import check_zip

# 1 had its record as an array of characters, four bytes each; 3 has all arrays in one block.
FORMAT_VERSION = 3
_MEMBERS = 2  # what is written where each array is a member of its own, as NumPy reads it
_META, _BLOCK = "onlinegcp_meta", "onlinegcp_arrays"
# A run writes a file after every slice, for which NumPy takes long. Larger ones are its business,
# and so are the fields a zip file needs beyond 4 GB.
_SMALL = 64_000_000


class DamagedFile(StateError):  # noqa: N818 - it says what the matter is
    """A file of ours that is not whole."""


class SuspectFile(DamagedFile, DataError):  # noqa: N818 - as above
    """A file that claims to hold more than files may: damaged, or made to do harm."""


def under(arrays: Mapping[str, NDArray[Any]], beginning: str) -> dict[str, NDArray[Any]]:
    """Arrays whose names begin so, by what follows.

    Examples
    --------
    >>> list(under({"state.a": np.zeros(1), "weights": np.zeros(1)}, "state."))
    ['a']
    """
    return {n.removeprefix(beginning): a for n, a in arrays.items() if n.startswith(beginning)}


def write_archive(
    path: str | os.PathLike[str],
    kind: str,
    arrays: Mapping[str, NDArray[Any]],
    record: Mapping[str, Any],
    *,
    durable: bool = True,
    of_run: bool = False,
    block: bool = False,
) -> None:
    """Store named arrays and a JSON-able record in one file, atomically.

    Parameters
    ----------
    path
        Target, written under exactly this name; an existing file stays until the new one is whole.
    kind
        What the file holds, such as "ktensor"; reading checks it.
    arrays
        Arrays of numbers, booleans or strings. Objects are refused.
    record
        Anything `json.dumps` takes.
    durable, of_run
        Whether to wait for the disk, and whether the file is part of a run; see `replacing`.
    block
        Whether to store the arrays together, which is quicker where they are many and small; other
        programs then do not find them by their names.
    """
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise DataError(
                f"only arrays of numbers or strings can be stored, but {name!r} holds Python "
                f"objects (dtype {array.dtype}). Convert it first, for example with astype(str)."
            )
    records = any(array.dtype.kind == "V" for array in arrays.values())
    large = records or sum(array.nbytes for array in arrays.values()) > _SMALL
    facts = {"kind": kind, "format": _MEMBERS, "record": dict(record)}
    if block and not large:
        index, content = joined(arrays)
        meta = f'{json.dumps(facts | {"format": FORMAT_VERSION})[:-1]}, "block": {index}}}'
        parts = {_BLOCK: np.frombuffer(content, dtype=np.uint8)}
    else:
        # The names are repeated here, because a zip file protects its contents by checksums but
        # not the names it lists them under.
        meta, parts = json.dumps(facts | {"arrays": sorted(arrays)}), dict(arrays)
    parts = {_META: np.frombuffer(meta.encode(), dtype=np.uint8), **parts}
    with replacing(path, durable=durable, of_run=of_run) as file:
        if large:
            # NumPy before 2.2 takes allow_pickle for an array; objects were refused above.
            named: dict[str, Any] = dict(parts)
            np.savez(file, **named)
        else:
            file.write(b"".join(_npz(parts)))


def read_archive(
    path: str | os.PathLike[str], kind: str
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays and the record of a file written by `write_archive`.

    Parameters
    ----------
    path
        File to read.
    kind
        What it must hold.

    Returns
    -------
    arrays, record
    """
    source = Path(path)
    with _reading(source, kind):
        # Opened here, because np.load leaves a damaged file open when it is given a path.
        with opened(source, f"a saved {kind}") as file:
            _expect_npz(file)
            check_zip(source, file)
            stored = np.load(file, allow_pickle=False)
            arrays = {name: stored[name] for name in stored.files}
        packed = arrays.pop(_META)
        meta = json.loads(packed.tobytes() if packed.dtype == np.uint8 else str(packed))
        found, version, record = meta["kind"], int(meta["format"]), dict(meta["record"])
        if version <= FORMAT_VERSION and "block" in meta:
            arrays = parted(meta["block"], arrays[_BLOCK].tobytes())
        elif meta.get("arrays", sorted(arrays)) != sorted(arrays):
            raise ValueError("some of its arrays are not there")
    if version > FORMAT_VERSION:
        raise StateError(
            f"this version of onlinegcp reads format {FORMAT_VERSION} and older, but {source} has "
            f"format {version}. Upgrade onlinegcp to read it."
        )
    _check_kind(source, kind, found)
    return arrays, record


def _expect_npz(file: IO[bytes]) -> None:
    """Refuse what is no packed file before NumPy takes it for a pickle, and advises to trust it."""
    start = file.read(2)
    file.seek(0)
    if start != b"PK":
        raise ValueError(f"it begins with {start!r}, and an npz file with b'PK'")


def read_record(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """The record of a file written by `write_archive`, without reading its arrays."""
    source = Path(path)
    with _reading(source, kind):
        with opened(source, f"a saved {kind}") as file:
            _expect_npz(file)
            meta = json.loads(np.load(file, allow_pickle=False)[_META].tobytes())
        found, record = meta["kind"], dict(meta["record"])
    _check_kind(source, kind, found)
    return record


@contextlib.contextmanager
def _reading(source: Path, kind: str) -> Iterator[None]:
    """In the block a file is read: damaged bytes make the zip and array readers raise anything."""
    try:
        yield
    except StateError:
        raise
    except DataError as error:  # it would unpack to more than it may
        raise SuspectFile(str(error)) from error
    except Exception as error:
        raise DamagedFile(
            f"a saved {kind} was needed, but {source} cannot be read as one: {error}. The file is "
            f"damaged or was not written by onlinegcp; use an earlier copy."
        ) from error


def _check_kind(source: Path, kind: str, found: Any) -> None:
    if found != kind:
        raise StateError(
            f"a saved {kind} was needed, but {source} holds a {found}. Give the path of a {kind}."
        )


def opened(path: Path, what: str) -> IO[bytes]:
    """A file to read, or the error that says why there is none.

    Parameters
    ----------
    path
        The file.
    what
        What it should be, as in "a saved model".
    """
    try:
        return path.open("rb")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingFileError(
            f"{what} was needed at {path}, but there is no such file. Check the path."
        ) from error
    except OSError as error:
        raise StateError(
            f"{what} was needed, but {path} could not be opened: {error.strerror or error}. Check "
            "the path and its permissions."
        ) from error


def _npz(parts: Mapping[str, NDArray[Any]]) -> list[bytes | memoryview]:
    """The pieces of a zip file of arrays, as `numpy.savez` would write it, not compressed."""
    pieces: list[bytes | memoryview] = []
    directory: list[bytes] = []
    position = 0
    for name, array in parts.items():
        plain = np.ascontiguousarray(array).reshape(array.shape)
        head = _npy_header(plain.dtype.str, plain.shape)
        body = plain.reshape(-1).view(np.uint8).data
        size, label = len(head) + body.nbytes, f"{name}.npy".encode()
        # Version 2.0, names in UTF-8, stored, 1 January 1980, checksum, sizes.
        facts = struct.pack(
            "<5H3L", 20, 0x800, 0, 0, 33, zlib.crc32(body, zlib.crc32(head)), size, size
        )
        local = struct.pack("<4s", b"PK\3\4") + facts + struct.pack("<2H", len(label), 0) + label
        pieces += [local, head, body]
        directory.append(
            struct.pack("<4sH", b"PK\1\2", 20) + facts
            + struct.pack("<5H2L", len(label), 0, 0, 0, 0, 0, position) + label
        )  # fmt: skip
        position += len(local) + size
    count, length = len(directory), sum(map(len, directory))
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, length, position, 0)
    return [*pieces, *directory, end]


@lru_cache(maxsize=256)
def _npy_header(kind: str, shape: tuple[int, ...]) -> bytes:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": kind, "fortran_order": False, "shape": shape}
    )
    return head.getvalue()

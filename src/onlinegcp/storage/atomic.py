"""Files replaced all at once: a reader sees the old file or the new one, never half of either."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from onlinegcp.errors import DataError, StateError
from onlinegcp.storage.appending import force
from onlinegcp.storage.exchanging import exchange

# The file that makes a directory a run, the one that makes it a run of many streams, and the folder
# those have their models in.
RUN, STREAMS, SHARDS = "run.json", "streams.json", "shards"


@contextlib.contextmanager
def replacing(
    path: str | os.PathLike[str], *, durable: bool = True, of_run: bool = False
) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes the place of `path` when the block ends well.

    The bytes go to a temporary name in the same directory, are flushed to disk, and the file is
    renamed: whatever happens meanwhile (an exception, a kill, a full disk, a power cut), `path` is
    whole.

    Parameters
    ----------
    path
        The file.
    durable
        Whether to wait for the disk. Without, a power cut within the next seconds may leave `path`
        in pieces; a kill still may not.
    of_run
        Whether the file is part of a run. Others may not be written into the directory of one.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp(), "greeting.txt")
    >>> with replacing(target) as file:
    ...     _ = file.write(b"hello")
    >>> target.read_text()
    'hello'
    """
    target = Path(path)
    if not of_run and _in_a_run(target.resolve().parent):
        raise DataError(
            f"A file must lie outside the directories of runs, but {target} is in one, and might "
            "take the place of a part of it. Choose another directory."
        )
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    moved = False
    try:
        with beside.open("xb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if durable or not exchange(beside, target):
            beside.replace(target)
            moved = True
        if durable:
            with contextlib.suppress(StateError):  # not every system can
                force(target.parent)  # or the rename itself might not survive a power cut
    except OSError as error:
        kept = "The file already there is unchanged. " if target.exists() else ""
        raise StateError(
            f"A file had to be written, but {target} could not be: {error.strerror or error}. "
            f"{kept}Free some space or choose another directory."
        ) from error
    finally:
        # A second failure here would hide the first, and where nothing can be written nothing is.
        if not moved:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)


def _in_a_run(folder: Path) -> bool:
    # Many streams lie in a folder of their own within the run.
    return any(file.exists() for file in (folder / RUN, folder / STREAMS, folder.parent / STREAMS))

"""Files of bytes that polars decodes are tasted first, by a process that may die of them.

Some damaged parquet files make polars ask for more memory than there is, which ends the process,
whatever it was doing. So another one reads each piece before this one does. It runs ahead by one
piece, so that with a second core next to nothing is waited for.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

from onlinegcp.errors import DataError

# Set to 1 to read files at once, without having them tasted.
VARIABLE = "ONLINEGCP_TRUST_FILES"
_PROGRAM = Path(__file__).with_name("taster.py")


class DamagedTableError(DataError):
    """A file that cannot be read, and must not be."""


@final
class Taster:
    """Sends pieces of files to a process, and hears whether it survived them."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0  # the process that started it, which a fork is not
        self._lock = threading.RLock()
        self._asked: dict[str, dict[str, Any]] = {}  # by its text, in the order of asking
        self._told: dict[str, str | None] = {}
        self._rest = b""

    def ask(self, order: dict[str, Any]) -> None:
        """Have a piece tasted, without waiting for it."""
        with self._lock:
            text = json.dumps(order)
            if text in self._asked or text in self._told or not self._running():
                return
            self._asked[text] = order
            self._send(text)

    def wait(self, order: dict[str, Any]) -> str | None:
        """What is wrong with a piece; None if nothing is."""
        text = json.dumps(order)
        with self._lock:
            self.ask(order)
            while text in self._asked:
                self._hear()
            # Asked for once: whoever reads it again asks again.
            return self._told.pop(text, None)

    def close(self) -> None:
        """End the process."""
        if self._process is not None and self._owner == os.getpid():
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            self._process.wait()
        self._process, self._rest = None, b""

    def _running(self) -> bool:
        if self._process is not None and self._owner == os.getpid():
            if self._asked or self._process.poll() is None:
                return True
            self.close()  # it had waited long enough
        if self._owner != os.getpid():
            self._asked, self._told, self._process = {}, {}, None
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is not for it
            )
        except OSError:  # where there can be no processes, files are read as they are
            return False
        self._owner, self._rest = os.getpid(), b""
        return True

    def _send(self, text: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        # One that has ended is noticed when its answer is waited for.
        with contextlib.suppress(OSError):
            self._process.stdin.write(text.encode() + b"\n")
            self._process.stdin.flush()

    def _hear(self) -> None:
        """Take in some answers; if it died, of the piece that it was asked for first."""
        assert self._process is not None
        assert self._process.stdout is not None
        content = os.read(self._process.stdout.fileno(), 1 << 16)
        if content:
            *lines, self._rest = (self._rest + content).split(b"\n")
            for line in lines:
                self._answered(json.loads(line))
            return
        patient = self._process.wait() == 0  # it ended by itself, before it heard of the rest
        self.close()
        if not patient:
            self._answered("the process that read it was ended by that")
        if not self._asked or not self._running():
            self._asked.clear()
            return
        for text in self._asked:
            self._send(text)

    def _answered(self, problem: str | None) -> None:
        text = next(iter(self._asked))
        del self._asked[text]
        self._told[text] = problem


_TASTER = Taster()
atexit.register(_TASTER.close)


@final
class Tasted:
    """A file whose pieces are tasted before they are read.

    Parameters
    ----------
    path
        The file.
    parquet
        Whether it is one of parquet, rather than of Arrow.
    """

    def __init__(self, path: Path, *, parquet: bool) -> None:
        self._order = {"path": str(path.absolute()), "parquet": parquet}
        self._name = str(path)

    def check_whole(self) -> None:
        """Refuse a file whose table of contents cannot be read."""
        self._check({**self._order, "columns": None, "start": 0, "length": 0})

    def check_rows(self, columns: Sequence[str], start: int, length: int, n_rows: int) -> None:
        """Refuse a piece that cannot be read, and have the next one tasted meanwhile."""
        piece = {**self._order, "columns": list(columns), "length": length}
        if _trusted():
            return
        _TASTER.ask({**piece, "start": start})
        if start + length < n_rows:
            _TASTER.ask({**piece, "start": start + length})
        where = f" in rows {start + 1:,} to {min(n_rows, start + length):,}"
        self._check({**piece, "start": start}, where)

    def _check(self, order: dict[str, Any], where: str = "") -> None:
        problem = None if _trusted() else _TASTER.wait(order)
        if problem is not None:
            raise DamagedTableError(
                f"A whole table is needed, but {self._name} is damaged or of another "
                f"format{where}: {problem}. Write the file again, or say what it is with format=..."
            )


def _trusted() -> bool:
    return os.environ.get(VARIABLE, "") not in ("", "0")

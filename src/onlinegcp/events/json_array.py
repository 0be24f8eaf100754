"""A JSON array of records as lines of JSON, one record each, read as it comes."""

from __future__ import annotations

import codecs
import json
import re
from typing import Any, final

from onlinegcp.errors import DataError

_BETWEEN = re.compile(r"[\s,]*")
_LONGEST_RECORD = 1 << 26  # characters; what has no end by then is no array of records


@final
class ArrayLines:
    """A file that holds an array, read as if it held its records line by line.

    The text of a record is kept as it is, so that long numbers stay exact; a raw line break cannot
    stand inside a JSON string, which makes one within a record as good as a space.

    Parameters
    ----------
    file
        Open binary file or pipe.
    start
        What has been read of it already.
    name
        For errors.

    Examples
    --------
    >>> import io
    >>> ArrayLines(io.BytesIO(b'"b"}, {"a": 2}]'), b'[{"a":', "it").read(100)
    b'{"a":"b"}\\n{"a": 2}\\n'
    """

    def __init__(self, file: Any, start: bytes, name: str) -> None:
        self._file, self._name = file, name
        self._decode = codecs.getincrementaldecoder("utf-8")()
        self._decoder = json.JSONDecoder()
        self._text = ""
        self._place = 0  # in the text, of what comes next
        self._n_records = 0
        self._closed = self._ended = False
        self._take(start)
        self._text = self._text.lstrip().removeprefix("[")

    def read(self, size: int) -> bytes:
        """The whole records of what the file gives when asked for so much; empty at the end."""
        lines: list[str] = []
        while not lines and not self._ended:
            while (record := self._next()) is not None:
                lines.append(record + "\n")
            if not self._ended:
                self._text, self._place = self._text[self._place :], 0
                if not lines:
                    self._more(size)
        return "".join(lines).encode()

    read1 = read

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _next(self) -> str | None:
        """The next record; None if the array or what was read of it ends."""
        start = _BETWEEN.match(self._text, self._place).end()  # type: ignore[union-attr]
        if self._text[start : start + 1] == "]":
            self._ended = True
            return None
        if start == len(self._text):
            if self._closed:
                raise DataError(
                    f"A JSON array must end with ], but {self._name} ends after record "
                    f"{self._n_records:,}. Write the file again."
                )
            return None
        try:
            _, end = self._decoder.raw_decode(self._text, start)
        except (ValueError, RecursionError) as error:
            if not self._closed and len(self._text) - start < _LONGEST_RECORD:
                return None
            raise DataError(
                f"A JSON array must hold whole records, but record {self._n_records + 1:,} of "
                f"{self._name} cannot be read: {error}. Correct it."
            ) from error
        if end == len(self._text) and not self._closed:
            return None  # a number might go on
        self._place = end
        self._n_records += 1
        return self._text[start:end].replace("\n", " ").replace("\r", " ")

    def _more(self, size: int) -> None:
        found = (getattr(self._file, "read1", None) or self._file.read)(size)
        if isinstance(found, str):
            found = found.encode()
        self._closed = not found
        self._take(found)

    def _take(self, found: bytes) -> None:
        try:
            self._text += self._decode.decode(found, final=self._closed)
        except UnicodeDecodeError as error:
            raise DataError(
                f"A table of text must be UTF-8, but {self._name} is not, after record "
                f"{self._n_records:,}: {error.reason}. Convert it, or is it a binary file?"
            ) from error

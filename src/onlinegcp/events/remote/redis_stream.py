"""A Redis stream as a log: read by a consumer group of the run's own, acknowledged once stored."""

from __future__ import annotations

import contextlib
import json
import logging
import secrets
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final
from urllib.parse import parse_qsl, unquote, urlsplit

from onlinegcp.errors import DataError, closest
from onlinegcp.events.remote.extras import needed
from onlinegcp.events.remote.logs import LogBatch
from onlinegcp.events.vocabulary import number_text
from onlinegcp.storage.secrets import redacted

_OPTIONS = ("group", "json", "follow", "lost")
_ENTRIES = 10_000  # of a batch
_WAIT = 1000  # milliseconds
_START = "0-0"

Entry = tuple[bytes, Mapping[bytes, bytes]]


@final
class RedisStream:
    """Entries of a Redis stream; their fields are the columns.

    Parameters
    ----------
    address
        ``redis://user:password@host:port/stream``, or ``.../2/stream`` in the database 2;
        ``rediss://`` over TLS. After a question mark: ``group=name`` for the consumer group (by
        default one with a new name, kept in the run), ``json=field`` where one field holds a JSON
        object with all columns, ``follow=yes`` to wait for more, and ``lost=accept`` to go on
        where entries were deleted before they were read.
    """

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        *first, stream = [unquote(word) for word in parts.path.split("/") if word] or [""]
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        self._address = address
        if not stream or len(first) > 1 or not all(word.isdecimal() for word in first):
            raise DataError(
                f"A Redis stream must be given as redis://host:port/stream, but "
                f"{redacted(address)} was found. Add its name."
            )
        for name in options:
            if name not in _OPTIONS:
                raise DataError(
                    f"The options of a Redis stream are {', '.join(_OPTIONS)}, but {name!r} was "
                    f"found.{closest(name, _OPTIONS)} Correct it or leave it out."
                )
        try:
            host, port = parts.hostname or "localhost", parts.port or 6379
        except ValueError as error:
            raise DataError(
                f"The port of a server must be a number up to 65535, but {redacted(address)} was "
                "given. Correct it."
            ) from error
        self._stream, self._options = stream, options
        number = first[0] if first else "0"
        self.name = f"{parts.scheme}://{host}:{port}/{number}/{stream}"
        self._redis = needed("redis", "redis", "A Redis stream")
        self._server = self._redis.Redis(
            host=host,
            port=port,
            db=int(number),
            username=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password) if parts.password else None,
            ssl=parts.scheme == "rediss",
            socket_connect_timeout=10,
        )
        self._group = ""
        self._unacknowledged: deque[str] = deque()

    def read_after(self, position: Any) -> Iterator[LogBatch]:
        """Batches of entries, all that are there or, when following, without end."""
        with self._named():
            last = _START if position is None else str(position["id"])
            self._join(position, last)
            # Entries ever added up to the last one read; some are gone before the first reading.
            n_passed = self._n_gone() if position is None else int(position["n"])
            follow = self._options.get("follow", "").lower() in ("yes", "true", "1")
            while True:
                if last != _START:
                    n_passed = self._check_lost(last, n_passed)
                found = self._server.xreadgroup(
                    self._group,
                    "onlinegcp",
                    {self._stream: ">"},
                    count=_ENTRIES,
                    block=_WAIT if follow else None,
                )
                entries = [entry for _, some in _pairs(found) for entry in some]
                if entries:
                    yield self._batch(entries, last, n_passed)
                    last, n_passed = entries[-1][0].decode(), n_passed + len(entries)
                elif not follow:
                    return

    def acknowledge(self, position: Any) -> None:
        """Tell the group which entries it need not keep."""
        done, last = [], _order(position["id"])
        while self._unacknowledged and _order(self._unacknowledged[0]) <= last:
            done.append(self._unacknowledged.popleft())
        with self._named():
            for start in range(0, len(done), 1000):
                self._server.xack(self._stream, self._group, *done[start : start + 1000])

    def _join(self, position: Any, last: str) -> None:
        """Make the group, or set it back to where the run stands.

        The run knows better than the group: what was delivered to a process that was killed is
        delivered again.
        """
        known = None if position is None else position.get("group")
        self._group = self._options.get("group") or known or f"onlinegcp-{secrets.token_hex(6)}"
        if not self._server.exists(self._stream):
            raise DataError(
                f"A stream that exists is needed, but {self.name} does not. Check its name, or add "
                "entries first."
            )
        try:
            self._server.xgroup_create(self._stream, self._group, id=last)
            return
        except self._redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise
        self._server.xgroup_setid(self._stream, self._group, id=last)
        # Stored by the run, but killed before the group heard of it.
        while pending := self._server.xpending_range(self._stream, self._group, "-", last, 1000):
            self._server.xack(self._stream, self._group, *(one["message_id"] for one in pending))

    def _n_gone(self) -> int:
        """Entries that were deleted so far; 0 where the server, before version 7, does not tell."""
        told = self._server.xinfo_stream(self._stream)
        return max(0, int(told.get("entries-added", 0)) - int(told["length"]))

    def _check_lost(self, last: str, n_passed: int) -> int:
        """Refuse to go on where entries after the last one read are gone; how many were passed.

        Trimming deletes from the start, so that more are gone than were passed. One that was
        deleted by itself is known by its id.
        """
        told = self._server.xinfo_stream(self._stream)
        deleted = told.get("max-deleted-entry-id", _START)
        deleted = deleted.decode() if isinstance(deleted, bytes) else str(deleted)
        n_gone = self._n_gone()
        n_lost = max(n_gone - n_passed, int(_order(deleted) > _order(last)))
        if n_lost <= 0:
            return n_passed
        found = (
            f"at least {n_lost:,} were deleted from {self.name} after the entry {last}, which was "
            "the last one read"
        )
        if self._options.get("lost") != "accept":
            raise DataError(
                f"Entries must be kept until they are read, but {found}. Let the stream keep "
                "more; add lost=accept to its address to go on without them."
            )
        logging.getLogger("onlinegcp").warning("%s", found)
        self._options.pop("lost")  # it is said of what is gone now, not of what will be
        return max(n_gone, n_passed)

    def _batch(self, entries: Sequence[Entry], before: str, n_before: int) -> LogBatch:
        ids = [identity.decode() for identity, _ in entries]
        self._unacknowledged.extend(ids)
        group = self._group

        def position(n: int) -> dict[str, Any]:
            return {"group": group, "id": ids[n - 1] if n else before, "n": n_before + n}

        return LogBatch(self._table(entries), position)

    def _table(self, entries: Sequence[Entry]) -> Any:
        import polars as pl

        rows = [self._row(identity, fields) for identity, fields in entries]
        names = list(dict.fromkeys(name for row in rows for name in row))
        columns = {name: [row.get(name) for row in rows] for name in names}
        if not names:
            return pl.DataFrame({"": [None] * len(rows)})
        return pl.DataFrame(columns, schema=dict.fromkeys(names, pl.String))

    def _row(self, identity: bytes, fields: Mapping[bytes, bytes]) -> dict[str, str | None]:
        where = f"entry {identity.decode()} of {self.name}"
        try:
            row = {name.decode(): value.decode() for name, value in fields.items()}
        except UnicodeDecodeError as error:
            raise DataError(
                f"Fields must be text in UTF-8, but {where} holds other bytes. Encode them."
            ) from error
        field = self._options.get("json")
        if field is None:
            return dict(row)
        try:
            found = json.loads(row[field])
            if not isinstance(found, dict):
                raise ValueError("no object")
        except (KeyError, ValueError, RecursionError) as error:
            raise DataError(
                f"The field {field!r} of every entry must hold a JSON object, but that of {where} "
                f"does not: {error}. Leave json={field} out, or correct the entry."
            ) from error
        return {name: _text(value) for name, value in found.items()}

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Turns what the client raises into an error that names the stream, without secrets."""
        try:
            yield
        except (self._redis.RedisError, OSError) as error:
            raise DataError(
                f"Entries were to be read from {self.name}, but that failed: "
                f"{redacted(str(error)).rstrip('. ')}. Check the address and the server; whatever "
                "was learned before is kept."
            ) from None


def _pairs(found: Any) -> Any:
    """Streams and entries, as the two versions of the protocol give them."""
    return found.items() if isinstance(found, dict) else found or ()


def _order(identity: str) -> tuple[int, int]:
    first, _, second = identity.partition("-")
    return int(first), int(second or 0)


def _text(value: Any) -> str | None:
    """A value of JSON as the text that a field would hold."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return number_text(value) if isinstance(value, (int, float)) else json.dumps(value)

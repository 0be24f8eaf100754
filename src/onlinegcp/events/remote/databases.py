"""Rows of a database: PostgreSQL, SQLite and DuckDB by way of ADBC, in order of time.

The user's query is wrapped, so that the database sorts and leaves out what is known:

    select columns from (query) as events where time >= start order by time

The answer is read batch by batch, so that memory does not depend on its length.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

from onlinegcp.errors import DataError
from onlinegcp.events.remote import SQL, scheme_of
from onlinegcp.events.remote.arrow_names import column_names
from onlinegcp.events.remote.connections import connect
from onlinegcp.events.remote.extras import needed
from onlinegcp.events.remote.time_literal import TimeLiteral
from onlinegcp.events.table_parts import Part, Tables
from onlinegcp.storage.secrets import redacted

if TYPE_CHECKING:
    import polars as pl

    from onlinegcp.events.rows import RowReader

_ROWS = 100_000  # of a block
# Closed bins whose rows are counted again, to tell of late ones.
_WATCHED = 32


def database(address: str | os.PathLike[str], query: str) -> Tables:
    """The rows a query finds, as a source for `from_events` and `Run.stream`.

    Parameters
    ----------
    address
        ``postgresql://user@host/name``, as psql takes it; ``sqlite:///file.db`` and
        ``duckdb:///file.duckdb``, or just the file. Neither the run nor an error shows a password;
        better leave it to ``~/.pgpass`` or ``PGPASSWORD``.
    query
        A select without "order by"; it may give more columns than are needed.

    Examples
    --------
    >>> trips = database("sqlite:///trips.db", "select pickup, borough from trips")
    >>> trips.parts[0].name  # nothing is asked before the slices are
    'sqlite:///trips.db'
    """
    place = Database(os.fspath(address), query)
    return Tables((Part(place.name, place.columns, place.frames),), place=place)


@final
class Database:
    """A database as a place; see `Place`. Made by `database`.

    Parameters
    ----------
    address
        Where it is.
    query
        What is asked of it.
    """

    keeps_open = False

    def __init__(self, address: str, query: str) -> None:
        kind = SQL.get(scheme_of(address) or "")
        if kind is None:
            raise DataError(
                f"A query needs a database, but {redacted(address)} is none. Write "
                "postgresql://user@host/name, or name a SQLite or DuckDB file."
            )
        if not query.strip():
            raise DataError('A database needs a query, but it is empty. Write "select ...".')
        self.name = redacted(address)
        self._kind, self._address = kind, address
        self._query = query.strip().rstrip(";")
        self._time: str | None = None
        self._new = True  # whether no bin has been closed yet
        self._conditions: list[str] = []
        self._rows: dict[int, int] = {}  # rows by bin, of the last ones
        self._columns: list[str] | None = None
        self._numeric: set[str] = set()  # columns of numbers that come as text

    @property
    def described(self) -> dict[str, Any]:
        return {"kind": "database", "name": self.name, "query": redacted(self._query)}

    # ---- the rows

    def height(self) -> float:
        """How many rows the query has."""
        return float(self._table(self._asking("count(*)", [])).item())

    def columns(self) -> list[str]:
        """Names of the columns of the query."""
        if self._columns is None:
            with (
                self._connected() as connection,
                self._asked(connection, self._asking("*", ["1 = 0"])) as answer,
            ):
                self._columns = column_names(answer)
        return self._columns

    def frames(self, wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Rows in order of time, those without one first, once; as they come before `begin`."""
        columns = ", ".join(map(_quoted, wanted))
        with self._connected() as connection:
            if self._time is None:
                yield from self._answer(connection, self._asking(columns, []))
                return
            time = _quoted(self._time)
            if self._new:
                yield from self._answer(connection, self._asking(columns, [f"{time} is null"]))
            conditions = self._conditions or [f"{time} is not null"]
            yield from self._answer(
                connection, f"{self._asking(columns, conditions)} order by {time}"
            )

    def _asking(self, columns: str, conditions: Sequence[str]) -> str:
        # A query may end with a comment, which must not hide the rest.
        where = f" where {' and '.join(conditions)}" if conditions else ""
        return f"select {columns} from (\n{self._query}\n) as events{where}"

    def _answer(self, connection: Any, query: str) -> Iterator[pl.DataFrame]:
        import polars as pl

        with self._asked(connection, query) as answer:
            rows = pl.scan_arrow_c_stream(answer)
            batches = rows.collect_batches(chunk_size=_ROWS, maintain_order=True)
            del rows, answer
            try:
                for batch in batches:
                    yield self._plain(batch)
            finally:
                del batches  # before the cursor they come from

    def _table(self, query: str) -> pl.DataFrame:
        """A short answer, as a whole."""
        import polars as pl

        with self._connected() as connection, self._asked(connection, query) as answer:
            return self._plain(pl.DataFrame(answer))

    def _plain(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Columns as a file would hold them."""
        import polars as pl

        columns = []
        for column in rows.iter_columns():
            if isinstance(column.dtype, pl.Extension):
                if '"numeric"' in (column.dtype.ext_metadata() or ""):
                    self._numeric.add(column.name)
                column = column.ext.storage()  # numbers of any length are text
            if column.dtype == pl.Binary:
                raise DataError(
                    f"Columns must hold numbers, text or times, but {column.name!r} of {self.name} "
                    f'holds bytes. Convert it in the query: "select cast({column.name} as text)".'
                )
            if column.dtype == pl.Datetime and column.dtype.time_zone is not None:  # type: ignore[attr-defined]
                column = column.dt.convert_time_zone("UTC")  # not that of this machine
            columns.append(column)
        return pl.DataFrame(columns)

    @contextlib.contextmanager
    def _asked(self, connection: Any, query: str) -> Iterator[Any]:
        """The answer to a query, as an Arrow stream."""
        with self._named("the query cannot be used"), contextlib.closing(connection.cursor()) as at:
            at.execute(query)
            yield at.fetch_arrow()

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        with self._named("it cannot be reached"):
            connection = connect(self._kind, self._address)
        try:
            yield connection
        finally:
            connection.close()

    @contextlib.contextmanager
    def _named(self, what: str) -> Iterator[None]:
        """Turns what drivers raise into an error that names the database, without secrets."""
        import polars as pl

        manager = needed("adbc_driver_manager", "sql", "A database")
        try:
            yield
        except (manager.Error, pl.exceptions.PolarsError) as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            told = redacted(" ".join(lines[:3])).rstrip(". ")
            # The driver's own error would show the address.
            raise DataError(
                f"Rows were to be read from {self.name}, but {what}: {told}. Check the address, "
                "the server and the query; whatever was learned before is kept."
            ) from None

    # ---- going on

    def continues(self, positions: Mapping[str, Any]) -> bool:
        return False  # the start may be rounded down

    def begin(self, reader: RowReader, closed: int | None, position: Any) -> int:
        self._time = reader.time.name
        if self._time not in self.columns():
            return 0  # whoever reads the columns says it better
        literal = self._literal(reader)
        if literal is None:
            return 0  # no rows
        time, bins = _quoted(self._time), reader.bins
        if literal.settled and reader.since is not None:
            self._conditions.append(f"{time} >= {literal.of(bins.ticks(reader.since, 'since'))}")
        if literal.settled and reader.until is not None:
            self._conditions.append(f"{time} < {literal.of(bins.ticks(reader.until, 'until'))}")
        if closed is None:
            return 0
        start = literal.of(bins.ticks(bins.time(bins.after(closed)), ""))
        self._new = False
        self._conditions.append(f"{time} >= {start}")
        if not position or position.get("query") != self._digest():
            return 0
        self._rows = {int(key): int(n) for key, n in position["rows"]}
        starts = [literal.of(bins.ticks(bins.time(key), "")) for key in self._rows]
        return self._late([*starts, start])

    def _literal(self, reader: RowReader) -> TimeLiteral | None:
        """How times are written in a query, by one of them."""
        import polars as pl

        assert self._time is not None
        time = _quoted(self._time)
        asking = f"{self._asking(time, [f'{time} is not null'])} limit 1"
        found = self._table(asking).to_series()
        if not len(found):
            return None
        if self._time in self._numeric:
            found = found.cast(pl.Float64)
        return TimeLiteral(found, reader.time, self.name)

    def _late(self, starts: Sequence[str]) -> int:
        """Rows that have come to bins since they were closed; they then count as known."""
        if not self._rows:
            return 0
        time = _quoted(str(self._time))
        sums = ", ".join(
            f"sum(case when {time} >= {one} and {time} < {two} then 1 else 0 end) as n{position}"
            for position, (one, two) in enumerate(itertools.pairwise(starts))
        )
        asking = self._asking(sums, [f"{time} >= {starts[0]}", f"{time} < {starts[-1]}"])
        found = [int(n or 0) for n in self._table(asking).row(0)]
        late = 0
        for key, n_rows in zip(list(self._rows), found, strict=True):
            late += max(0, n_rows - self._rows[key])
            self._rows[key] = max(n_rows, self._rows[key])
        return late

    def reached(self, key: int, row: int, n_rows: int) -> None:
        self._rows[key] = self._rows.get(key, 0) + n_rows
        while len(self._rows) > _WATCHED + 1:
            del self._rows[min(self._rows)]

    def ended(self) -> None:
        pass

    def position(self, closed: int | None) -> dict[str, Any]:
        known = sorted(key for key in self._rows if closed is not None and key <= closed)
        rows = [[key, self._rows[key]] for key in known[-_WATCHED:]]
        return {"query": self._digest(), "rows": rows}

    def stored(self) -> None:
        pass  # nothing is taken out of a database

    def _digest(self) -> str:
        return hashlib.sha256(self._query.encode()).hexdigest()[:16]


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'

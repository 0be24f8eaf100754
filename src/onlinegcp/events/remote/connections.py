"""Connections to databases, by ADBC; files are opened for reading only."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

from onlinegcp.errors import DataError
from onlinegcp.events.remote.extras import needed

# DuckDB sorts in our process: what is more goes to disk.
_MEMORY = "1GB"


def connect(kind: str, address: str) -> Any:
    """A connection as PEP 249 has it.

    Parameters
    ----------
    kind
        "postgresql", "sqlite" or "duckdb".
    address
        Where the database is; for the latter two perhaps just a path.
    """
    if kind == "postgresql":
        driver = needed("adbc_driver_postgresql.dbapi", "sql", "PostgreSQL")
        return driver.connect(address, autocommit=True)
    path = _path(address)
    if kind == "sqlite":
        driver = needed("adbc_driver_sqlite.dbapi", "sql", "SQLite")
        return driver.connect(f"{path.absolute().as_uri()}?mode=ro", autocommit=True)
    library = needed("adbc_driver_duckdb", "sql", "DuckDB").driver_path()
    options = {
        "path": str(path),
        "access_mode": "READ_ONLY",
        "memory_limit": _MEMORY,
        "temp_directory": str(Path(tempfile.gettempdir(), "onlinegcp-duckdb")),
    }
    manager = needed("adbc_driver_manager.dbapi", "sql", "DuckDB")
    return manager.connect(
        driver=library, entrypoint="duckdb_adbc_init", db_kwargs=options, autocommit=True
    )


def _path(address: str) -> Path:
    _, found, rest = address.partition("://")
    path = Path(rest.removeprefix("/") if found else address)
    if not path.is_file():
        raise DataError(
            f"A database needs a file, but {path} is none. Write sqlite:///name.db for a file of "
            "this directory, and sqlite:////name.db for one given from the root."
        )
    return path


def tables_of(kind: str, address: str) -> list[str]:
    """Names of the tables and views in a database that is a file; none where it does not tell."""
    import polars as pl

    queries = {
        "sqlite": "select name from sqlite_master where type in ('table', 'view') order by name",
        "duckdb": "select table_name from information_schema.tables order by table_name",
    }
    if kind not in queries:
        return []
    # Whoever asks has something else to say, which is true without them, too.
    with contextlib.suppress(Exception), contextlib.closing(connect(kind, address)) as connection:
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute(queries[kind])
            found = pl.DataFrame(cursor.fetch_arrow())
        return [str(name) for name in found.to_series()]
    return []

"""Events that are not in files of this machine: databases, logs and object stores.

Here an address is recognised; each kind of place has its own file.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onlinegcp.errors import DataError, closest
from onlinegcp.events.remote.logs import is_log, log_tables
from onlinegcp.storage.secrets import redacted

if TYPE_CHECKING:
    from onlinegcp.events.table_parts import Tables

SQL = {"postgresql": "postgresql", "postgres": "postgresql", "sqlite": "sqlite", "duckdb": "duckdb"}
SQL_FILES = {".db": "sqlite", ".sqlite": "sqlite", ".sqlite3": "sqlite", ".duckdb": "duckdb"}
LOGS = ("redis", "rediss")
OBJECTS = ("s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss")

_ADDRESS = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")


def scheme_of(source: Any) -> str | None:
    """The kind of place an address or file names; None for anything else."""
    if not isinstance(source, (str, os.PathLike)):
        return None
    text = os.fspath(source)
    found = _ADDRESS.match(text) if isinstance(text, str) else None
    if found:
        return found[1].lower()
    return SQL_FILES.get(Path(text).suffix.lower()) if isinstance(text, str) else None


def is_database(source: Any) -> bool:
    """Whether a source must be asked with a query."""
    return scheme_of(source) in SQL


def open_remote(source: Any, format: str | None) -> Tables | None:
    """The tables of an address or a log; None if a source is neither."""
    if is_log(source):
        return log_tables(source)
    scheme = scheme_of(source)
    if scheme is None:
        return None
    text = os.fspath(source)
    if scheme in SQL:
        from onlinegcp.events.remote.connections import tables_of

        found = tables_of(SQL[scheme], text)
        held = f", which holds {', '.join(found[:9])}" + (", ..." if found[9:] else "")
        example = f"select * from {found[0] if found else '...'}"
        raise DataError(
            f"A database needs a query, but none was given for {redacted(text)}"
            f"{held if found else ''}. Write --query '{example}' on the command line, or "
            "database(address, query) in Python."
        )
    if scheme in LOGS:
        from onlinegcp.events.remote.redis_stream import RedisStream

        return log_tables(RedisStream(text))
    if scheme in OBJECTS:
        from onlinegcp.events.remote.object_stores import object_tables

        return object_tables(text, format)
    known = (*SQL, *LOGS, *OBJECTS)
    raise DataError(
        f"An address must begin with one of {', '.join(f'{name}://' for name in known)}, but "
        f"{redacted(text)} was given.{closest(scheme, known)} Send other sources through a pipe, "
        "as CSV or JSON lines, and read -."
    )

"""Files that cannot be read, whatever it is that says so: an error that names the file."""

from __future__ import annotations

from typing import final

from onlinegcp.errors import DataError
from onlinegcp.events.packed import is_damage


def unreadable(name: str, error: OSError) -> DataError:
    """The error for a file that the system does not let us read."""
    return DataError(
        f"A file that can be read is needed, but {name} cannot be: {error.strerror or error}. "
        "Check the path and its permissions."
    )


@final
class named_errors:  # noqa: N801 - used as a statement
    """Turns whatever a reader raises into a DataError that names the file."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, (DataError, GeneratorExit, KeyboardInterrupt)):
            return
        import polars as pl

        # A damaged file can make the reader panic, which is not an Exception.
        panicked = type(error).__name__ == "PanicException"
        broken = (pl.exceptions.PolarsError, EOFError, UnicodeError)
        if isinstance(error, broken) or is_damage(error) or panicked:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise DataError(
                f"A whole table is needed, but {self.name} is damaged or of another format: "
                f"{lines[0]}. Write the file again, or say what it is with format=..."
            ) from error
        if isinstance(error, OSError):
            raise unreadable(self.name, error) from error

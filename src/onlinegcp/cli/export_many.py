"""`onlinegcp export` of many streams: tables that name the stream, or one stream as a run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onlinegcp.cli.export import TABLES, What, export_one, factor_rows, step_rows
from onlinegcp.cli.many import stream_rows
from onlinegcp.cli.pieces import write_table
from onlinegcp.errors import DataError


def export_many(run: str, what: What, target: Path, stream: str | None) -> None:
    """Write what many streams have learned, or one of them."""
    if what == "run" or stream is not None:
        from onlinegcp.many.taking_out import take_out

        if stream is None:
            raise DataError(
                "one stream is needed to make a run of it, but none was named. Add --stream NAME."
            )
        if what == "run":
            take_out(run, stream, target)
        elif what == "streams":
            raise DataError("streams lists all of them, but --stream names one. Leave it out.")
        else:
            with tempfile.TemporaryDirectory() as folder:
                export_one(take_out(run, stream, Path(folder) / "one.run"), what, target)
        return
    if what == "ktensor":
        raise DataError(
            "a ktensor holds one model, but these are many. Add --stream NAME, or export factors."
        )
    if target.suffix not in TABLES:
        raise DataError(
            f"the file must end in {' or '.join(TABLES)} to hold {what} of many streams, but is "
            f"called {target.name}. Choose another name."
        )
    write_table(target, stream_rows(run) if what == "streams" else _rows(run, what))


def _rows(run: str, what: What) -> Iterator[dict[str, Any]]:
    from onlinegcp.many.files import read_settings
    from onlinegcp.many.reading import all_steps, factors_of

    modes = [str(mode) for mode in read_settings(run).get("modes") or ()]
    if what == "factors":
        for stream, factors, labels in factors_of(run):
            for row in factor_rows(modes, labels, factors):
                yield {"stream": stream, **row}
        return
    for step in all_steps(run):
        for row in step_rows([step], modes, what):
            yield {"stream": step["stream"], **row}  # type: ignore[typeddict-item]

"""`onlinegcp export`: factors, activations or anomalies of a run as a table or arrays."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from onlinegcp.runlog import RunView, Step

What = Literal["factors", "activations", "anomalies", "cells", "ktensor", "streams", "run"]
_OF_A_CELL = ("observed", "expected", "low", "high", "p")
TABLES = (".csv", ".parquet", ".jsonl")


def export(
    run: str,
    what: What,
    *,
    output: Annotated[str, Parameter(name=["--output", "-o"])],
    stream: str | None = None,
) -> None:
    """Write what a run has learned to a file; its ending says how.

    Parameters
    ----------
    run
        The run directory.
    what
        factors: one row per mode, label and component. activations: one row per slice and
        component. anomalies: one row per scored slice. cells: one
        row per label, or pair of labels, that stood out; those of other modes are empty.
        ktensor: factors and, as the last of them, the weights of all slices, for KTensor.load.
        Of many streams (fit --by): streams: one row per stream. run: one of them as a run
        directory of its own. Components are numbered from 1, as everywhere.
    output
        The file: .csv, .parquet or .jsonl for a table, .npz for arrays.
    stream
        Which of many streams; tables hold all of them by default.
    """
    from rich.markup import escape

    from onlinegcp.cli.terminal import say
    from onlinegcp.errors import DataError
    from onlinegcp.many.files import is_many
    from onlinegcp.runlog import read_run_json

    if is_many(run):
        from onlinegcp.cli.export_many import export_many

        export_many(run, what, Path(output), stream)
    elif stream is not None or what in ("streams", "run"):
        read_run_json(run)  # which may be the greater problem
        asked = "--stream was" if stream is not None else f"{what} were"
        raise DataError(
            f"many streams (fit --by) are needed for that, but {asked} asked of {run}, which holds "
            "one. Leave it out."
        )
    else:
        export_one(run, what, Path(output))
    say(escape(output))


def export_one(run: str | Path, what: What, target: Path) -> None:
    """Write what a run of one stream has learned."""
    from onlinegcp.cli.components import check_learned
    from onlinegcp.errors import DataError
    from onlinegcp.runlog import read_run

    view = read_run(run)
    endings = (".npz",) if what == "ktensor" else (*TABLES, ".npz")
    if target.suffix not in endings:
        raise DataError(
            f"the file must end in {' or '.join(endings)} to hold {what}, but is called "
            f"{target.name}. Choose another name."
        )
    if what in ("factors", "activations", "ktensor"):
        check_learned(view)
    if what == "ktensor":
        import numpy as np

        from onlinegcp.drawing.profiles import matrix
        from onlinegcp.ktensor import KTensor

        weights = matrix(view.steps, "weights", view.rank)
        known = np.isfinite(weights.sum(axis=1))
        times = [str(time) for time, good in zip(view.times, known, strict=True) if good]
        whole = KTensor(None, [*view.factors, weights[known]], labels=[*view.labels, times])
        whole.save(target)
    elif target.suffix == ".npz":
        _write_arrays(target, _arrays(view, what))
    else:
        write_table(target, _rows(view, what))


def _rows(view: RunView, what: What) -> list[dict[str, Any]]:
    names = _names(view) if what in ("factors", "activations") else None
    if what == "factors":
        return factor_rows(view.modes, view.labels, view.factors, names)
    return step_rows(view.steps, view.modes, what, names)


def factor_rows(
    modes: Sequence[str],
    labels: Sequence[Sequence[str]],
    factors: Sequence[Any],
    names: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """One row per mode, label and component, with the names of components if there are any."""
    return [
        {"mode": mode, "label": label, **_component(r, names), "value": float(value)}
        for mode, texts, factor in zip(modes, labels, factors, strict=True)
        for label, row in zip(texts, factor, strict=True)
        for r, value in enumerate(row)
    ]


def step_rows(
    steps: Iterable[Step],
    modes: Sequence[str],
    what: What,
    names: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """Rows for slices: activations, anomalies or cells."""
    if what == "activations":
        return [
            {
                "slice": step["number"],
                "time": step["time"],
                **_component(r, names),
                "weight": weight,
            }
            for step in steps
            for r, weight in enumerate(step["weights"])
        ]
    from onlinegcp.runlog import anomaly_of

    scored = [step for step in steps if step.get("anomaly")]
    if what == "anomalies":
        fields = (
            *("p", "z", "score", "volume_p", "volume_z", "expected_total", "flagged", "kind"),
            *("severity", "sentence"),
        )
        return [
            {
                **{name: step[name] for name in ("number", "time", "total", "held")},
                **{name: anomaly_of(step).get(name) for name in fields},
            }
            for step in scored
        ]
    columns = _apart(modes, ("stream", "slice", "time", *_OF_A_CELL))
    return [
        {
            "slice": step["number"],
            "time": step["time"],
            **dict(zip(columns, labels, strict=False)),
            **{name: cell.get(name) for name in _OF_A_CELL},
        }
        for step in scored
        for labels, cell in _standing_out(anomaly_of(step), len(columns))
    ]


def _names(view: RunView) -> list[str]:
    """What each component is called, in the order of their numbers."""
    from onlinegcp.report.words import patterns

    called = {pattern.component: pattern.headline for pattern in patterns(view)}
    return [called.get(r, "") for r in range(view.rank)]


def _component(r: int, names: Sequence[str] | None) -> dict[str, Any]:
    return {"component": r + 1, **({} if names is None else {"name": names[r]})}


def _standing_out(anomaly: Mapping[str, Any], n_modes: int) -> list[tuple[list[str], Any]]:
    """Rows and pairs of rows that stood out, each with a label for every mode."""
    found = [
        (["" if j != k else str(row["label"]) for j in range(n_modes)], row)
        for k, rows in enumerate(anomaly.get("modes") or ())
        for row in rows
        if "observed" in row  # once there were shares only
    ]
    cells = anomaly.get("cells") or ()
    return found + [(cell.get("labels") or list(map(str, cell["index"])), cell) for cell in cells]


def _apart(modes: Sequence[str], ours: Sequence[str]) -> list[str]:
    """Columns for modes; those that are called like one of ours get another name.

    Examples
    --------
    >>> _apart(["time", "place", "mode time"], ["slice", "time"])
    ['mode mode time', 'place', 'mode time']
    """
    names: list[str] = []
    for mode in modes:
        name = mode
        while name in ours or name in names or (name != mode and name in modes):
            name = f"mode {name}"
        names.append(name)
    return names


def _arrays(view: RunView, what: What) -> dict[str, Any]:
    import numpy as np

    if what == "factors":
        found: dict[str, Any] = {"modes": np.array(view.modes), "names": np.array(_names(view))}
        for k, (factor, names) in enumerate(zip(view.factors, view.labels, strict=True)):
            found |= {f"factor.{k}": factor, f"labels.{k}": np.array(names, dtype=str)}
        return found
    if what == "activations":
        return {
            "weights": np.array([step["weights"] for step in view.steps], dtype=np.float64),
            "times": _column([step["time"] for step in view.steps]),
            "names": np.array(_names(view)),
        }
    rows = _rows(view, what)
    columns = list(rows[0]) if rows else []
    return {name: _column([row[name] for row in rows]) for name in columns}


def _column(values: list[Any]) -> Any:
    import numpy as np

    if (moments := _moments(values)) is not None:
        days = all(type(moment) is datetime.date for moment in moments)
        return np.array(moments, dtype="M8[D]" if days else "M8[us]")
    if all(isinstance(value, bool) for value in values):
        return np.array(values, dtype=bool)
    if all(value is None or isinstance(value, int | float) for value in values):
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return np.array(["" if value is None else str(value) for value in values])


def _moments(values: Sequence[Any]) -> list[Any] | None:
    """Times as dates, or as dates and times of day in UTC where they have an offset.

    None where they are numbers, or words.

    Examples
    --------
    >>> _moments(["2013-01-01", "2013-01-02"])
    [datetime.date(2013, 1, 1), datetime.date(2013, 1, 2)]
    >>> _moments([1, 2]), _moments(["week 1"])
    (None, None)
    """
    if not values or not all(isinstance(value, str) and len(value) >= 10 for value in values):
        return None
    try:
        if all(len(value) == 10 for value in values):
            return [datetime.date.fromisoformat(value) for value in values]
        found = [datetime.datetime.fromisoformat(value) for value in values]
    except ValueError:
        return None
    aware = [moment.tzinfo is not None for moment in found]
    if any(aware) and not all(aware):
        return None
    utc = datetime.UTC
    return [m.astimezone(utc).replace(tzinfo=None) if m.tzinfo else m for m in found]


def _write_arrays(target: Path, arrays: dict[str, Any]) -> None:
    import numpy as np

    from onlinegcp.storage.atomic import replacing

    with replacing(target) as file:
        np.savez(file, **arrays)  # NumPy before 2.2 would take allow_pickle for an array


def write_table(target: Path, rows: list[dict[str, Any]]) -> None:
    """Rows as a file; its ending says how."""
    import polars as pl

    from onlinegcp.storage.atomic import replacing

    table = pl.DataFrame(rows, infer_schema_length=None)
    if "time" in table.columns and (moments := _moments(table["time"].to_list())) is not None:
        table = table.with_columns(pl.Series("time", moments))
    with replacing(target) as file:
        if target.suffix == ".csv":
            table.write_csv(file)
        elif target.suffix == ".parquet":
            table.write_parquet(file)
        else:
            table.write_ndjson(file)

"""`onlinegcp export`: factors, activations or anomalies of a run as a table or arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from onlinegcp.digest import Digest
    from onlinegcp.digest.reading import Progress
    from onlinegcp.runlog import RunView, Step

What = Literal["factors", "activations", "anomalies", "cells", "ktensor", "streams", "run"]
_OF_A_CELL = ("observed", "expected", "low", "high", "p")
_OF_AN_ANOMALY = (
    *("p", "z", "score", "volume_p", "volume_z", "expected_total", "flagged", "kind"),
    *("severity", "sentence"),
)
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


def export_one(run: str | Path, what: What, target: Path, *, quiet: bool = False) -> None:
    """Write what a run of one stream has learned; its lines are read one at a time."""
    from onlinegcp.cli.components import check_learned
    from onlinegcp.cli.pieces import write_arrays, write_table
    from onlinegcp.cli.reading import Reading, digest_of
    from onlinegcp.errors import DataError

    endings = (".npz",) if what == "ktensor" else (*TABLES, ".npz")
    if target.suffix not in endings:
        raise DataError(
            f"the file must end in {' or '.join(endings)} to hold {what}, but is called "
            f"{target.name}. Choose another name."
        )
    digest = digest_of(str(run), quiet=quiet)
    view = digest.view
    if what in ("factors", "activations", "ktensor"):
        check_learned(view)
    with Reading(quiet=quiet, what="exporting") as reading:
        steps = _steps(view.path, digest.count, reading)
        if what == "ktensor":
            _write_ktensor(target, view, steps)
        elif target.suffix != ".npz":
            write_table(target, _rows(digest, what, steps))
        elif what == "factors":
            write_arrays(target, (), _factor_arrays(digest))
        elif what == "activations":
            rows = ({"weights": step["weights"], "times": step["time"]} for step in steps)
            write_arrays(target, rows, {"names": _names(digest)})
        else:
            write_arrays(target, _rows(digest, what, steps), {})


def _steps(path: Path, count: int, progress: Progress) -> Iterator[Step]:
    from onlinegcp.runlog import StoredSteps

    for number, step in enumerate(StoredSteps(path), 1):
        yield step
        if number % 1000 == 0:
            progress(number, max(count, number))


def _rows(digest: Digest, what: What, steps: Iterable[Step]) -> Iterable[dict[str, Any]]:
    view = digest.view
    names = _names(digest) if what in ("factors", "activations") else None
    if what == "factors":
        return factor_rows(view.modes, view.labels, view.factors, names)
    return step_rows(steps, view.modes, what, names)


def _write_ktensor(target: Path, view: RunView, steps: Iterable[Step]) -> None:
    """The factors, and the weights of all slices as the last of them."""
    import itertools

    import numpy as np

    from onlinegcp.drawing.profiles import matrix
    from onlinegcp.ktensor import KTensor

    parts, times, source = [np.zeros((0, view.rank))], [], iter(steps)
    while some := list(itertools.islice(source, 10_000)):
        weights = matrix(some, "weights", view.rank)
        known = np.isfinite(weights.sum(axis=1))
        parts.append(weights[known])
        times += [str(step.get("time")) for step, good in zip(some, known, strict=True) if good]
    whole = KTensor(None, [*view.factors, np.concatenate(parts)], labels=[*view.labels, times])
    whole.save(target)


def factor_rows(
    modes: Sequence[str],
    labels: Sequence[Sequence[str]],
    factors: Sequence[Any],
    names: Sequence[str] | None = None,
) -> Iterator[dict[str, Any]]:
    """One row per mode, label and component, with the names of components if there are any."""
    for mode, texts, factor in zip(modes, labels, factors, strict=True):
        for label, row in zip(texts, factor, strict=True):
            for r, value in enumerate(row):
                yield {"mode": mode, "label": label, **_component(r, names), "value": float(value)}


def step_rows(
    steps: Iterable[Step],
    modes: Sequence[str],
    what: What,
    names: Sequence[str] | None = None,
) -> Iterator[dict[str, Any]]:
    """Rows for slices: activations, anomalies or cells."""
    from onlinegcp.runlog import anomaly_of

    columns = _apart(modes, ("stream", "slice", "time", *_OF_A_CELL))
    for step in steps:
        if what == "activations":
            for r, weight in enumerate(step["weights"]):
                yield {
                    "slice": step["number"],
                    "time": step["time"],
                    **_component(r, names),
                    "weight": weight,
                }
        elif not step.get("anomaly"):
            continue
        elif what == "anomalies":
            yield {
                **{name: step[name] for name in ("number", "time", "total", "held")},
                **{name: anomaly_of(step).get(name) for name in _OF_AN_ANOMALY},
            }
        else:
            for labels, cell in _standing_out(anomaly_of(step), len(columns)):
                yield {
                    "slice": step["number"],
                    "time": step["time"],
                    **dict(zip(columns, labels, strict=False)),
                    **{name: cell.get(name) for name in _OF_A_CELL},
                }


def _names(digest: Digest) -> list[str]:
    """What each component is called, in the order of their numbers."""
    from onlinegcp.report.words import patterns

    called = {pattern.component: pattern.headline for pattern in patterns(digest)}
    return [called.get(r, "") for r in range(digest.rank)]


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


def _factor_arrays(digest: Digest) -> dict[str, Any]:
    import numpy as np

    view = digest.view
    found: dict[str, Any] = {"modes": np.array(view.modes), "names": np.array(_names(digest))}
    for k, (factor, names) in enumerate(zip(view.factors, view.labels, strict=True)):
        found |= {f"factor.{k}": factor, f"labels.{k}": np.array(names, dtype=str)}
    return found

"""Names people gave to the patterns of a run: names.json, by number from 1."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from onlinegcp.errors import DataError, StateError
from onlinegcp.runlog.files import PathLike
from onlinegcp.storage.atomic import replacing

NAMES = "names.json"
LONGEST = 80  # characters: a name is a line


def read_names(folder: PathLike) -> dict[int, str]:
    """Names by number; none where there is no file, or one that cannot be read.

    A report must not fail for want of a name.
    """
    try:
        return _read(Path(folder) / NAMES)
    except (OSError, ValueError):
        return {}


def write_name(folder: PathLike, number: int, name: str, rank: int) -> dict[int, str]:
    """Name a pattern, or take its name away with an empty one.

    Parameters
    ----------
    folder
        The run directory.
    number
        The pattern, counted from 1.
    name
        Its name, one line.
    rank
        How many patterns there are.

    Returns
    -------
    names
        All names there are now.
    """
    if not 1 <= number <= rank:
        raise DataError(
            f"A pattern is named by its number, 1 to {rank}, but {number} was given. "
            "`onlinegcp components` lists them."
        )
    said = name.strip()
    if len(said) > LONGEST or not said.isprintable():
        raise DataError(
            f"A name must be one line of at most {LONGEST} characters, but {name[:100]!r} was "
            "given. Choose a shorter one."
        )
    path = Path(folder) / NAMES
    try:
        names = _read(path) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise StateError(
            f"the names of a run must be readable, but {path} is not: {error}. Remove it."
        ) from error
    names.pop(number, None)
    if said and said in names.values():
        other = next(n for n, taken in names.items() if taken == said)
        raise DataError(
            f"Names of patterns must differ, but {said!r} is the name of pattern {other}. Choose "
            "another one, or take it away there with an empty name first."
        )
    if said:
        names[number] = said
    _write(path, names)
    return names


def renumber(folder: PathLike, order: Sequence[int]) -> None:
    """Let names follow their patterns; those of patterns that are gone go with them.

    Parameters
    ----------
    folder
        The run directory.
    order
        For every pattern its place before, counted from 0, or -1 for a new one.
    """
    names = read_names(folder)
    if names:
        kept = {now + 1: names[was + 1] for now, was in enumerate(order) if was + 1 in names}
        _write(Path(folder) / NAMES, kept)


def _write(path: Path, names: Mapping[int, str]) -> None:
    with replacing(path, of_run=True) as file:
        file.write(json.dumps({str(n): names[n] for n in sorted(names)}, indent=2).encode() + b"\n")


def _read(path: Path) -> dict[int, str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("it goes too deep") from error
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found.values()):
        raise ValueError("it must map numbers to names")
    return {int(number): name for number, name in found.items()}

"""Lines above the line of names: titles and notes of spreadsheets, remarks of instruments.

They are not skipped, for nobody can know that what looks like names are those; it is told how to
take them off.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence

from onlinegcp.errors import DataError

_LOOK = 40  # lines
_ZEEK = "#fields\t"


def refuse_lines_above(lines: Sequence[str], name: str, separators: Sequence[str]) -> None:
    """Refuse a CSV file whose first line holds far less than those that follow.

    Parameters
    ----------
    lines
        The first lines of the file, without their ends; blank ones, too.
    name
        Of the file, for the error.
    separators
        What may stand between two fields.

    Examples
    --------
    >>> refuse_lines_above(["day,place,n", "2024-01-01,Oslo,"], "a.csv", ",;")  # a line of names
    """
    n_blank = next((at for at, line in enumerate(lines) if line.strip()), 0)
    lines = lines[n_blank : n_blank + _LOOK]
    if any(line.startswith(_ZEEK) for line in lines):
        raise DataError(
            f"The first line of a table must name its columns, but {name} is a log of Zeek, which "
            "has them behind '#fields'. Take the remarks off: "
            f"sed -e 's/^#fields.//' -e '/^#/d' {name} > rows.tsv"
        )
    separator = max(separators, key=lambda mark: sum(line.count(mark) for line in lines))
    try:
        filled = [
            sum(bool(field.strip()) for field in fields)
            for fields in csv.reader(lines, delimiter=separator)
        ]
    except csv.Error:
        return  # whoever reads the rows says which one is wrong
    below = sorted(filled[1:])
    if len(below) < 2 or max(filled) < 2:
        return
    most = below[3 * len(below) // 4]
    names = next((at for at, n in enumerate(filled) if n >= 0.9 * most), 0)
    if names and filled[0] <= most / 2:
        one = "one field" if filled[0] == 1 else f"{filled[0]} fields"
        raise DataError(
            f"The first line of a CSV file must name its columns, but in {name} it is {one}, while "
            f"row {names} has {filled[names]}. Remove the lines above the names: tail -n "
            f"+{n_blank + names + 1} {name} > rows.csv, if row {names} is the line of names."
        )

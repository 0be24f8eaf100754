"""Small tables of events, and slices by label, for tests of events."""

from __future__ import annotations

import datetime

import polars as pl

DAY = datetime.timedelta(days=1)
JANUARY = datetime.datetime(2018, 1, 1)


def events(*rows):
    """A table from (day of January, hour, pu, do)."""
    return pl.DataFrame(
        {
            "t": [JANUARY + (day - 1) * DAY + datetime.timedelta(hours=h) for day, h, _, _ in rows],
            "pu": [row[2] for row in rows],
            "do": [row[3] for row in rows],
        },
        strict=False,
    )


def cells(stream, x):
    """Values of a slice by label."""
    return {
        tuple(names[i] for names, i in zip(stream.labels, index, strict=True)): value
        for index, value in zip(x.index.tolist(), x.value.tolist(), strict=True)
    }

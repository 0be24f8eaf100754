"""A source that has grown brings the rows of the open bin once more: they count once."""

from __future__ import annotations

import datetime
import json

import numpy as np
import polars as pl
import pytest

from onlinegcp.events import from_events

START = datetime.datetime(2024, 1, 1)


def table_of(agg, n=300, seed=0):
    rng = np.random.default_rng(seed)
    minutes = np.sort(rng.integers(0, 6 * 1440, n)).tolist()
    values = {"count": np.ones(n), "any": rng.integers(0, 2, n)}.get(agg, rng.normal(size=n))
    return pl.DataFrame(
        {
            "t": [START + datetime.timedelta(minutes=m) for m in minutes],
            "a": [None if k == 3 else f"a{k}" for k in rng.integers(0, 6, n)],
            "v": values.astype(float),
        }
    )


def learn(source, agg, state=None, **options):
    value = None if agg == "count" else "v"
    stream = from_events(source, time="t", every="1d", modes=["a"], value=value, agg=agg, **options)
    if state is not None:
        stream.restore(state, again=True)
    slices = list(stream)
    return slices, stream.rows, json.loads(json.dumps(stream.state()))


def as_cells(slices):
    """Numbers by day and label code."""
    return {
        (str(x.time), *index): value
        for x in slices
        for index, value in zip(x.index.tolist(), x.value.tolist(), strict=True)
    }


@pytest.mark.parametrize("agg", ["count", "sum", "mean", "max", "any"])
@pytest.mark.parametrize("seed", range(4))
def test_a_table_that_grows_row_by_row_is_learned_once(agg, seed):
    table = table_of(agg, seed=seed)
    rng = np.random.default_rng(seed)
    cuts = [*np.sort(rng.integers(60, 300, 5)).tolist(), 300]
    state, found, read = None, {}, 0
    for cut in cuts:
        slices, rows, state = learn(table[:cut], agg, state, close_last=cut == 300)
        assert rows.balanced, rows
        # All rows of earlier times came again, those that wait included.
        assert rows.again == read
        found |= as_cells(slices)
        read = cut
    whole = as_cells(learn(table, agg)[0])
    assert found.keys() == whole.keys()
    np.testing.assert_allclose([found[k] for k in whole], list(whole.values()), rtol=1e-12)


def test_the_rest_of_a_bin_is_no_repetition():
    table = table_of("count")
    _, _, state = learn(table[:150], "count", close_last=False)
    day = table["t"].dt.date()
    # Yesterday's rows once more, and only those of today that are new.
    before = table.filter(day == day[149] - datetime.timedelta(days=1))
    slices, rows, _ = learn(pl.concat([before, table[150:]]), "count", state)
    assert rows.again == before.height
    assert rows.balanced
    labelled = int((table["a"].is_not_null() & (day == day[149])).sum())
    assert slices[0].total == labelled


def test_a_bin_whose_rows_all_look_alike_goes_on():
    beat = {"t": [START + datetime.timedelta(hours=h) for h in range(60)], "a": ["alive"] * 60}
    table = pl.DataFrame(beat)
    _, _, state = learn(table[:54], "count", close_last=False)
    slices, rows, _ = learn(table[54:], "count", state)
    assert (slices[0].total, rows.again) == (12.0, 0)

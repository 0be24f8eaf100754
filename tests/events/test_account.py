"""Every row that was read is learned, waits, or was left out for a reason that is told."""

from __future__ import annotations

import datetime
import json

import numpy as np
import polars as pl
import pytest

from onlinegcp.errors import DataError
from onlinegcp.events import from_events
from onlinegcp.events.account import Account

START = datetime.datetime(2024, 1, 1)


def rows_of(n=240, days=12, seed=0, nulls=True):
    """Rows in order of time, a few without a label, a value or a time."""
    rng = np.random.default_rng(seed)
    minutes = np.sort(rng.integers(0, days * 1440, n)).tolist()
    table = {
        "t": [START + datetime.timedelta(minutes=m) for m in minutes],
        "a": [f"a{k}" for k in rng.integers(0, 4, n)],
        "v": rng.normal(size=n).tolist(),
    }
    if nulls:
        for name, place in zip(("t", "a", "v", "t"), rng.choice(n, 4, replace=False), strict=True):
            table[name][place] = None
    return pl.DataFrame(table, schema_overrides={"t": pl.Datetime("us")})


def learn(source, state=None, **options):
    """All slices of a source, going on from a state; the account, and the state after it."""
    stream = from_events(source, time="t", every="1d", modes=["a"], value="v", **options)
    if state is not None:
        stream.restore(state, again=True)
    slices = list(stream)
    return slices, stream.rows, json.loads(json.dumps(stream.state()))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(40))
def test_the_parts_add_up_whatever_the_cuts(seed):
    """Pieces of a table that overlap, repeat, leave bins open and come in any order."""
    rng = np.random.default_rng(seed)
    table = rows_of(seed=seed)
    state, total = None, Account()
    for _ in range(int(rng.integers(2, 6))):
        first, last = np.sort(rng.integers(0, table.height + 1, 2)).tolist()
        piece = table[first:last] if rng.random() < 0.8 else table.sample(40, seed=seed)
        if not piece.height:
            continue
        options = {
            "close_last": bool(rng.random() < 0.5),
            "in_order": [None, True, False][int(rng.integers(0, 3))],
        }
        if rng.random() < 0.3:
            options["since"] = START + datetime.timedelta(days=int(rng.integers(0, 10)))
        _, found, state = learn(piece, state, **options)
        assert found.read == piece.height
        assert found.balanced, found
        total = Account(**{name: n + vars(found)[name] for name, n in vars(total).items()})
    assert total.balanced
    assert total.waiting >= 0


def test_the_rest_of_a_day_is_late_and_told(caplog):
    """A file that ends at noon, then one with the afternoon."""
    table = rows_of(nulls=False)
    noon = table["t"].dt.date() == datetime.date(2024, 1, 6)
    half = table.with_row_index().filter(noon)["index"].to_list()
    cut = half[len(half) // 2]
    _, first, state = learn(table[:cut])
    assert (first.read, first.learned) == (cut, cut)
    _, rest, _ = learn(table[cut:], state)
    n_late = half[-1] + 1 - cut
    assert n_late > 3
    assert (rest.late, rest.again) == (n_late, 0)
    assert rest.learned == table.height - cut - n_late
    assert f"{n_late} rows came after their time bin was closed" in caplog.text
    with pytest.raises(DataError, match=r"row 1 of the table belongs to 2024-01-06, .* closed"):
        learn(table[cut:], state, on_late="error")


def test_a_file_that_has_grown_brings_old_rows_and_late_ones():
    table = rows_of(nulls=False)
    cut = 100
    _, _, state = learn(table[:cut])
    last = table["t"].dt.date()[cut - 1]
    n_late = int((table["t"].dt.date() == last).sum()) - int(
        (table["t"][:cut].dt.date() == last).sum()
    )
    assert n_late > 0
    _, found, after = learn(table, state)
    assert (found.again, found.late) == (cut, n_late)
    assert found.balanced
    # Late rows count once, however often they are offered.
    _, twice, _ = learn(table, {**after, "closed": state["closed"]})
    assert (twice.again, twice.late) == (cut + n_late, 0)


@pytest.mark.parametrize("on_late", ["drop", "error"])
def test_the_same_rows_again_are_no_late_ones_in_any_order(on_late):
    table = rows_of(nulls=False)
    _, _, state = learn(table, on_late=on_late)
    for again in (table, table.sample(fraction=1.0, shuffle=True, seed=1)):
        slices, found, after = learn(again, state, on_late=on_late, in_order=None)
        assert slices == []
        assert (found.read, found.again) == (table.height, table.height)
        assert after == state


def test_bins_of_long_ago_are_judged_by_the_latest():
    """Only a few bins are remembered; who brings those unchanged brings the others unchanged."""
    table = rows_of(n=2000, days=100, nulls=False)
    _, _, state = learn(table, on_late="error")
    assert len(state["seen"]) == 32
    _, found, _ = learn(table, state, on_late="error")
    assert found.again == table.height
    # An old file alone may be anything: its rows are not learned, and that is told.
    _, found, _ = learn(table[:50], state)
    assert (found.again, found.late) == (0, 50)


def test_values_that_were_corrected_are_late_too():
    table = rows_of(nulls=False)
    _, _, state = learn(table)
    changed = table.with_columns(
        v=pl.when(pl.int_range(pl.len()) == table.height - 1).then(9.0).otherwise(pl.col("v"))
    )
    _, found, _ = learn(changed, state)
    last = int((table["t"].dt.date() == table["t"].dt.date()[-1]).sum())
    assert (found.late, found.again) == (last, table.height - last)
    assert found.balanced

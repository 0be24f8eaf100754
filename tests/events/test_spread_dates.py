"""Dates whose year, month and day are columns of their own."""

import itertools

import numpy as np
import polars as pl
import pytest

from onlinegcp import DataError, OnlineGCP
from onlinegcp.events import from_events
from onlinegcp.planning import make_plan
from onlinegcp.run import Run

RNG = np.random.default_rng(41)


def sales(years=(2019, 2024), days=(), text=False):
    rows = list(itertools.product(range(*years), range(1, 13), days or (1,), "nsew", range(3)))
    table = pl.DataFrame(rows, schema=["year", "month", "day", "region", "shop"], orient="row")
    table = table.with_columns(
        pl.format("shop {}", "shop").alias("shop"),
        units=pl.Series(RNG.poisson(20.0, len(rows))),
    )
    if text:
        table = table.with_columns(pl.col("month").cast(pl.String).str.zfill(2))
    return table if days else table.drop("day")


def whole(table, **options):
    """Times, labels and cells of all slices."""
    stream = from_events(table, **options)
    found = [(x.time, x.index.tolist(), x.value.tolist()) for x in stream]
    return found, stream.labels


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("days", [(), (1, 9, 17, 28)])
def test_they_are_planned_and_read_like_one_column_of_dates(tmp_path, days, text):
    table = sales((2022, 2024) if days else (2019, 2024), days, text)
    path = tmp_path / "sales.csv"
    table.write_csv(path)
    plan = make_plan(path)
    time = "year,month,day" if days else "year,month"
    assert plan.events["time"] == time
    assert plan.events["modes"] == ["region", "shop"]
    assert "say it together" in str(plan)
    date = pl.date("year", pl.col("month").cast(int), "day" if days else 1)
    options = plan.events | {"time": "date"}
    assert whole(path, **plan.events) == whole(table.with_columns(date=date), **options)
    asked = make_plan(path, given={"time": time, "every": "1q"})
    assert (asked.events["time"], asked.events["every"]) == (time, "1q")


def test_a_run_goes_on_with_them(tmp_path):
    early, late = tmp_path / "early.csv", tmp_path / "late.csv"
    sales((2019, 2023)).write_csv(early)
    sales((2023, 2024)).write_csv(late)
    plan = make_plan(early)
    model = OnlineGCP(2, "poisson", init_slices=10)
    with Run.create(tmp_path / "a.run", model, modes=plan.events["modes"]) as run:
        for source in (early, late):
            run.learn(from_events(source, **plan.events))
        assert run.model.n_slices_ == 60


def test_rows_without_a_part_are_dropped_and_counted():
    table = sales().with_columns(
        month=pl.when(pl.int_range(pl.len()) < 5).then(None).otherwise("month")
    )
    stream = from_events(table, time="year,month", every="1mo", modes=["region"])
    assert sum(x.total for x in stream) == table.height - 5
    assert stream.n_null == 5


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("month", 13, "'month' must be a whole number from 1 to 12 .* row 8 .* has '13'"),
        ("month", 2.5, "'month' must be a whole number .* row 8 .* has '2.5'"),
        ("day", 31, "'day' must be a day that the month has .* row 8 .* has '31'"),
    ],
)
def test_parts_that_make_no_date_are_named(column, value, message):
    table = sales(days=(1, 2)).with_columns(month=4)
    odd = pl.when(pl.int_range(pl.len()) == 7).then(pl.lit(value)).otherwise(column)
    table = table.with_columns(odd.alias(column))
    with pytest.raises(DataError, match=message):
        list(from_events(table, time="year,month,day", every="1d", modes=["region"]))


def test_a_column_with_a_comma_in_its_name_is_itself():
    table = sales().with_columns(pl.date("year", "month", 1).alias("year,month"))
    assert whole(table, time="year,month", every="1mo", modes=["region"]) == whole(
        table.rename({"year,month": "when"}), time="when", every="1mo", modes=["region"]
    )


def test_they_are_read_from_what_comes_as_it_is():
    """Where columns are not known before the first rows."""
    table = sales()
    options = {"time": "year,month", "every": "1mo", "modes": ["region"]}
    parts = iter([table.head(300), table.tail(-300)])
    assert whole(parts, **options) == whole(table, **options)

"""Scores for every event: the table in its order, each bin judged before it is learned."""

import datetime

import numpy as np
import polars as pl
import pytest

from onlinegcp.anomaly import score_events
from onlinegcp.errors import DataError

SETTINGS = {"time": "when", "every": "1d", "modes": ["user", "page"]}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    rows = []
    for day in range(30):
        when = datetime.date(2024, 1, 1) + datetime.timedelta(day)
        rows += [(when, f"u{rng.integers(6)}", f"p{rng.integers(4)}", 0) for _ in range(60)]
        if day == 25:
            rows += [(when, "robot", "p1", 1)] * 40
    rng.shuffle(rows)
    return pl.DataFrame(rows, schema=["when", "user", "page", "odd"], orient="row")


def test_the_table_comes_back_in_its_order_with_two_columns_more(table):
    scored = score_events(table, **SETTINGS)
    assert scored.columns == [*table.columns, "score", "p"]
    assert scored.drop("score", "p").equals(table)
    assert scored["p"].is_between(0.0, 1.0).all()
    np.testing.assert_allclose(scored["score"], -np.log10(scored["p"]), atol=1e-9)


def test_the_odd_events_have_the_largest_scores(table):
    scored = score_events(table, **SETTINGS)
    odd = scored.filter(pl.col("odd") == 1)["score"].min()
    assert odd > 10.0
    assert (scored.filter(pl.col("user") != "robot")["score"] < odd).all()


def test_a_bin_is_judged_before_it_is_learned(table):
    early = table.filter(pl.col("when") <= datetime.date(2024, 1, 26))
    whole, part = (score_events(frame, **SETTINGS) for frame in (table, early))
    kept = whole.filter(pl.col("when") <= datetime.date(2024, 1, 26))
    assert kept["score"].to_list() == part["score"].to_list()


def test_rows_without_a_time_or_a_key_have_no_score(table):
    holes = table.with_columns(
        when=pl.when(pl.int_range(pl.len()) == 7).then(None).otherwise(pl.col("when")),
        user=pl.when(pl.int_range(pl.len()) == 9).then(None).otherwise(pl.col("user")),
    )
    scored = score_events(holes, **SETTINGS)
    assert scored["score"].is_null().to_numpy().nonzero()[0].tolist() == [7, 9]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_files_are_read_as_well(table, tmp_path, ending):
    path = tmp_path / f"events.{ending}"
    getattr(table, f"write_{ending}")(path)
    scored = score_events(str(path), **SETTINGS)
    assert scored["score"].to_list() == score_events(table, **SETTINGS)["score"].to_list()


def test_cells_and_rows_are_scored_too(table):
    cells = score_events(table, per="cell", **SETTINGS)
    assert cells.columns == ["time", "user", "page", "observed", "score", "p"]
    assert cells["observed"].sum() == table.height
    assert cells[int(cells["score"].arg_max())]["user"].item() == "robot"
    rows = score_events(table, per="row", **SETTINGS)
    assert rows[int(rows["score"].arg_max())]["label"].item() in ("robot", "p1")
    assert set(rows["mode"]) == {"user", "page"}


def test_columns_that_are_taken_and_words_that_are_not_known_are_refused(table):
    with pytest.raises(DataError, match="has score already"):
        score_events(table.with_columns(score=1), **SETTINGS)
    with pytest.raises(DataError, match="event, cell or row"):
        score_events(table, per="day", **SETTINGS)


def test_a_row_of_several_value_columns_is_as_odd_as_the_oddest_of_its_values():
    """Each value is an event of its own; what is missing says nothing."""
    draw = np.random.default_rng(4)
    warm = 10 + draw.normal(size=(40, 3))
    warm[30, 1], warm[35, 2] = 40.0, np.nan
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=k) for k in range(40)]
    wide = pl.DataFrame(
        {"day": days, "a": warm[:, 0], "b": warm[:, 1], "c": warm[:, 2]}, nan_to_null=True
    )
    settings = {"time": "day", "every": "1d", "agg": "mean", "counted": False}
    found = score_events(wide, modes=[], value=["a", "b", "c"], **settings)
    long = wide.unpivot(index="day", variable_name="measure").drop_nulls().sort("day", "measure")
    single = score_events(long, modes=["measure"], value="value", **settings)
    lowest = single.group_by("day").agg(pl.col("p").min(), pl.len().alias("n")).sort("day")
    assert found.columns == [*wide.columns, "score", "p"]
    assert found["score"].arg_max() == 30
    expected = 1 - (1 - lowest["p"].to_numpy()) ** lowest["n"].to_numpy()
    np.testing.assert_allclose(found["p"].to_numpy(), expected, rtol=1e-9, atol=1e-14)

"""Columns of numbers, as numbers and as text."""

import datetime
import itertools

import numpy as np
import polars as pl
import pytest

from onlinegcp.errors import DataError
from onlinegcp.events.numbers import numbers_of, read_numbers


@pytest.mark.parametrize(
    "given",
    [
        pl.Series([1, None, 3]),
        pl.Series([1.0, float("nan"), 3.0]),
        pl.Series(["1", None, " 3.0 "]),
        pl.Series(["1", "", "3e0"]),
        pl.Series(["1", None, "3"], dtype=pl.Categorical),
        pl.Series([1, None, 3], dtype=pl.UInt8),
        pl.Series([1, None, 3], dtype=pl.Decimal(10, 2)),
    ],
)
def test_numbers_are_read_from_whatever_holds_them(given):
    np.testing.assert_array_equal(numbers_of(given, str, "x"), [1.0, np.nan, 3.0])


def test_booleans_count_as_numbers():
    assert numbers_of(pl.Series([True, False]), str, "x").tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("given", "row", "found"),
    [
        (pl.Series("v", ["1", "2", "two"]), 2, "'two'"),
        (pl.Series("v", [1.0, float("inf")]), 1, "inf"),
        (pl.Series("v", ["1", "-inf"]), 1, "-inf"),
    ],
)
def test_what_is_no_number_is_named_with_its_row(given, row, found):
    with pytest.raises(DataError, match=found) as error:
        numbers_of(given, lambda position: f"ROW {position}", "The value")
    assert f"ROW {row} " in str(error.value)
    assert "'v'" in str(error.value)


def test_dates_are_no_numbers():
    with pytest.raises(DataError, match="Date"):
        numbers_of(pl.Series("v", [datetime.date(2018, 1, 1)]), str, "The value")


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ("12,5", 12.5),
        ("-12,50", -12.5),
        ("0,125", 0.125),
        (",5", 0.5),
        ("40,7128", 40.7128),
        ("1234,567", 1234.567),
        ("1.234,5", 1234.5),
        ("1.234.567,89", 1234567.89),
        ("1,234.5", 1234.5),
        ("1,234,567", 1234567.0),
        ("+1,234,567.25", 1234567.25),
        ("1'234.50", 1234.5),
        ("12’345’678", 12345678.0),
        ("1 234,5", 1234.5),
        ("1\u202f234\u202f567", 1234567.0),
        ("1,23,456.00", 123456.0),
        ("(1,234.50)", -1234.5),
        ("($12)", -12.0),
        ("\u221212.5", -12.5),
        ("EUR 12,50", 12.5),
        ("US$ -3", -3.0),
        ("120 kr", 120.0),
    ],
)
def test_numbers_are_read_as_two_worlds_write_them(written, number):
    found = numbers_of(pl.Series("v", ["7", written, None]), str, "x")
    np.testing.assert_array_equal(found, [7.0, number, np.nan])


@pytest.mark.parametrize(
    ("written", "beside"),
    [
        *itertools.product(("1,234", "-999,001"), (["7"], ["12,5", "12.5"], ["1.234"])),
        *itertools.product(
            ("1,23,4", "1,234,56", "12.34,5", "1.2345,6", "12,5e3", "0x1,5"), (["12,5"],)
        ),
    ],
)
def test_what_can_mean_two_numbers_or_none_is_refused(written, beside):
    with pytest.raises(DataError, match=f"'{written}'"):
        numbers_of(pl.Series("v", [*beside, written]), str, "The value")


@pytest.mark.parametrize(
    ("beside", "comma", "points"),
    [
        ("0,5", 1.234, 1234567.0),
        ("-1.000,25", 1.234, 1234567.0),
        ("12.5", 1234.0, None),
        ("$1,000.25", 1234.0, None),
        ("1,234,567", 1234.0, None),
    ],
)
def test_the_others_of_a_column_tell_what_a_comma_means(beside, comma, points):
    assert numbers_of(pl.Series("v", [beside, "1,234", "(1,234)"]), str, "x")[1:].tolist() == [
        comma,
        -comma,
    ]
    both = pl.Series("v", [beside, "1.234.567"])
    if points is None:
        with pytest.raises(DataError, match=r"1\.234\.567"):
            numbers_of(both, str, "x")
    else:
        assert numbers_of(both, str, "x")[1] == points


@pytest.mark.parametrize(
    "word", ["NA", "n/a", "NULL", "-", ".", "?", "#N/A", "\\N", "None", " NaN "]
)
def test_words_for_nothing_are_no_numbers_and_no_mistakes(word):
    np.testing.assert_array_equal(numbers_of(pl.Series(["1", word]), str, "x"), [1.0, np.nan])


@pytest.mark.parametrize(
    "label", ["BUS 12", "Q1", "A-3", "12 34", "1'23", "(ok)", "()", "5 apples"]
)
def test_labels_with_digits_are_no_numbers(label):
    assert read_numbers(pl.Series([label]))[1].to_list() == [None]


def test_amounts_in_two_currencies_are_not_one_column_of_numbers():
    with pytest.raises(DataError, match=r"numbers of one unit.*'v' has \$ and €"):
        numbers_of(pl.Series("v", ["$5", "7 €"]), str, "The value")
    assert numbers_of(pl.Series("v", ["$5", "7", "-$2"]), str, "x").tolist() == [5.0, 7.0, -2.0]


def test_two_meanings_are_told():
    with pytest.raises(DataError, match=r"Write 1234 or 1\.234"):
        numbers_of(pl.Series("v", ["1,234"]), str, "The value")

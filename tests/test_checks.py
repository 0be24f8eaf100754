"""Options a caller gives are taken as they are meant, or refused by name."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.checks import check_choice, check_number, check_whole
from onlinegcp.errors import DataError


@pytest.mark.parametrize(
    ("interval", "inside", "outside"),
    [
        ("(0, 1]", (1e-300, 1, np.float32(0.5)), (0.0, 1.0001, -1)),
        ("[0, inf)", (0, 1e300), (-1e-300, np.inf)),
        ("[-inf, inf)", (-np.inf, 0), (np.inf, np.nan)),
    ],
)
def test_an_interval_has_the_ends_it_shows(interval, inside, outside):
    for number in inside:
        assert check_number("x", number, interval) == number
    for number in outside:
        with pytest.raises(DataError, match=r"x must be a number in"):
            check_number("x", number, interval)


def test_true_is_neither_a_number_nor_a_count():
    with pytest.raises(DataError, match="number"):
        check_number("x", True, "[0, 1]")
    with pytest.raises(DataError, match="whole number"):
        check_whole("x", True, 0)


def test_a_word_far_from_all_gets_no_suggestion():
    with pytest.raises(DataError, match=r"'a', 'b', but got 'xyz'\. Choose one of them"):
        check_choice("x", "xyz", ("a", "b"))


@pytest.mark.parametrize("number", [3, np.int8(3), np.array(3)], ids=repr)
def test_whatever_counts_as_a_whole_number_comes_out_as_an_int(number):
    assert type(check_whole("x", number, 3, 3)) is int


@pytest.mark.parametrize("junk", [2, 4, 3.0, "3", None, np.bool_(True), np.ones(2)], ids=repr)
def test_what_is_no_whole_number_within_bounds_is_refused(junk):
    with pytest.raises(DataError, match="x must be a whole number from 3 to 3"):
        check_whole("x", junk, 3, 3)

"""One sentence for every slice: rows first, with direction, size and usual range."""

import pytest

from onlinegcp.anomaly.words import describe, say_row


def row(label, observed, expected, *, p=1e-6, new=False):
    low, high = 0.9 * expected, 1.1 * expected
    return {"label": label, "observed": observed, "expected": expected, "low": low, "high": high,
            "p": p, "new": new}  # fmt: skip


def pair(labels, observed, expected):
    return {"labels": labels, "index": [None], **row("", observed, expected)}


def found(**changes):
    plain = {
        "flagged": True, "total": 1000.0, "expected_total": 1000.0, "volume_odd": False,
        "family": "up 0", "modes": [[], []], "cells": [], "rest_usual": True, "rest_change": 0.0,
    }  # fmt: skip
    return {**plain, **changes}


def say(**changes):
    return describe(found(**changes), time="2001-03-05", modes=["origin", "when:hour"])


def test_rows_come_with_direction_share_and_usual_range():
    said = say(
        total=850.0, volume_odd=True,
        modes=[[row("LGA", 52.0, 347.0, p=1e-9), row("BOS", 30.0, 115.0)], [row("06", 9.0, 3.0)]],
    )  # fmt: skip
    assert said == (
        "5 March 2001: 850 events, 15 % fewer than expected. Origin LGA -85 % (52, usually 312 to "
        "382), BOS -74 % (30, usually 104 to 127); hour 06 +200 % (9, usually 2.7 to 3.3); the "
        "rest as usual."
    )


def test_a_label_that_names_its_mode_is_said_once():
    said = describe(
        found(modes=[[row("Shop B", 4.0, 44.0), row("Shop C", 90.0, 44.0)]]),
        time="2001-03-05",
        modes=["shop"],
    )
    assert ". Shop B -91 % (4, usually 40 to 48), Shop C +105 %" in said
    for mode, label, told in (
        ("sku", "SKU-00153", ". SKU-00153 x 3.02"),
        ("device_id", "dev-7", ". Device dev-7 x 3.02"),
        ("net", "network", ". Net network x 3.02"),
    ):
        odd = found(modes=[[row(label, 151.0, 50.0)]])
        assert told in describe(odd, time="2001-03-05", modes=[mode])


def test_a_slice_that_is_not_flagged_says_no_more_than_its_total():
    assert say(flagged=False, modes=[[row("LGA", 52.0, 347.0)], []]) == (
        "5 March 2001: 1,000 events, as usual."
    )


def test_new_labels_multiples_and_the_rest():
    assert say_row(row("b16", 546.0, 0.1, new=True)) == "b16 is new (546)"
    assert say_row(row("b16", 900.0, 100.0)) == "b16 x 9 (900, usually 90 to 110)"
    assert say_row({**row("b16", 50.0, 100.0), "follows": True}) == (
        "b16 -50 % (50, the others suggest 90 to 110)"
    )
    said = say(modes=[[row("JFK", 287.0, 330.0)], []], rest_usual=False, rest_change=-0.29)
    assert said.endswith("; the rest -29 %.")
    assert "as usual" not in said  # no slice is whose rest is off


def test_there_is_no_rest_where_no_row_is_named():
    said = say(modes=[[row("JFK", 331.0, 330.0)], []], rest_usual=False, rest_change=0.65)
    assert said == "5 March 2001: 1,000 events, as usual. Origin: not all alike."


def test_only_a_few_rows_are_named():
    rows = [row(f"a{i}", 10.0, 30.0, p=10.0**-i) for i in range(2, 9)]
    said = say(modes=[rows, []])
    assert said.count("usually") == 4
    assert "3 more" in said
    assert said.index("a8") < said.index("a7")  # the oddest first


def test_a_move_within_a_row_says_from_where_to_where():
    cells = [pair(["ORD", "06"], 0.0, 9.0), pair(["ORD", "07"], 1.0, 8.0),
             pair(["ORD", "15"], 20.0, 9.0)]  # fmt: skip
    assert say(family="mixture", cells=cells) == (
        "5 March 2001: 1,000 events, as usual. Origin ORD moved from 06 and 07 to 15 (hour)."
    )
    alone = say(family="pairs up", cells=[pair(["ORD", "15"], 20.0, 9.0)])
    assert alone.endswith("ORD with 15 +122 % (20 for 9).")


@pytest.mark.parametrize(
    ("family", "words"),
    [("misfit", "occur together as they never did"), ("many", "many rows are a little off"),
     ("volume", "all rows alike"), ("mixture", "no row stands out, but some divide up otherwise"),
     ("pairs down", "but some divide up otherwise"), ("alone up", "no row stands out by itself")],
)  # fmt: skip
def test_what_no_row_explains_is_said_too(family, words):
    assert words in say(family=family, volume_odd=family == "volume", total=3000.0).lower()


def test_labels_cannot_steer_a_terminal_and_do_not_fill_it():
    said = say(modes=[[row("\x1b[2J" + 500 * "x", 52.0, 347.0)], []])
    assert said.isprintable()
    assert len(said) < 250


def test_one_is_not_told_as_many():
    assert say(flagged=False, total=1.0) == "5 March 2001: 1 event, as usual."


def measured(**changes):
    return describe(found(**changes), time="2001-03-05", modes=["sensor", "hour"], noun="")


def test_the_rest_of_measurements_is_told_only_where_it_is_as_usual():
    # Their total holds the odd row: what it did is no news of the others, if there are any.
    odd = [[row("price", 969.0, 1225.0)], []]
    said = measured(modes=odd, total=969.0, rest_usual=False, rest_change=-0.21)
    assert said.endswith("Sensor price -21 % (969, usually 1,102 to 1,348).")
    assert measured(modes=odd).endswith("; the rest as usual.")


def test_what_hardly_ever_moves_is_told_with_the_digits_that_did():
    pressure = {**row("sea", 1017.36, 1016.9), "low": 1016.8, "high": 1017.1}
    said = measured(total=24673.0, expected_total=24640.0, volume_odd=True, modes=[[pressure], []])
    assert "24,673, 0.1 % more than expected" in said
    assert "Sensor sea +0.05 % (1,017.36, usually 1,016.80 to 1,017.10)" in said


def test_of_nothing_nothing_is_a_multiple():
    """An outage that has become usual ends; a mean that is about zero goes up."""
    back = {"flagged": True, "total": 988.0, "expected_total": 3e-11, "volume_odd": True,
            "expected_low": 0.0, "family": "volume", "modes": [[]], "cells": []}  # fmt: skip
    assert describe(back, time=None, modes=["a"]) == (
        "988 events, none was expected. All rows alike."
    )
    mean = {**back, "total": 39.5, "expected_total": 0.9, "expected_low": -4.0}
    assert describe(mean, time=None, modes=["a"], noun="").startswith(
        "total 39.5, 0.9 was expected."
    )
    wide = {**row("8", 3.84, 0.022), "low": -1.0, "high": 1.1}
    assert say_row(wide) == "8 +3.82 (3.84, usually -1 to 1.1)"


def test_nothing_at_all_is_told_with_what_was_expected():
    none = found(total=0.0, expected_total=494.4, volume_odd=True, family="volume")
    assert describe(none, time=None, modes=["a"]) == "0 events, where 494 were expected."
    few = {**none, "expected_total": 1.2}
    assert describe(few, time=None, modes=["a"]) == "0 events, where 1 was expected."


def test_a_total_below_zero_is_no_part_of_one_above():
    said = measured(total=-294.0, expected_total=704.0, expected_low=650.0, volume_odd=True)
    assert said.startswith("5 March 2001: total -294, 704 was expected.")


def test_what_hardly_ever_occurs_is_no_multiple():
    burst = {**row("u7", 11.0, 0.004), "low": 0.0, "high": 0.019}
    assert say_row(burst) == "u7 11 (usually next to none)"
    assert say_row(burst, counted=False).startswith("u7 x 2,750")
    assert say_row({**burst, "observed": 2.0, "high": 0.45}).startswith("u7 x ")


def test_of_what_is_certain_the_mode_with_the_fewest_rows_is_told_first():
    many = [row(f"p{i}", 900.0, 90.0, p=1e-200) for i in range(3)]
    cause = row("shop", 3000.0, 60.0, p=1e-90)
    assert ". Hour shop" in say(modes=[many, [cause]])
    unsure = {**cause, "p": 1e-6}
    assert ". Origin p0" in say(modes=[many, [unsure]])

"""No two patterns share a name, whatever their columns are."""

from __future__ import annotations

import numpy as np
import pytest

from line_profiles import describe
from onlinegcp.drawing.profiles import ModeProfile, guess_kind
from onlinegcp.report.steady import SteadyNames
from onlinegcp.report.telling_apart import brief, told_apart
from onlinegcp.report.words import Pattern, called


def modes(rng, rank, same):
    """Columns of which many are alike, some equal, some empty."""
    found = []
    for name, n in (("hour", 24), ("station", 6), ("kind", 2)):
        labels = [f"{k:02}" if name == "hour" else f"{name} {k}" for k in range(n)]
        columns = rng.dirichlet(np.full(n, 0.2), same)[rng.integers(0, same, rank)].T
        columns = columns + rng.choice([0.0, 1e-3, 0.05]) * rng.random((n, rank))
        columns[:, rng.random(rank) < 0.1] = 0.0
        sums = np.abs(columns).sum(axis=0)
        found.append(
            ModeProfile(
                name, guess_kind(name, labels), tuple(labels), columns / np.where(sums, sums, 1)
            )
        )
    return found


@pytest.mark.parametrize("seed", range(40))
def test_no_two_patterns_share_a_name(seed):
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(2, 25))
    found = describe(modes(rng, rank, int(rng.integers(1, 5))), rng.random((30, rank)), [None] * 30)
    names = [pattern.headline for pattern in found]
    assert len(set(names)) == rank, sorted(names)


def test_what_tells_two_apart_is_said_before_they_are_numbered():
    labels = ("north", "south", "east", "west", "middle")
    columns = np.array(
        [[0.9, 0.1, 0.0, 0.0, 0.0], [0.9, 0.0, 0.1, 0.0, 0.0], [0.9, 0.0, 0.1, 0, 0]]
    )
    mode = ModeProfile("gate", guess_kind("gate", labels), labels, columns.T)
    active = np.outer(np.ones(30), [3.0, 2.0, 1.0])
    names = [pattern.headline for pattern in describe([mode], active, [None] * 30)]
    assert names[0] == "North · more gate south"
    assert names[1] == "North · more gate east"
    assert names[2] == "North (3)"


def test_what_a_name_says_already_is_not_said_twice():
    labels = ("humid", "warm", "charged")
    columns = np.array([[0.72, 0.26, 0.02], [0.96, 0.02, 0.02]])
    mode = ModeProfile("measure", guess_kind("measure", labels), labels, columns.T)
    found = told_apart({0: "Humid", 1: "Humid"}, [mode], [[], []])
    assert found == {0: "Humid · more measure warm", 1: "Humid · less measure warm"}


def test_a_name_given_by_hand_is_not_that_of_another_pattern():
    found = [Pattern(0, 0.6, "To A", "To A"), Pattern(1, 0.4, "To B", "To B")]
    assert [p.headline for p in called(found, {1: "To B"})] == ["To B", "To B (2)"]


def test_names_that_are_kept_while_a_page_is_watched_stay_apart():
    names, flat = SteadyNames(), [np.array([[1.0, 0.0], [0.0, 1.0]])]
    names.keep([Pattern(0, 0.6, "To A", "To A"), Pattern(1, 0.4, "To B", "To B")], flat)
    turned = [np.array([[1.0, 1.0], [0.0, 0.0]])]  # the second became like the first
    now = [Pattern(0, 0.6, "To A · early", ""), Pattern(1, 0.4, "To A", "")]
    kept = [pattern.headline for pattern in names.keep(now, turned)]
    assert len(set(kept)) == 2


def test_labels_that_begin_alike_are_cut_where_they_differ():
    pages = [f"https://shop.example/catalogue/{name}/index" for name in ("shoes", "hats", "socks")]
    cut = [brief(pages, i) for i in range(3)]
    assert all(len(text) <= 22 for text in cut)
    assert all(name in text for name, text in zip(("shoes", "hats", "sock"), cut, strict=True))
    assert (
        len({brief([f"{'x' * 180}{k}{'y' * 15}" for k in range(50)], i) for i in range(50)}) == 50
    )
    assert brief(["A label without its like, but long"], 0) == "A label without its l…"
    assert brief(["a\x1b[2Jb"], 0) == "a\\x1b[2Jb"


def test_names_say_the_mode_only_where_labels_do_not():
    column = np.array([0.8, 0.1, 0.1])
    for name, labels, begin in (
        ("gate", ("gate 7", "gate 8", "gate 9"), "Gate 7"),
        ("host", ("host7", "host8", "host9"), "Host7"),
        ("sort", ("7", "8", "9"), "Sort 7"),
        ("dest", ("destA", "Derby", "Delhi"), "To destA"),
    ):
        shares = np.column_stack([column, column[::-1]])
        told = describe(
            [ModeProfile(name, "category", labels, shares)], np.ones((30, 2)), [None] * 30
        )
        first = next(pattern for pattern in told if pattern.component == 0)
        assert first.headline.startswith(begin)
        assert first.sentence.startswith(f"{begin} (80 %)")


def test_no_name_comes_twice_whatever_people_called_theirs():
    found = [Pattern(0, 0.5, "Main", ""), Pattern(1, 0.3, "By day", ""), Pattern(2, 0.2, "x", "")]
    given = {2: "Main (1)", 3: "Main"}
    names = [pattern.headline for pattern in called(found, given)]
    assert names[1:] == ["Main (1)", "Main"]
    assert len(set(names)) == 3


def test_names_that_stay_do_not_meet_on_a_page_that_is_watched():
    """A name with a number may be that of a pattern which has another number by now."""
    names, columns = SteadyNames(), [np.eye(3)]
    first = [Pattern(0, 0.5, "By day", ""), Pattern(1, 0.3, "By day (3)", "")]
    names.keep(first, columns)
    later = names.keep([*first, Pattern(2, 0.2, "By day", "")], columns)
    assert len({pattern.headline for pattern in later}) == 3


def test_the_only_pattern_is_everything_until_there_is_another():
    names, columns = SteadyNames(), [np.eye(2)]
    alone = names.keep([Pattern(0, 1.0, "Everything", "")], columns)
    assert alone[0].headline == "Everything"
    two = names.keep([Pattern(0, 0.6, "By day", ""), Pattern(1, 0.4, "By night", "")], columns)
    assert [pattern.headline for pattern in two] == ["By day", "By night"]

"""Rows that were read before are known again, by whatever version they were read."""

from __future__ import annotations

import pytest

from onlinegcp.events import from_events
from onlinegcp.events.seen import KEPT, OFFERS, Print, Seen

RIDES = {
    "t": [
        *("2024-03-01T01:00", "2024-03-01T02:00", "2024-03-01T03:00"),
        *("2024-03-02T01:00", "2024-03-02T05:00"),
    ],
    "pu": ["JFK", "Zürich", "JFK", "a long name of a place", ""],
    "fare": [1.5, 2.0, 3.25, 4.0, 5.0],
}
# As it was written when labels were marked one by one.
BEFORE = {
    "version": 1,
    "modes": ["pu", "t:hour"],
    "every": "1d",
    "timezone": None,
    "aggregation": "sum",
    "shared": [["pu"]],
    "vocabularies": {"pu": ["JFK", "Zürich", "a long name of a place"]},
    "columns": {"time": {"kind": "local", "zone": None, "unit": None}, "clocks": {}},
    "closed": 19784,
    "open": None,
    "positions": {},
    "seen": [[19783, [[3, "2e22ab1ff760e323", 6.75]]], [19784, [[2, "03c2c368d3ccf255", 4.0]]]],
    "n_slices": 2,
    "n_events": 4,
    "n_late": 0,
    "n_null": 1,
}


def stream(rides):
    return from_events(rides, time="t", every="1d", modes=["pu", "t:hour"], value="fare")


def now():
    first = stream(RIDES)
    assert len(list(first)) == 2
    return first.state()


@pytest.mark.parametrize("state", [BEFORE, None], ids=["before", "now"])
@pytest.mark.filterwarnings("ignore")
def test_the_same_rows_are_passed_over_and_others_are_late(state):
    state = state or now()
    again = stream(RIDES).restore(state, again=True)
    assert list(again) == []
    assert (again.n_again, again.n_late) == (5, 0)
    # Another label in one row, whatever its length: those rows were never learned.
    for place, label in ((0, "Zürich"), (3, "a long name of a placf"), (1, "new")):
        names = [*RIDES["pu"][:place], label, *RIDES["pu"][place + 1 :]]
        other = stream({**RIDES, "pu": names}).restore(state, again=True)
        assert list(other) == []
        assert other.n_late == (2 if place == 3 else 3)
        # They count as late once, however often they are offered.
        once_more = stream({**RIDES, "pu": names}).restore(other.state(), again=True)
        assert list(once_more) == []
        assert once_more.n_late == other.n_late


def test_only_the_newest_bins_are_remembered():
    seen = Seen()
    for key in range(KEPT + 5):
        seen.note(key, Print(1, 0, 0.0))
    assert sorted(seen.offers) == list(range(5, KEPT + 5))


def test_of_what_is_offered_for_a_bin_the_first_few_are_remembered():
    seen = Seen()
    for n_rows in range(OFFERS + 3):
        seen.note(7, Print(n_rows, 0, 0.0))
    assert [offer.n_rows for offer in seen.offers[7]] == list(range(OFFERS))

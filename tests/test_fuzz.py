"""A few rounds of every fuzzer; `make fuzz` plays thousands."""

from __future__ import annotations

import pytest
from reliability.fuzz import FUZZERS, play

SLOW = {"values": 3, "words": 4}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in FUZZERS],
)
def test_a_short_round(name, tmp_path):
    for number in range(SLOW.get(name, 20)):
        folder = tmp_path / str(number)
        folder.mkdir()
        play(name, number, folder)

"""The page of a comparison: means so far, who was refused and why, nothing that is not escaped."""

from __future__ import annotations

import json

import pytest

from onlinegcp.evaluate import Comparison, Contender
from onlinegcp.report.comparison import render_comparison

BAD = "</script><script>alert(1)</script>"


def entry(name, curve, milliseconds=1.0):
    mean = sum(curve) / len(curve)
    return Contender(name, None, mean, mean, mean, None, milliseconds, 0.1, tuple(curve))


def page(contenders, source="/home/ann/trips.csv"):
    found = Comparison("poisson", 13, 10, tuple(contenders))
    return render_comparison(found.to_dict(), source=source, command="onlinegcp fit trips.csv")


def payload_of(text):
    return json.loads(text.split('id="payload">')[1].split("</script>")[0])


def test_curves_are_means_of_the_slices_so_far():
    text = page(
        [
            entry("one", [1.0, 3.0, 5.0]),
            entry("two", [2.0, 4.0, 9.0], milliseconds=0.5),
            Contender("three", refusal="cells are missing in /home/ann/x"),
        ]
    )
    found = payload_of(text)
    assert [c["means"] for c in found["contenders"]] == [[1.0, 2.0, 3.0], [2.0, 3.0, 5.0], []]
    assert found["first"] == 11
    assert "two comes next, 2 behind per cell" in found["lede"]
    assert "quickest is two, 0.5 ms" in found["lede"]
    assert "<title>one predicts best" in text
    assert "cells are missing" in text
    assert "/home" not in text
    assert "https://" not in text
    assert len(text) < 60_000


@pytest.mark.parametrize("contenders", [[], [Contender("a", refusal="too large")]])
def test_a_comparison_nobody_could_take_part_in_says_so(contenders):
    text = page(contenders)
    assert "No method could take the stream" in text
    assert payload_of(text)["next"] == ""


def test_no_word_of_it_can_become_markup():
    text = page([entry(BAD, [1.0, 2.0, 3.0]), Contender("b", refusal=BAD)], source=BAD)
    assert "<script>alert" not in text
    assert text.count("</script>") == 2

"""The page of a rank study: small, self-contained, and with the numbers of the study."""

from __future__ import annotations

import json

import numpy as np
import pytest

from onlinegcp.report.ranks import render_ranks


def page(losses, **given):
    losses = np.asarray(losses)
    told = {
        "best": 3,
        "recommended": 2,
        "stable": 0.8,
        "advice": "Use rank 2.",
        "source": "/home/ann/trips.csv",
        "command": "onlinegcp fit /home/ann/trips.csv --rank 2",
        **given,
    }
    return render_ranks([1, 2, 3], losses, np.array([1.0, 0.9, 0.7]), **told)


def test_errors_are_those_of_the_difference_from_the_best():
    rng = np.random.default_rng(0)
    common = rng.normal(size=50)  # slices differ more from each other than ranks do
    losses = np.stack([common + 0.5 + 0.1 * rng.normal(size=50), common + 0.01, common])
    text = page(losses)
    assert len(text) < 60_000
    payload = json.loads(text.split('id="payload">')[1].split("</script>")[0])
    behind = losses[0] - losses[2]
    assert payload["errors"][0] == pytest.approx(np.std(behind, ddof=1) / 50**0.5, rel=1e-5)
    assert payload["errors"][1:] == pytest.approx([0.0, 0.0], abs=1e-9)
    assert payload["losses"] == pytest.approx(losses.mean(axis=1), rel=1e-5)
    assert payload["source"] == "trips.csv"
    assert "/home" not in text
    assert "https://" not in text


def test_no_word_of_it_can_become_markup():
    bad = "</script><script>alert(1)</script>"
    text = page(np.ones((3, 2)), advice=bad, source=bad, command=bad)
    assert "<script>alert" not in text
    assert text.count("</script>") == 2

"""Ids of labels: what a dictionary would say, however many there are and however bad the hash."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from onlinegcp.events import label_ids as module
from onlinegcp.events.label_ids import LabelIds


def bad_hash(kept):
    """Hashes of which only some bits tell labels apart."""

    def hashes(labels):
        return labels.hash(0).to_numpy() & np.uint64(kept)

    return hashes


@pytest.mark.parametrize(
    "kept",
    [2**64 - 1, 0xFF, 0xFF << 32, 0x3_0000_0003, 0],
    ids=["all bits", "slots only", "tags only", "few of both", "none"],
)
@pytest.mark.parametrize(
    ("block", "n_batches", "slots"), [(1 << 16, 12, 1 << 23), (64, 5, 1 << 23), (64, 12, 64)]
)
def test_it_is_a_dictionary(monkeypatch, kept, block, n_batches, slots):
    monkeypatch.setattr(module, "_MOST_SLOTS", slots)
    monkeypatch.setattr(module, "label_hashes", bad_hash(kept))
    monkeypatch.setattr(module, "BLOCK", block)
    monkeypatch.setattr(module, "MANY", 20)
    monkeypatch.setattr(module, "_FEWEST_SLOTS", 16)
    rng = np.random.default_rng(3)
    ids, expected = LabelIds(), {}
    for size in rng.integers(1, 150, n_batches).tolist():
        texts = [f"label {n}" if n % 2 else "x" * n for n in rng.integers(1, 900, size).tolist()]
        labels = pl.Series(texts, dtype=pl.String).unique(maintain_order=True)
        assert ids.find(labels).tolist() == [expected.get(label, -1) for label in labels]
        new = labels.filter(pl.Series([label not in expected for label in labels]))
        ids.add(new)
        expected |= {label: len(expected) + i for i, label in enumerate(new)}
        assert ids.find(labels).tolist() == [expected[label] for label in labels]
    assert len(ids) == len(expected)
    everything = pl.Series(list(expected))
    np.testing.assert_array_equal(ids.find(everything), np.arange(len(expected)))
    assert [ids.column[i] for i in range(len(ids))] == list(expected)


def test_nothing_is_found_among_nothing():
    assert LabelIds().find(pl.Series([], dtype=pl.String)).tolist() == []
    assert LabelIds().find(pl.Series([str(n) for n in range(3000)])).max() == -1


def test_where_labels_are_very_many_none_is_entered_again(monkeypatch):
    monkeypatch.setattr(module, "_MOST_SLOTS", 1 << 14)
    monkeypatch.setattr(module, "MANY", 20)
    entered, enter = [], module._Table.enter
    monkeypatch.setattr(
        module._Table, "enter", lambda self, ids, h: entered.append(len(ids)) or enter(self, ids, h)
    )
    ids, n = LabelIds(), 60_000
    labels = pl.Series(range(n)).cast(pl.String)
    for first in range(0, n, 3000):
        ids.add(labels[first : first + 3000])
    assert ids.find(labels).tolist() == list(range(n))
    # Only those of the first table, when it was half as long.
    assert sum(entered) <= n + module._FULL * module._FEWEST_SLOTS

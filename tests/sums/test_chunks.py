"""Problems are cut by their size alone, and partial sums are added in one order."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onlinegcp.sums import chunks
from onlinegcp.sums.chunks import Chunks, add_tree, chunk_count, even_cuts, row_blocks, row_cuts


@pytest.mark.parametrize("n", [0, 1, 63, 10_080, 10_083, 123_457])
def test_cuts_cover_every_cell_once_and_evenly(n):
    cuts = even_cuts(n, 104)
    assert (cuts[0], cuts[-1]) == (0, n)
    sizes = np.diff(cuts)
    assert len(sizes) & (len(sizes) - 1) == 0  # a power of two
    assert sizes.max() - sizes.min() <= 1
    if len(sizes) > 1:
        assert sizes.min() * 104 >= 0.9 * chunks.LEAST_WORK


def test_huge_slices_have_a_bounded_number_of_chunks():
    assert chunk_count(10**11, 52) == chunks.MOST_CHUNKS
    assert chunk_count(3, 10**12) == 2  # no chunk without a cell


def test_parts_are_the_chunks_themselves():
    cells = Chunks((np.arange(10), np.arange(20).reshape(10, 2)), np.array([0, 3, 3, 7, 10]))
    part = cells.part(1, 3)
    assert part.count == 2
    assert part.cuts.tolist() == [0, 0, 4]
    assert part.arrays[0].tolist() == [3, 4, 5, 6]
    assert np.shares_memory(part.arrays[1], cells.arrays[1])


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13])
def test_the_tree_adds_everything_and_pairs_neighbours(count):
    rng = np.random.default_rng(count)
    parts = rng.standard_normal((count, 4, 3))
    np.testing.assert_allclose(add_tree(parts.copy()), parts.sum(axis=0), rtol=1e-12, atol=1e-14)
    if count == 3:
        assert add_tree(parts.copy()).tobytes() == ((parts[0] + parts[1]) + parts[2]).tobytes()
    if count == 8:  # subtrees may be folded where they are, by anybody
        halves = np.stack([add_tree(parts[:4].copy()), add_tree(parts[4:].copy())])
        assert add_tree(parts.copy()).tobytes() == add_tree(halves).tobytes()
    assert add_tree(list(parts)).tobytes() == add_tree(parts).tobytes()


def test_row_blocks_and_row_cuts_cover_every_row_once():
    blocks = row_blocks(5, 10_000)
    assert [b for b, _ in blocks][1:] == [e for _, e in blocks][:-1]
    assert (blocks[0][0], blocks[-1][1]) == (5, 10_000)
    rng = np.random.default_rng(0)
    starts = np.concatenate([[0], np.cumsum(rng.integers(0, 3000, 200))])
    cuts = row_cuts(starts, 52)
    assert [b for b, _ in cuts][1:] == [e for _, e in cuts][:-1]
    assert (cuts[0][0], cuts[-1][1]) == (0, 200)
    cells = np.array([starts[e] - starts[b] for b, e in cuts])
    assert cells.max() < 3 * math.ceil(starts[-1] / chunk_count(int(starts[-1]), 52))

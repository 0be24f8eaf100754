"""Shares of a slice: the rows they meet, under numbers by which their cells find them."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.kernels.layout import stack_factors
from onlinegcp.solvers.auto.cells import row_chunks
from onlinegcp.sums import chunks as chunks_module
from onlinegcp.sums.chunks import Chunks, RowChunks, evenly
from onlinegcp.sums.local import spread_chunk
from onlinegcp.sums.prefixes import first_sums
from onlinegcp.sums.shares import deal, share

SHAPE = (9, 5000, 700)


def cells(n, shape=SHAPE, seed=0):
    """Cells in C order, crowded at both ends of the modes."""
    rng = np.random.default_rng(seed)
    columns = [(rng.beta(0.3, 0.3, n) * dim).astype(np.int32) for dim in shape]
    return np.stack(columns, axis=1)[np.lexsort(columns[::-1])]


def model_values(factors, index):
    rows = [factors.data[factors.offsets[k] + index[:, k]] for k in range(index.shape[1])]
    return np.prod(rows, axis=0).sum(axis=1)


@pytest.mark.parametrize("n", [0, 3, 60, 20_000])
def test_cells_of_a_share_find_their_rows_among_those_it_meets(n):
    index, rng = cells(n), np.random.default_rng(1)
    factors = stack_factors([rng.random((dim, 3)) for dim in SHAPE])
    listed = Chunks((index, np.arange(n)), evenly(n, 4), listed=True)
    for runs in ([(0, 1), (1, 2)], [(2, 4)]):
        found = share(listed, runs)
        few = found.of(factors)
        here = [listed.part(*run) for run in runs]
        for piece, whole in zip(found.pieces, here, strict=True):
            assert piece.cuts.tolist() == whole.cuts.tolist()
            expected = model_values(factors, whole.arrays[0])
            assert model_values(few, piece.arrays[0]).tolist() == expected.tolist()
        met = [set(np.concatenate([w.arrays[0][:, k] for w in here]).tolist()) for k in range(3)]
        for rows, own in zip(found.rows, met, strict=True):
            assert own <= set(rows)
            assert len(rows) <= sum(len(w.arrays[0]) for w in here)  # whatever the mode's length
        assert len(few.data) == found.n_rows < len(factors.data)


def count(part, places, target):
    """Row sums whose right value anybody can count: how often a row is met."""
    for row in part.arrays[0]:
        for k, place in enumerate(row.tolist()):
            target[places[k] + place] += 1.0
    return ()


@pytest.mark.parametrize("n", [80, 3000])
def test_sums_of_a_share_go_to_the_rows_they_belong_to(n, monkeypatch):
    monkeypatch.setattr(chunks_module, "LEAST_WORK", 1)
    monkeypatch.setattr("onlinegcp.solvers.auto.cells.CELLS_PER_ROW", 0)
    index = cells(n)
    grid = row_chunks(index, np.ones(n), SHAPE, 3)
    assert grid.columns > 1
    runs = [(c, c + 1) for c in range(grid.count)]
    sums = [np.zeros((dim, 1)) for dim in SHAPE]
    for group in deal(grid, runs, 4):
        found = share(grid, [runs[run] for run in group])
        for place, piece in enumerate(found.pieces):
            scratch = np.empty((piece.longest(range(3)), 1))
            _, target, _ = spread_chunk(count, piece, 0, range(3), scratch, ())
            begin = 0
            for k in range(3):
                rows = np.array(found.met(place, k), dtype=np.int64)
                np.add.at(sums[k], rows, target[begin : begin + len(rows)])
                begin += len(rows)
            assert begin == len(target)
    for k, dim in enumerate(SHAPE):
        assert sums[k][:, 0].tolist() == np.bincount(index[:, k], minlength=dim).tolist()


def test_what_meets_every_row_is_given_all_of_them():
    factors = stack_factors([np.ones((4, 2)), np.ones((3, 2))])
    found = share(Chunks((np.arange(4),), evenly(4, 2)), [(0, 1)])
    assert found.of(factors) is factors


@pytest.mark.parametrize(
    ("columns", "workers", "sizes"),
    [
        (1, 2, [8, 8]),
        (4, 4, [4, 4, 4, 4]),  # two by two
        (4, 3, [4, 4, 8]),  # lines only
        (4, 7, [2, 2, 2, 2, 4, 4]),  # three by two, and one has nothing to do
        (16, 4, [4, 4, 4, 4]),
    ],
)
def test_runs_are_dealt_out_as_blocks_of_the_grid(columns, workers, sizes):
    edges = np.zeros((16, 2), dtype=np.int64)
    grid = RowChunks((), np.arange(17), edges, edges, columns=columns)
    groups = deal(grid, [(c, c + 1) for c in range(16)], workers)
    assert sorted(map(len, groups)) == sizes
    assert sorted(run for group in groups for run in group) == list(range(16))
    if (columns, workers) == (4, 4):
        assert groups[0] == [0, 1, 4, 5]


@pytest.mark.parametrize(("lines", "columns"), [(2, 8), (8, 2)])
def test_two_workers_have_few_sums_that_must_be_sent_one_by_one(lines, columns):
    at = np.stack(np.divmod(np.arange(16), columns), axis=1)
    long = np.array([80 // lines, 80 // columns])  # rows of a line and of a column
    grid = RowChunks((), np.arange(17), at * long, (at + 1) * long, columns=columns)
    groups = deal(grid, [(c, c + 1) for c in range(16)], 2)
    owners = [next(w for w, group in enumerate(groups) if c in group) for c in range(16)]
    alone = sum(long[k] for own in first_sums(grid, range(2), owners)
                for k, which in enumerate(own) if which < 0)  # fmt: skip
    assert alone == 80  # the longer way round it would be four times as many

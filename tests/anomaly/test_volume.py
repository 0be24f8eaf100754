"""Where the events of a slice of odd volume are missing, or where they come from."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.anomaly import AnomalyTracker, score_slice
from onlinegcp.anomaly.volume import compare_volume
from onlinegcp.slices import Slice
from onlinegcp.streaming import OnlineGCP

RNG = np.random.default_rng(11)
FACTORS = [RNG.random((n, 2)) for n in (6, 5, 4)]
USUAL = np.array([3.0, 5.0])
ORDINARY = np.einsum("r,ir,jr,kr->ijk", USUAL, *FACTORS)


def sparse(array: np.ndarray) -> Slice:
    index = np.argwhere(array)
    return Slice(index, array[tuple(index.T)], array.shape)


@pytest.mark.parametrize("form", [sparse, Slice.dense])
def test_shares_of_rows_are_those_of_the_dense_difference(form):
    array = np.rint(20 * ORDINARY)
    array[2] = 0.0  # a row that is missing altogether
    total = 20 * ORDINARY.sum()
    found = compare_volume(form(array), FACTORS, USUAL, total, top=4)
    assert found is not None
    dense = 20 * ORDINARY - array
    for k, shares in enumerate(found.modes):
        lost = np.maximum(dense.sum(axis=tuple(j for j in range(3) if j != k)), 0.0)
        np.testing.assert_allclose(shares, lost / lost.sum(), atol=1e-9)
    assert np.argmax(found.modes[0]) == 2


def test_cells_that_are_missing_are_found_though_no_list_holds_them():
    array = np.rint(20 * ORDINARY)
    array[2] = 0.0
    found = compare_volume(sparse(array), FACTORS, USUAL, 20 * ORDINARY.sum(), top=3)
    assert found is not None
    assert (found.index[:, 0] == 2).all()
    np.testing.assert_array_equal(found.observed, 0.0)
    np.testing.assert_allclose(found.expected, 20 * ORDINARY[tuple(found.index.T)])
    largest = np.sort((20 * ORDINARY[2]).ravel())[::-1][:3]
    np.testing.assert_allclose(found.expected, largest)


def test_a_surplus_is_found_where_it_is():
    array = np.rint(ORDINARY)
    array[4, 1, 3] += 500.0
    found = compare_volume(sparse(array), FACTORS, USUAL, ORDINARY.sum(), top=1)
    assert found is not None
    assert found.index.tolist() == [[4, 1, 3]]
    assert found.shares[0] == pytest.approx(1.0, abs=0.05)


def test_empty_slices_and_missing_cells():
    empty = Slice(np.empty((0, 3), dtype=int), [], (6, 5, 4))
    found = compare_volume(empty, FACTORS, USUAL, 100.0, top=2)
    assert found is not None
    assert len(found.index) == 2
    np.testing.assert_array_equal(found.observed, 0.0)
    gap = ORDINARY.copy()
    gap[0, 0, 0] = np.nan
    assert compare_volume(Slice.dense(gap), FACTORS, USUAL, 100.0, top=2) is None
    assert compare_volume(empty, FACTORS, np.zeros(2), 100.0, top=2) is None


def test_a_day_of_low_volume_is_explained_by_what_did_not_happen():
    rng = np.random.default_rng(2)
    model, tracker = OnlineGCP(2, "poisson", init_slices=8), AnomalyTracker()
    for t in range(40):
        array = rng.poisson(8 * ORDINARY).astype(float)
        if t == 39:
            array = rng.binomial(array.astype(int), 0.4).astype(float)
        x = sparse(array)
        if t >= 8:
            anomaly = score_slice(model, x, history=tracker)
            tracker.update(anomaly)
        if t < 39:
            model.partial_fit(x)
    assert anomaly.flagged
    assert anomaly.kind == "volume"
    assert len(anomaly.cells) == 10
    assert all(cell["observed"] < cell["expected"] for cell in anomaly.cells)
    # What is missing most is what there usually is most of.
    rows = ORDINARY.sum(axis=(0, 2))
    assert anomaly.modes[1][0]["label"] == str(np.argmax(rows))
    assert sum(cell["share"] for cell in anomaly.cells) < 1.0

"""GOCPTE against its authors' numbers, and its R x R past against all old weights kept."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.streaming import GOCPTE
from reference_outputs import gap, stored


@pytest.mark.parametrize(
    ("name", "passes"), [("gocpte_1", 1), ("gocpte_masked_1", 1), ("gocpte_masked_3", 3)]
)
def test_authors_numbers_at_the_end(name, passes):
    given, theirs = stored("inputs"), stored("gocpt")
    data = np.where(given["W"] > 0, given["X"], np.nan) if "masked" in name else given["X"]
    init = KTensor(None, [given["A0"], given["B0"], theirs["C00"]])
    model = GOCPTE(3, passes=passes, init=init)
    for t in range(5, data.shape[-1]):
        model.partial_fit(Slice.dense(np.ascontiguousarray(data[:, :, t])))
    factors = [theirs[f"{name}_{mode}"] for mode in "AB"]
    assert gap(model, factors, theirs[f"{name}_C"][-1]) < 1e-9
    for ours, a in zip(model.factors_, factors, strict=True):
        np.testing.assert_allclose(ours, a, atol=1e-9)


def least_squares(design, target, ridge):
    """Minimise |target - design b|^2 + ridge |b|^2 by a stacked solve."""
    rank = design.shape[1]
    stacked = np.vstack([design, np.sqrt(ridge) * np.eye(rank)])
    zeros = np.zeros((rank, *target.shape[1:]))
    return np.linalg.lstsq(stacked, np.concatenate([target, zeros]), rcond=None)[0]


def with_all_weights(arrays, init, passes, past_weight, ridge):
    """The method with every old weight kept and every old slice written out again."""
    *factors, rows = init.factors
    rank = init.rank

    def products(of, mode=None, times=None):
        """Khatri-Rao rows of all modes (but one), with a time mode in front if given."""
        parts = [a for k, a in enumerate(of) if k != mode]
        parts = parts if times is None else [times, *parts]
        return np.stack(
            [KTensor(np.eye(rank)[r], parts).full().reshape(-1) for r in range(rank)], axis=1
        )

    for x in arrays:
        for _ in range(passes):
            old, past = list(factors), np.stack([KTensor(r, factors).full() for r in rows])
            s = least_squares(products(factors), x.reshape(-1), ridge)
            for k in range(x.ndim):
                new = products(factors, k, s[None])
                before = products(factors, k, rows)
                share = np.sqrt(past_weight)
                target = np.moveaxis(x, k, 0).reshape(x.shape[k], -1)
                history = np.moveaxis(past, k + 1, 0).reshape(x.shape[k], -1)
                factors[k] = least_squares(
                    np.vstack([new, share * before]),
                    np.hstack([target, share * history]).T,
                    ridge,
                ).T
            whole = np.stack([KTensor(r, old).full().reshape(-1) for r in rows], axis=1)
            rows = least_squares(products(factors), whole, ridge).T
        rows = np.vstack([rows, s])
    return KTensor(s, factors).full()


@pytest.mark.parametrize("shape", [(6, 5), (4, 3, 2)])
@pytest.mark.parametrize(("passes", "past_weight"), [(1, 1.0), (3, 0.4)])
def test_the_small_matrix_does_what_all_old_weights_do(shape, passes, past_weight):
    rng = np.random.default_rng(0)
    truth = [rng.normal(size=(k, 2)) for k in shape]
    init = KTensor(
        None, [*(a + 0.1 * rng.normal(size=a.shape) for a in truth), rng.normal(size=(4, 2))]
    )
    arrays = [
        KTensor(rng.normal(size=2), truth).full() + 0.1 * rng.normal(size=shape) for _ in range(6)
    ]
    model = GOCPTE(2, passes=passes, past_weight=past_weight, ridge=1e-3, init=init)
    model.partial_fit([Slice.dense(x) for x in arrays])
    expected = with_all_weights(arrays, init, passes, past_weight, 1e-3)
    np.testing.assert_allclose(model.to_ktensor().full(), expected, rtol=1e-7, atol=1e-7)


def test_gaps_make_row_systems_of_the_same_problem():
    """A row with all its cells gets the same answer from its own system."""
    rng = np.random.default_rng(0)
    init = KTensor(None, [rng.normal(size=(k, 2)) for k in (6, 5, 4)])
    x = rng.normal(size=(6, 5))
    holes = x.copy()
    holes[5, :3] = np.nan
    whole, gaps = (
        GOCPTE(2, passes=1, init=init)._update(
            Slice.dense(a), list(init.factors[:2]), init.factors[:2], np.array([1.0, -0.5]),
            init.factors[2].T @ init.factors[2], 0,
        )
        for a in (x, holes)
    )  # fmt: skip
    np.testing.assert_allclose(gaps[:5], whole[:5], rtol=1e-7)
    assert not np.allclose(gaps[5], whole[5])


def test_options_out_of_range_are_refused():
    for option, value in (("passes", 0), ("past_weight", 0.0), ("forget", 1.1), ("ridge", -1.0)):
        with pytest.raises(DataError, match=option):
            GOCPTE(2, **{option: value}).partial_fit([np.ones((4, 3))])

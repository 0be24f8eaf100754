"""KTensor: algebra against tensors multiplied out, scores against pyttb, refusals of bad input."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinegcp import ktensor
from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice

SHAPES = [(1,), (5,), (1, 7), (3, 1, 4), (7, 5, 3), (2, 3, 1, 5)]
RANKS = [1, 2, 7]
CASES = list(itertools.product(SHAPES, RANKS))


def random_ktensor(shape, rank, seed=0, labels=None):
    rng = np.random.default_rng(seed)
    factors = [rng.standard_normal((size, rank)) for size in shape]
    return KTensor(rng.standard_normal(rank), factors, labels)


def multiplied_out(model):
    """Sum of outer products, one component at a time."""
    total = np.zeros(model.shape)
    for r in range(model.rank):
        term = np.array(model.weights[r])
        for factor in model.factors:
            term = np.multiply.outer(term, factor[:, r])
        total += term
    return total


@pytest.mark.parametrize(("shape", "rank"), CASES)
def test_full_is_the_weighted_sum_of_outer_products(shape, rank):
    model = random_ktensor(shape, rank)
    assert (model.shape, model.ndim, model.rank) == (shape, len(shape), rank)
    np.testing.assert_allclose(model.full(), multiplied_out(model), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("shape", "rank"), CASES)
def test_values_are_entries_of_the_full_tensor(shape, rank):
    model = random_ktensor(shape, rank)
    everywhere = np.argwhere(np.ones(shape))
    np.testing.assert_allclose(
        model.values(everywhere), multiplied_out(model).ravel(), rtol=1e-12, atol=1e-12
    )
    assert model.values(np.empty((0, len(shape)), int)).shape == (0,)


def test_values_do_not_depend_on_how_many_rows_are_done_at_once(monkeypatch):
    model = random_ktensor((7, 5, 3), 4)
    index = np.random.default_rng(1).integers(0, 3, (101, 3))
    expected = multiplied_out(model)[tuple(index.T)]
    monkeypatch.setattr(ktensor, "ROWS_AT_ONCE", 13)
    np.testing.assert_allclose(model.values(index), expected, rtol=1e-12)


@pytest.mark.parametrize(("shape", "rank"), CASES)
def test_norm_and_inner_products_equal_those_of_full_tensors(shape, rank):
    model = random_ktensor(shape, rank)
    rng = np.random.default_rng(2)
    array = rng.standard_normal(shape)
    sparse = np.where(rng.random(shape) < 0.4, array, 0.0)
    index = np.argwhere(sparse)
    full = multiplied_out(model)
    assert model.norm() == pytest.approx(np.linalg.norm(full), rel=1e-10)
    for other in (random_ktensor(shape, rank, seed=1), random_ktensor(shape, rank + 2, seed=1)):
        assert model.inner(other) == pytest.approx(np.vdot(full, multiplied_out(other)), abs=1e-9)
    assert model.inner(array) == pytest.approx(np.vdot(full, array), abs=1e-10)
    assert model.inner(Slice.dense(array)) == pytest.approx(np.vdot(full, array), abs=1e-10)
    x = Slice(index, sparse[tuple(index.T)], shape)
    assert model.inner(x) == pytest.approx(np.vdot(full, sparse), abs=1e-10)


def test_missing_cells_count_for_nothing_in_an_inner_product():
    model = random_ktensor((3, 4), 2)
    array = np.random.default_rng(0).standard_normal((3, 4))
    holes = array.copy()
    holes[1, 2] = holes[0, 0] = np.nan
    expected = np.nansum(multiplied_out(model) * holes)
    assert model.inner(holes) == pytest.approx(expected, rel=1e-12)


def test_inner_product_with_a_sparse_slice_never_forms_the_tensor():
    size = 2_000_000
    model = KTensor([3.0], [np.ones((size, 1))] * 3)
    x = Slice([[0, 1, size - 1], [5, 5, 5]], [2.0, 7.0], (size,) * 3)
    assert model.inner(x) == 27.0
    assert model.norm() == pytest.approx(3.0 * size**1.5)


def test_norm_of_components_that_cancel_is_zero_not_nan():
    column = np.random.default_rng(0).random((5, 1))
    model = KTensor([1.0, -1.0], [np.hstack([column, column])] * 3)
    assert model.norm() == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("into", ["weights", 0, -1])
@pytest.mark.parametrize(("shape", "rank"), CASES)
def test_normalize_keeps_the_tensor_and_gives_unit_columns(shape, rank, norm, into):
    model = random_ktensor(shape, rank)
    unit = model.normalize(norm=norm, into=into)
    np.testing.assert_allclose(unit.full(), multiplied_out(model), rtol=1e-10, atol=1e-12)
    carrier = None if into == "weights" else into % len(shape)
    for k, factor in enumerate(unit.factors):
        if k != carrier:
            np.testing.assert_allclose(np.linalg.norm(factor, norm, axis=0), 1.0)
            assert np.all(factor.max(axis=0) >= -factor.min(axis=0))
    if into == "weights":
        assert np.all(np.diff(np.abs(unit.weights)) <= 0)
    else:
        np.testing.assert_array_equal(unit.weights, 1.0)
        lengths = np.linalg.norm(unit.factors[carrier], norm, axis=0)
        assert np.all(np.diff(lengths) <= 1e-12 * lengths[0])


def test_normalize_can_leave_order_and_signs_alone():
    model = KTensor([1.0, 5.0], [[[-2.0, 1.0]], [[3.0, -1.0]]])
    plain = model.normalize(sort=False, fix_signs=False)
    np.testing.assert_array_equal(plain.weights, [6.0, 5.0])
    np.testing.assert_array_equal(plain.factors[0], [[-1.0, 1.0]])
    fixed = model.normalize(sort=False)
    np.testing.assert_array_equal(fixed.weights, [-6.0, -5.0])


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 4),
    st.lists(st.sampled_from([-1.0, 1.0]), min_size=3, max_size=3),
    st.floats(1e-3, 1e3),
)
def test_normal_form_does_not_depend_on_scale_sign_or_order(seed, rank, signs, scale):
    model = random_ktensor((4, 3, 2), rank, seed)
    order = np.random.default_rng(seed).permutation(rank)
    moved = KTensor(
        (model.weights / scale * np.prod(signs))[order],
        [(a * s)[:, order] for a, s in zip(model.factors, signs, strict=True)],
    )
    moved = KTensor(moved.weights, [moved.factors[0] * scale, *moved.factors[1:]])
    assert moved.normalize().isclose(model.normalize(), rtol=1e-7)


def test_zero_columns_stay_zero_and_tiny_ones_do_not_underflow():
    model = KTensor([1.0, 1.0], [[[0.0, 3e-200], [0.0, 4e-200]], [[1.0, 1e200]]])
    unit = model.normalize(sort=False)
    np.testing.assert_allclose(unit.weights, [0.0, 5.0])
    np.testing.assert_allclose(unit.factors[0], [[0.0, 0.6], [0.0, 0.8]])


def test_a_mode_of_length_zero_is_an_empty_tensor():
    model = KTensor([1.0], [np.ones((3, 1)), np.empty((0, 1))])
    assert model.full().shape == (3, 0)
    assert model.norm() == 0.0
    assert model.normalize().weights == [0.0]


def test_arrange_and_permute_move_components_and_modes():
    model = random_ktensor((2, 3, 4), 3, labels=[("a", "b"), None, None])
    order = [2, 0, 1]
    np.testing.assert_allclose(model.arrange(order).full(), model.full(), rtol=1e-12)
    np.testing.assert_array_equal(model.arrange([1]).weights, model.weights[[1]])
    moved = model.permute(order)
    np.testing.assert_allclose(moved.full(), model.full().transpose(order), rtol=1e-12)
    assert moved.labels == (None, ("a", "b"), None)


def test_isclose_compares_weights_factors_and_labels():
    model = random_ktensor((2, 3), 2)
    assert model.isclose(KTensor(model.weights, model.factors, [None, None]))
    assert model.isclose(KTensor(model.weights * (1 + 1e-12), model.factors))
    assert not model.isclose(KTensor(model.weights * 1.001, model.factors))
    assert not model.isclose(KTensor(model.weights, model.factors, [("a", "b"), None]))
    assert not model.isclose(model.arrange([0]))
    assert not model.isclose(random_ktensor((3, 2), 2))


def test_score_of_rearranged_rescaled_components_is_one():
    model = random_ktensor((5, 6, 7), 4)
    order = np.array([2, 0, 3, 1])
    moved = model.arrange(order).normalize(sort=False)
    found = moved.score(model)
    assert found.score == pytest.approx(1.0)
    assert float(found) == found.score
    np.testing.assert_array_equal(order[found.matching], np.arange(4))
    np.testing.assert_allclose(found.components, 1.0)
    assert moved.arrange(found.matching).score(model, greedy=True).score == pytest.approx(1.0)


def brute_force_score(model, reference, weight_penalty):
    """Best of all matchings, each component multiplied out and cosines taken of full tensors."""

    def parts(k):
        return [k.arrange([r]).full().ravel() for r in range(k.rank)]

    def congruence(a, b):
        p, q = np.linalg.norm(a), np.linalg.norm(b)
        penalty = 1 - abs(p - q) / max(p, q) if weight_penalty else 1.0
        return abs(a @ b) / (p * q) * penalty

    ours, theirs = parts(model), parts(reference)
    table = np.array([[congruence(a, b) for b in theirs] for a in ours])
    if len(ours) >= len(theirs):
        matchings = itertools.permutations(range(len(ours)), len(theirs))
        return max(sum(table[i, j] for j, i in enumerate(m)) for m in matchings) / len(theirs)
    matchings = itertools.permutations(range(len(theirs)), len(ours))
    return max(sum(table[i, j] for i, j in enumerate(m)) for m in matchings) / len(theirs)


@pytest.mark.parametrize("weight_penalty", [True, False])
@pytest.mark.parametrize(("rank", "reference_rank"), [(1, 1), (3, 3), (5, 3), (2, 4)])
def test_score_is_the_best_of_all_matchings(rank, reference_rank, weight_penalty):
    for seed in range(5):
        model = random_ktensor((3, 2, 4), rank, seed)
        reference = random_ktensor((3, 2, 4), reference_rank, seed + 100)
        found = model.score(reference, weight_penalty=weight_penalty)
        best = brute_force_score(model, reference, weight_penalty)
        assert found.score == pytest.approx(best, rel=1e-10)
        assert found.score >= model.score(
            reference, weight_penalty=weight_penalty, greedy=True
        ).score * (1 - 1e-12)
        assert np.sum(found.matching >= 0) == min(rank, reference_rank)


@pytest.mark.parametrize("weight_penalty", [True, False])
@pytest.mark.parametrize(("rank", "reference_rank"), [(1, 1), (4, 4), (6, 4)])
def test_score_agrees_with_pyttb(rank, reference_rank, weight_penalty):
    pytest.importorskip("pyttb")
    agreed = 0
    for seed in range(10):
        model = random_ktensor((5, 4, 3), rank, seed)
        reference = random_ktensor((5, 4, 3), reference_rank, seed + 100)
        theirs, _, _, order = model.to_pyttb().score(
            reference.to_pyttb(), weight_penalty=weight_penalty
        )
        greedy = model.score(reference, weight_penalty=weight_penalty, greedy=True)
        assert greedy.score == pytest.approx(theirs, rel=1e-10)
        np.testing.assert_array_equal(greedy.matching, order[:reference_rank])
        best = model.score(reference, weight_penalty=weight_penalty)
        if np.array_equal(best.matching, greedy.matching):
            agreed += 1
            assert best.score == pytest.approx(theirs, rel=1e-10)
    assert agreed > 0


def test_score_beats_greedy_where_greedy_is_trapped():
    angles = np.deg2rad([0.0, 40.0])
    reference = KTensor(None, [[np.cos(angles), np.sin(angles)]])
    angles = np.deg2rad([19.0, -50.0])
    model = KTensor(None, [[np.cos(angles), np.sin(angles)]])
    assert model.score(reference).score > model.score(reference, greedy=True).score


def test_components_that_are_zero_on_both_sides_match_in_weight_but_not_in_direction():
    zero = KTensor([0.0], [[[1.0], [0.0]]])
    assert zero.score(zero).score == 1.0
    assert zero.score(KTensor([1.0], [[[1.0], [0.0]]])).score == 0.0
    assert KTensor([1.0], [[[0.0], [0.0]]]).score(zero).score == 0.0


def test_score_says_how_many_components_of_the_reference_are_missing():
    reference = KTensor(None, [np.eye(4), np.eye(4)])
    found = reference.arrange([1, 3]).score(reference)
    assert found.score == 0.5
    np.testing.assert_array_equal(found.matching, [-1, 0, -1, 1])
    np.testing.assert_array_equal(found.components, [0.0, 1.0, 0.0, 1.0])


def test_arrays_are_copied_and_read_only():
    weights, factor = np.ones(2), np.ones((3, 2))
    model = KTensor(weights, [factor])
    weights[0] = factor[0, 0] = 5.0
    assert model.full().max() == 2.0
    for kept in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with pytest.raises(ValueError, match="read-only"):
            kept.weights[0] = 1.0
        with pytest.raises(ValueError, match="read-only"):
            kept.factors[0][0, 0] = 1.0
        assert kept.isclose(model)
    with pytest.raises(AttributeError):
        model.weights = np.zeros(2)


def test_single_precision_integers_and_fortran_order_become_float64_in_c_order():
    model = KTensor(
        np.array([1, 2]), [np.ones((3, 2), np.float32), np.ones((4, 2), order="F"), [[True, False]]]
    )
    for array in (model.weights, *model.factors):
        assert array.dtype == np.float64
        assert array.flags.c_contiguous


def test_repr_is_short():
    assert repr(random_ktensor((3, 4), 2)) == "KTensor(shape=(3, 4), rank=2)"


GOOD = np.ones((3, 2))
REFUSED = {
    "no factors": ((None, []), r"at least one factor matrix"),
    "rank 0": (([], [np.ones((3, 0))]), r"rank 1 or more.*\(3, 0\)"),
    "ranks differ": ((None, [GOOD, np.ones((4, 3))]), r"factors\[1\] has 3"),
    "vector factor": ((None, [np.ones(3)]), r"factors\[0\].*shape \(3,\)"),
    "3-way factor": ((None, [GOOD, np.ones((3, 2, 1))]), r"factors\[1\].*shape \(3, 2, 1\)"),
    "matrix weights": ((np.ones((2, 1)), [GOOD]), r"weights.*shape \(2, 1\)"),
    "scalar weights": ((1.0, [GOOD]), r"weights.*shape \(\)"),
    "too few weights": (([1.0], [GOOD]), r"weights.*2.*has 1"),
    "nan": (([1.0, np.nan], [GOOD]), r"weights.*entry \(1,\) is nan"),
    "inf": ((None, [GOOD, [[1.0, 2.0], [-np.inf, 0.0]]]), r"factors\[1\].*\(1, 0\) is -inf"),
    "complex": ((None, [GOOD * 1j]), r"real numbers.*complex128"),
    "strings": ((["a", "b"], [GOOD]), r"real numbers.*<U1"),
    "objects": ((None, [GOOD.astype(object)]), r"real numbers.*object"),
    "ragged": ((None, [[[1.0, 2.0], [1.0]]]), r"factors\[0\] needs to be an array"),
    "dates": ((None, [GOOD.astype("M8[D]")]), r"real numbers.*datetime64"),
    "label modes": ((None, [GOOD], [None, None]), r"one entry per mode, 1, but has 2"),
    "label rows": ((None, [GOOD], [("a", "b")]), r"labels\[0\].*3, but has 2"),
    "label kind": ((None, [GOOD], [("a", "b", 3)]), r"labels\[0\]\[2\] is 3"),
    "label string": ((None, [GOOD], ["abcd"]), r"labels\[0\].*3, but has 4"),
}


@pytest.mark.parametrize(("given", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_parts_are_refused_with_their_place(given, message):
    with pytest.raises(DataError, match=message):
        KTensor(*given)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([[0, 0, 0]], r"\(n, 2\).*shape \(1, 3\)"),
        ([0, 0], r"\(n, 2\).*shape \(2,\)"),
        ([[0.0, 1.0]], r"float64"),
        ([["0", "1"]], r"<U1"),
        ([[0, 0], [1, 4]], r"row 1 has 4 in mode 1"),
        ([[-1, 0]], r"row 0 has -1 in mode 0"),
    ],
)
def test_bad_indices_are_refused_with_their_place(index, message):
    with pytest.raises(DataError, match=message):
        random_ktensor((3, 4), 2).values(index)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda k: k.inner(np.ones((4, 3))), r"\(3, 4\).*\(4, 3\)"),
        (lambda k: k.inner(random_ktensor((3,), 1)), r"\(3, 4\).*\(3,\)"),
        (lambda k: k.score(random_ktensor((3, 5), 2)), r"\(3, 4\).*\(3, 5\)"),
        (lambda k: k.normalize(norm=3), "norm.*3"),
        (lambda k: k.normalize(into=2), "into.*2"),
        (lambda k: k.normalize(into="time"), "into.*'time'"),
        (lambda k: k.arrange([0, 2]), r"0 to 1.*\[0, 2\]"),
        (lambda k: k.arrange([0, 0]), r"\[0, 0\]"),
        (lambda k: k.arrange([-1]), r"\[-1\]"),
        (lambda k: k.arrange([]), "component numbers"),
        (lambda k: k.arrange([0.5]), "component numbers"),
        (lambda k: k.permute([0]), r"\[0\]"),
        (lambda k: k.permute([0, 0]), r"\[0, 0\]"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(DataError, match=message):
        call(random_ktensor((3, 4), 2))

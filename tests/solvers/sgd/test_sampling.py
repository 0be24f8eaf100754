"""Sampling rules: unbiased for every loss and sampler, and honest at the edges."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.kernels import random
from onlinegcp.kernels.layout import pad_vector, stack_factors
from onlinegcp.kernels.sgd import cpu
from onlinegcp.losses import LOSS_NAMES, get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.sgd.sampling import Sampler, get_sampler

SAMPLERS = {
    "uniform": Sampler("uniform", 9),
    "stratified": Sampler("stratified", 4, 5),
    "stratified, all listed": Sampler("stratified", 100, 5),
    "stratified, all zeros": Sampler("stratified", 4, 100),
    "semi_stratified": Sampler("semi_stratified", 4, 5),
    "all": Sampler("all"),
}
SHAPE, RANK = (4, 3, 2), 2
DRAWS = 800


def fits(loss, value):
    try:
        loss.check(np.array([value]))
    except DataError:
        return False
    return True


def slice_for(loss, density):
    """A slice of admissible data; with unlisted zeros where the loss allows zeros."""
    rng = np.random.default_rng(3)
    values = [v for v in (0.5, 1.0, 2.0, 3.0) if fits(loss, v)]
    mask = rng.random(SHAPE) < density
    unlisted = "missing" if loss.zero_shape is None else "zero"
    return Slice(np.argwhere(mask), rng.choice(values, int(mask.sum())), SHAPE, unlisted=unlisted)


def start():
    rng = np.random.default_rng(4)
    return stack_factors([rng.random((n, RANK)) + 0.2 for n in SHAPE]), pad_vector(
        rng.random(RANK) + 0.5
    )


def exact_gradient(x, blocks, weights, loss, cell_weights):
    """Gradient of the whole slice's loss, from dense arrays."""
    a, b, c = blocks.views()
    w = weights[:RANK]
    m = np.einsum("r,ir,jr,kr->ijk", w, a, b, c)
    data = x.to_dense()
    seen = ~np.isnan(data)
    y = np.zeros(SHAPE)
    y[seen] = loss.deriv(data[seen], m[seen])
    y = y * cell_weights
    return np.concatenate(
        [
            np.einsum("ijk,r,jr,kr->ir", y, w, b, c).ravel(),
            np.einsum("ijk,r,ir,kr->jr", y, w, a, c).ravel(),
            np.einsum("ijk,r,ir,jr->kr", y, w, a, b).ravel(),
            np.einsum("ijk,ir,jr,kr->r", y, a, b, c),
        ]
    )


def sampled_gradients(x, sampler, blocks, weights, loss, row_weights, draws=DRAWS):
    plan = sampler.plan(x)
    cells = cpu.prepare_cells(x, plan)
    for draw in range(draws):
        key = random.iteration_key_int(random.stream_key(0, 0, 1), draw)
        sample = cpu.draw_sample(cells, plan, key, row_weights)
        m = cpu.model_values(blocks, weights, sample.index)
        y = cpu.sample_slopes(sample, m, loss.deriv)
        gradient, weights_gradient = cpu.scatter_gradient(blocks, weights, sample.index, y)
        views = [view.ravel() for view in gradient.views()]
        yield np.concatenate([*views, weights_gradient[:RANK]])


@pytest.mark.parametrize("density", [0.3, 0.8])
@pytest.mark.parametrize("kind", list(SAMPLERS))
@pytest.mark.parametrize("name", LOSS_NAMES)
def test_the_mean_of_many_sampled_gradients_is_the_exact_gradient(name, kind, density):
    loss = get_loss(name)
    x = slice_for(loss, density)
    blocks, weights = start()
    row_weights = np.array([0.5, 2.0]) if density > 0.5 else np.ones(2)
    exact = exact_gradient(x, blocks, weights, loss, row_weights)
    draws = 1 if kind == "all" else DRAWS // 4 if name != "poisson" else DRAWS
    found = np.array(
        list(sampled_gradients(x, SAMPLERS[kind], blocks, weights, loss, row_weights, draws))
    )
    error = found.std(axis=0) / np.sqrt(max(1, draws - 1))
    off = np.abs(found.mean(axis=0) - exact)
    assert (off <= 4 * error + 1e-9 * np.abs(exact).max()).all()


@pytest.mark.parametrize("spread", [False, True])
def test_every_cell_of_a_stratum_is_drawn_equally_often(spread):
    from dataclasses import replace

    x = slice_for(get_loss("poisson"), 0.4)
    for sampler in (SAMPLERS["stratified"], SAMPLERS["uniform"], SAMPLERS["semi_stratified"]):
        plan = sampler.plan(x)
        plan = replace(plan, strata=tuple(replace(s, spread=spread) for s in plan.strata))
        cells = cpu.prepare_cells(x, plan)
        for at, stratum in enumerate(plan.strata):
            first = sum(s.count for s in plan.strata[:at])
            counts = np.zeros(x.size)
            n = 1200
            for key in range(n):
                index = cpu.draw_sample(cells, plan, random.stream_key(key, 0, 0)).index
                own = index[first : first + stratum.count]
                counts += np.bincount(np.ravel_multi_index(tuple(own.T), SHAPE), minlength=x.size)
            expected = n / stratum.weight  # each cell of the stratum counts for 1 on average
            hit = counts > 0
            # Spread draws vary less than independent ones, whose variance is about the mean.
            assert np.abs(counts[hit] - expected).max() < 5 * np.sqrt(expected)
            assert counts.sum() == n * stratum.count


def test_spread_draws_vary_less_than_independent_ones():
    from dataclasses import replace

    loss = get_loss("poisson")
    x = slice_for(loss, 0.4)
    blocks, weights = start()

    class Independent(Sampler):
        def plan(self, x):
            plan = super().plan(x)
            return replace(plan, strata=tuple(replace(s, spread=False) for s in plan.strata))

    spread, independent = (
        np.array(list(sampled_gradients(x, s, blocks, weights, loss, None, 300))).var(axis=0).sum()
        for s in (Sampler("stratified", 4, 5), Independent("stratified", 4, 5))
    )
    assert spread < independent


def weights_by_stratum(plan):
    return [stratum.count * stratum.weight for stratum in plan.strata]


@pytest.mark.parametrize("kind", ["uniform", "stratified", "semi_stratified", "all"])
def test_an_empty_slice_has_zeros_only(kind):
    x = Slice(np.zeros((0, 2), int), [], (3, 4))
    plan = Sampler(kind, 5, 5).plan(x) if kind != "all" else Sampler(kind).plan(x)
    sample = cpu.draw_sample(cpu.prepare_cells(x, plan), plan, 0)
    assert not sample.value.any()
    assert sum(weights_by_stratum(plan)) == pytest.approx(12)


@pytest.mark.parametrize("kind", ["uniform", "stratified", "semi_stratified", "all"])
def test_an_empty_slice_without_zeros_has_nothing_to_draw(kind):
    x = Slice(np.zeros((0, 2), int), [], (3, 4), unlisted="missing")
    assert Sampler(kind).plan(x).count == 0


@pytest.mark.parametrize("kind", ["uniform", "stratified", "all"])
@pytest.mark.parametrize("dense", [False, True])
def test_a_full_slice_has_listed_cells_only(kind, dense):
    array = np.arange(1.0, 13.0).reshape(3, 4)
    x = Slice.dense(array) if dense else Slice(np.argwhere(array), array.ravel(), (3, 4))
    assert x.n_unlisted_zeros == 0
    plan = Sampler(kind, 7, 7).plan(x)
    sample = cpu.draw_sample(cpu.prepare_cells(x, plan), plan, 0)
    np.testing.assert_array_equal(sample.value, array[tuple(sample.index.T)])
    assert sum(weights_by_stratum(plan)) == pytest.approx(12)


@pytest.mark.parametrize("n_zeros", [1, 5])
def test_the_one_zero_that_is_left_is_found(n_zeros):
    mask = np.ones((40, 50), bool)
    mask[17, 33] = False
    x = Slice(np.argwhere(mask), np.ones(1999), (40, 50))
    plan = Sampler("stratified", 10, n_zeros).plan(x)
    sample = cpu.draw_sample(cpu.prepare_cells(x, plan), plan, 0)
    assert sample.index[sample.value == 0].tolist() == [[17, 33]]
    assert sample.weight[sample.value == 0].tolist() == [1.0]


def test_rare_zeros_are_drawn_without_rejection():
    rng = np.random.default_rng(0)
    mask = rng.random((40, 50)) < 0.99
    x = Slice(np.argwhere(mask), np.ones(int(mask.sum())), (40, 50))
    plan = Sampler("stratified", 10, 5).plan(x)
    sample = cpu.draw_sample(cpu.prepare_cells(x, plan), plan, 0)
    zeros = sample.index[sample.value == 0]
    assert len(zeros) == 5
    assert not mask[tuple(zeros.T)].any()


def test_modes_of_length_one_and_a_single_cell():
    x = Slice([[0, 0, 0]], [2.0], (1, 1, 1))
    for kind in ("uniform", "stratified", "semi_stratified", "all"):
        plan = Sampler(kind, 3, 3).plan(x)
        sample = cpu.draw_sample(cpu.prepare_cells(x, plan), plan, 0)
        assert (sample.index == 0).all()


def test_a_slice_with_more_cells_than_32_bits_count_keeps_its_total_weight():
    x = Slice([[0, 5, 9]], [2.0], (100_000, 100_000, 1_000))
    plan = Sampler("stratified", 10, 1000).plan(x)
    sample = cpu.draw_sample(cpu.prepare_cells(x, plan), plan, 0)
    assert sample.weight.sum() == pytest.approx(1e13)
    with pytest.raises(DataError, match=r"2\^40"):
        Sampler("all").plan(x)


def test_default_sizes_follow_the_slice():
    sparse = Slice(np.argwhere(np.eye(2000)), np.ones(2000), (2000, 2000))
    sized = Sampler("stratified").for_gradient(sparse, 2)
    assert (sized.n_listed, sized.n_zeros) == (3000, 3000)
    assert Sampler("stratified").for_gradient(sparse, 1000).n_listed == 1000
    assert Sampler("stratified", n_zeros=7).for_objective(sparse).n_listed == 100_000
    assert Sampler("stratified", n_zeros=7).for_objective(sparse).n_zeros == 7
    dense = Slice.dense(np.ones((50, 60)))
    assert Sampler("uniform").for_gradient(dense, 10).n_listed == 3000
    assert Sampler("uniform").for_objective(dense).n_listed == 3000


def test_the_default_rule_is_stratified_where_there_are_zeros():
    assert get_sampler(None, Slice([[0]], [1.0], (4,))).kind == "stratified"
    assert get_sampler(None, Slice.dense(np.ones(4))).kind == "uniform"
    assert get_sampler("all", Slice.dense(np.ones(4))).kind == "all"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sampler("strat"), "kind must be one of"),
        (lambda: Sampler("stratified", 0), "n_listed must be a whole number"),
        (lambda: Sampler("stratified", 3, -1), "n_zeros must be"),
        (lambda: Sampler("stratified", 2.5), "2.5"),
        (lambda: Sampler("stratified", True), "True"),
        (lambda: Sampler("stratified", "many"), "many"),
        (lambda: get_sampler(3, Slice.dense(np.ones(4))), "must be a Sampler"),
    ],
)
def test_bad_options_are_refused(make, message):
    with pytest.raises(DataError, match=message):
        make()

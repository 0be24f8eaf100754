"""Parameters changed along a stream: those that say what the numbers mean are refused."""

import numpy as np
import pytest

from onlinegcp import SGD, DataError, Ensign, OnlineGCP, SeekAndDestroy, Slice, get_loss

RNG = np.random.default_rng(0)
COUNTS = [Slice.dense(RNG.poisson(3.0, (5, 4)) + 1.0) for _ in range(16)]

CHANGES = [
    ({"rank": 2}, {"rank": 3}),
    ({"rank": 2}, {"rank": "auto"}),
    ({"rank": "auto"}, {"rank": 2}),
    ({"loss": "gaussian"}, {"loss": "poisson"}),
    ({"loss": get_loss("huber", delta=1.0)}, {"loss": get_loss("huber", delta=9.0)}),
    ({"solver": "auto"}, {"solver": "sgd"}),
    ({"solver": SGD()}, {"solver": "auto"}),
    ({"lower": None}, {"lower": 0.0}),
    ({"scale": None}, {"scale": 0}),
]


@pytest.mark.parametrize("count", [3, 12], ids=["gathering", "learning"])
@pytest.mark.parametrize(("first", "then"), CHANGES, ids=str)
def test_what_the_numbers_depend_on_stays_and_the_model_goes_on_once_it_is_set_back(
    first, then, count, tmp_path
):
    options = {"rank": 2, "init_slices": 6, **first}
    model, through = OnlineGCP(**options), OnlineGCP(**options).fit(COUNTS)
    for x in COUNTS[:count]:
        model.partial_fit(x)
    model.set_params(**then)
    (name,) = then
    for use in (model.partial_fit, model.transform, model.score):
        with pytest.raises(DataError, match=rf"^{name} was .* Set it back .* fit"):
            use(COUNTS[count])
    with pytest.raises(DataError, match=f"^{name} was"):
        model.save(tmp_path / "model")
    model.set_params(**{name: options.get(name, "gaussian")})
    for x in COUNTS[count:]:
        model.partial_fit(x)
    np.testing.assert_array_equal(model.factors_[0], through.factors_[0])


@pytest.mark.parametrize(("first", "then"), CHANGES, ids=str)
def test_fit_begins_again_with_what_was_changed(first, then):
    options = {"rank": 2, "init_slices": 6, **first}
    changed = OnlineGCP(**options).fit(COUNTS).set_params(**then).fit(COUNTS)
    fresh = OnlineGCP(**{**options, **then}).fit(COUNTS)
    np.testing.assert_array_equal(changed.factors_[0], fresh.factors_[0])


def test_other_words_for_the_same_are_no_change():
    model = OnlineGCP(2, "poisson", solver=SGD(), init_slices=6).fit(COUNTS[:12])
    model.set_params(rank=np.int64(2), loss=get_loss("poisson"), lower=0.0, solver=SGD())
    assert model.partial_fit(COUNTS[12]).n_slices_ == 13


def test_what_acts_from_the_next_slice_on_may_change():
    model = OnlineGCP(2, solver=SGD(), init_slices=6).fit(COUNTS[:12])
    model.set_params(solver__factor_rate=0.01, n_jobs=1, init_slices=4)
    assert model.partial_fit(COUNTS[12]).n_slices_ == 13


@pytest.mark.parametrize("method", [SeekAndDestroy, Ensign])
def test_auto_is_a_rank_only_where_it_can_be_found(method):
    with pytest.raises(DataError, match="rank must be a whole number from 1 to 10,000, but got 'a"):
        method("auto").partial_fit(COUNTS[0])
    with pytest.raises(DataError, match="from 1 to 10,000 or 'auto', but got 0"):
        OnlineGCP(0).partial_fit(COUNTS[0])
    with pytest.raises(DataError, match="from 1 to 10,000 or 'auto', but got array"):
        OnlineGCP(np.array([1, 2])).partial_fit(COUNTS[0])


@pytest.mark.parametrize("names", [1, 0.5, object])
def test_mode_names_that_are_no_names_are_refused(names):
    with pytest.raises(DataError, match="mode_names must be a sequence of names"):
        OnlineGCP(2, mode_names=names).partial_fit(COUNTS[0])

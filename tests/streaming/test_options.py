"""Options of the streaming methods: what is out of range is refused by name, at once."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.slices import Slice
from onlinegcp.solvers.sgd.steps import Step
from onlinegcp.streaming import SGD, CPStream, OnlineCP, OnlineGCP, OnlineSGD
from onlinegcp.streaming.options import check_choice, check_number, check_whole

NUMBERS = {
    OnlineSGD: ("rate", "relative_rate", "decay", "ridge", "factor_penalty"),
    OnlineCP: ("forget",),
    CPStream: ("forget", "ridge", "tolerance", "max_passes", "nonnegative"),
}


@pytest.mark.parametrize(
    ("method", "name"), [(method, name) for method, names in NUMBERS.items() for name in names]
)
@pytest.mark.parametrize("junk", [None, "much", -1.0, np.nan, np.inf, [1.0], np.ones(2)], ids=repr)
def test_what_is_no_such_number_is_refused_by_name(method, name, junk):
    model = method(2, **{name: junk})
    with pytest.raises(DataError, match=rf"^{name} must be"):
        model.partial_fit(Slice.dense(np.ones((3, 2))))
    assert not hasattr(model, "n_slices_")


@pytest.mark.parametrize(
    ("interval", "inside", "outside"),
    [
        ("(0, 1]", (1e-300, 1, np.float32(0.5)), (0.0, 1.0001, -1)),
        ("[0, inf)", (0, 1e300), (-1e-300, np.inf)),
        ("[-inf, inf)", (-np.inf, 0), (np.inf, np.nan)),
    ],
)
def test_an_interval_has_the_ends_it_shows(interval, inside, outside):
    for number in inside:
        assert check_number("x", number, interval) == number
    for number in outside:
        with pytest.raises(DataError, match=r"x must be a number in"):
            check_number("x", number, interval)


def test_true_is_neither_a_number_nor_a_count():
    with pytest.raises(DataError, match="number"):
        check_number("x", True, "[0, 1]")
    with pytest.raises(DataError, match="whole number"):
        check_whole("x", True, 0)


def test_a_word_far_from_all_gets_no_suggestion():
    with pytest.raises(DataError, match=r"'a', 'b', but got 'xyz'\. Choose one of them"):
        check_choice("x", "xyz", ("a", "b"))


def test_a_step_with_constants_of_ones_own_is_saved(tmp_path):
    rng = np.random.default_rng(0)
    slices = [Slice.dense(rng.random((4, 3))) for _ in range(6)]
    quick = {"weight_epochs": 1, "factor_epochs": 1}
    own = SGD(step=Step("adam", beta_1=0.5, beta_2=0.9), **quick)
    model = OnlineGCP(2, solver=own, init_slices=3).fit(slices)
    usual = OnlineGCP(2, solver=SGD(**quick), init_slices=3).fit(slices)
    assert not np.array_equal(model.factors_[0], usual.factors_[0])
    model.save(tmp_path / "model")
    loaded = OnlineGCP.load(tmp_path / "model")
    assert loaded.solver.step == own.step
    for each in (model, loaded):
        each.partial_fit(slices[0])
    np.testing.assert_array_equal(model.factors_[0], loaded.factors_[0])

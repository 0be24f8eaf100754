"""Options of the streaming methods: what is out of range is refused by name, at once."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.slices import Slice
from onlinegcp.solvers.sgd.steps import Step
from onlinegcp.streaming import SGD, CPStream, OnlineCP, OnlineGCP, OnlineSGD

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

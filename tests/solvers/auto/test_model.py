"""Records with some fields changed, against what dataclasses make of them."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from onlinegcp.solvers.auto.model import Step, altered, told_by


@dataclass
class Open:
    a: int = 1
    b: str = "b"


@pytest.mark.parametrize(
    ("record", "changes"),
    [
        (Open(), {"a": 5}),
        (Step(np.zeros(2), 1.0, 2.0, 3, np.ones(2), births=4), {"local": 7.0, "order": (1, 0)}),
    ],
)
def test_a_record_is_altered_as_dataclasses_replace_it(record, changes):
    before, expected = dict(vars(record)), replace(record, **changes)
    found = altered(record, **changes)
    assert type(found) is type(record)
    assert vars(found) == vars(expected)
    assert vars(record) == before


def test_a_gain_that_is_no_number_tells_a_trial_nothing():
    np.testing.assert_array_equal(told_by(-3.0), [1.0, -3.0, 9.0])
    np.testing.assert_array_equal(told_by(np.nan), [1.0, 0.0, 0.0])
    worst = told_by(-np.inf)
    assert worst[1] < -1e100
    assert np.isfinite(worst).all()

"""What every method, loss and solver gave before is what it gives now."""

from __future__ import annotations

import json

import numpy as np
import pytest

from recorded import results

pytestmark = pytest.mark.slow

# Another processor or another NumPy rounds differently; after a dozen slices that is all.
ELSEWHERE = {"rtol": 1e-6, "atol": 1e-9}


@pytest.fixture(scope="module")
def before():
    with np.load(results.FILE) as file:
        return dict(file)


def test_nothing_changed_by_a_bit(before):
    now = results.collect()
    _compare(now, before, str(before["machine"]) == results.machine())
    recorded = {name for name in before if not name.startswith("trial.")} - {"machine"}
    assert set(now) == recorded


def test_components_on_trial_are_replaced_as_before(before):
    same = str(before["machine"]) == results.machine()
    if not same:
        pytest.skip("a trial's outcome may differ by rounding on another processor")
    _compare(results.trials(), before, same)


def _compare(now, before, same_machine):
    for name, array in now.items():
        if name.startswith(("run.", "page.")):
            ours, theirs = (json.loads(part.tobytes()) for part in (array, before[name]))
            assert _alike(ours, theirs, same_machine), name
        elif same_machine:
            assert array.tobytes() == before[name].tobytes(), name
        else:
            np.testing.assert_allclose(array, before[name], **ELSEWHERE, err_msg=name)


def _alike(ours, theirs, same):
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(_alike(ours[k], theirs[k], same) for k in ours)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(_alike, ours, theirs, [same] * len(ours)))
    if not same and isinstance(ours, float) and isinstance(theirs, int | float):
        return bool(np.isclose(ours, theirs, rtol=1e-4, atol=1e-6))
    return ours == theirs

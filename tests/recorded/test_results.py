"""What every method, loss and solver gave before is what it gives now."""

from __future__ import annotations

import numpy as np
import pytest

from recorded import results

pytestmark = pytest.mark.slow

# Another kind of processor or another NumPy rounds differently. After a dozen slices that is all,
# where a model begins with a fit that forgets its rounding; others begin elsewhere.
ELSEWHERE = {"rtol": 1e-6, "atol": 1e-9}
STEADY = tuple(
    f"{kind}.{loss}."
    for kind in ("auto", "missing", "grown", "half_life", "bounded", "static")
    for loss in ("gaussian", "poisson", "cp_als", "cp_apr", "gcp")
)


def test_nothing_changed_by_a_bit():
    with np.load(results.FILE) as file:
        before = dict(file)
    now = results.computed()
    assert set(now) == set(before)
    same_machine = str(before.pop("machine")) == str(now.pop("machine"))
    if same_machine:
        for name, array in now.items():
            assert array.tobytes() == before[name].tobytes(), name
        return
    compared = [name for name in now if name.startswith(STEADY)]
    assert len(compared) > 50
    for name in compared:
        np.testing.assert_allclose(now[name], before[name], **ELSEWHERE, err_msg=name)

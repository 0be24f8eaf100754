"""States stored by earlier versions are read, and go on to the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import solver as auto
from onlinegcp.solvers.auto.state import from_dict
from recorded import results

# Written while histories not in use were stored as empty arrays, each with a trial running.
FILE = Path(__file__).with_name("states.npz")
MADE_ON = "x86_64 znver avx512 SkylakeX 2.4.6 0.68.1"


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("poisson", "poisson.None.False"),
        ("gaussian", "gaussian.None.False"),
        ("gaussian", "gaussian.0.0.True"),
        ("huber", "huber.0.0.False"),
    ],
)
def test_a_state_stored_before_goes_on_as_it_did(name, case):
    with np.load(FILE) as file:
        found = {key.removeprefix(f"{case}/"): file[key] for key in file if key.startswith(case)}
    flat = {key.removeprefix("state/"): v for key, v in found.items() if key.startswith("state/")}
    state, loss = from_dict(flat), get_loss(name)
    for k in range(3):
        state, step = auto.step(state, Slice.dense(found[f"slice{k}"]), loss)
        told = np.array([step.prequential, step.local, *step.weights[:2]])
        if results.machine() == MADE_ON:
            np.testing.assert_array_equal(told, found[f"told{k}"])
        else:
            np.testing.assert_allclose(told, found[f"told{k}"], rtol=1e-6)

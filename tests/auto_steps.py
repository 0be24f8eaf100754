"""Steps of the default solver, several at a time."""

from __future__ import annotations

import numpy as np

from onlinegcp.solvers.auto import forgetting
from onlinegcp.solvers.auto import solver as auto
from onlinegcp.solvers.auto.model import Model


def learn(state, slices, loss, **options):
    """The state after some slices, and the account of each."""
    done = []
    for x in slices:
        state, step = auto.step(state, x, loss, **options)
        done.append(step)
    return state, done


def model_of(blocks, past, forget="auto", *, bounded=False):
    """A model around factors and a past."""
    memory = forgetting.start(forget, blocks.width, 1.0)
    none = np.zeros(blocks.width)
    return Model(blocks, memory, past, none, none.copy(), none.copy(), bounded)

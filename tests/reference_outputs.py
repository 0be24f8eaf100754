"""Numbers that the authors' own codes gave on fixed small inputs (tests/reference)."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from onlinegcp.ktensor import KTensor

FOLDER = Path(__file__).parent / "reference"


@lru_cache
def stored(name):
    """Arrays of one file by name; slices are the last axis of the data in `inputs`."""
    with np.load(FOLDER / f"{name}.npz") as file:
        return {key: file[key] for key in file.files}


def gap(model, factors, weights):
    """Distance of a model's newest slice from the authors', relative, free of scaling."""
    theirs = KTensor(weights, factors).full()
    return np.linalg.norm(model.to_ktensor().full() - theirs) / np.linalg.norm(theirs)

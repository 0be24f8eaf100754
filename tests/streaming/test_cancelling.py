"""Pairs of signed patterns that cancel: held back by the solver, noticed and told."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from onlinegcp.errors import CancellingWarning
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.streaming import OnlineGCP
from onlinegcp.streaming.cancelling import cancelling_pair
from onlinegcp.streaming.state import ModelState


def limit_stream(seed, noise=0.001, count=80):
    """a d' + b c' with a multiple of a c': approached by two components, reached by none."""
    rng = np.random.default_rng(seed)
    (a, b), (c, d) = (np.linalg.qr(rng.standard_normal((n, 2)))[0].T for n in (12, 9))
    level = 0.3 * np.cumsum(rng.standard_normal(count))
    for t in range(count):
        pattern = np.outer(a, d) + np.outer(b, c) + level[t] * np.outer(a, c)
        yield Slice.dense(10.0 * (pattern + noise * rng.standard_normal((12, 9))))


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.filterwarnings("ignore::onlinegcp.errors.CancellingWarning")
def test_pairs_are_held_back_however_little_noise_there_is(seed, rank):
    model, losses = OnlineGCP(rank), []
    for x in limit_stream(seed):
        model.partial_fit([x])
        if model.last_ is not None:
            losses.append(model.last_.prequential / model.last_.norm_squared)
    sizes = model.weights_ * np.prod([np.linalg.norm(a, axis=0) for a in model.factors_], axis=0)
    assert np.abs(sizes).max() < 6.0 * np.sqrt(x.norm_squared)
    assert np.mean(losses[20:]) < 0.01


def pair(sign, size, angle=0.01):
    a = np.array([[1.0, np.cos(angle)], [0.0, np.sin(angle)]])
    return ModelState((a, a), np.array([size, sign * size]), np.zeros(2))


def test_a_pair_is_one_that_cancels():
    assert cancelling_pair(pair(-1.0, 100.0)) == (0, 1)
    assert cancelling_pair(pair(1.0, 100.0)) is None  # the same twice adds up
    assert cancelling_pair(pair(-1.0, 100.0, angle=0.7)) is None  # different ones
    scaled = ModelState(
        (pair(-1.0, 1.0).factors[0] * [5.0, 0.1],) * 2, np.array([4.0, -1e4]), np.zeros(2)
    )
    assert cancelling_pair(scaled) == (0, 1)  # whatever the length of the columns


def test_it_is_told_once_and_not_under_a_bound():
    a = np.array([[1.0, 1.0], [0.0, 0.02], [0.0, 0.0]])
    rng = np.random.default_rng(0)
    stream = [
        Slice.dense((a * [40.0, -40.0 + rng.standard_normal()]) @ a.T + 0.01 * rng.random((3, 3)))
        for _ in range(70)
    ]
    model = OnlineGCP(2, init=KTensor([40.0, -40.0], [a, a]), forget=1.0)
    with pytest.warns(CancellingWarning, match="components 1 and 2 are almost") as told:
        model.partial_fit(stream)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OnlineGCP(2, lower=0.0).fit(stream)

"""Slices drawn from a streaming model whose factors are known, for tests of its scores."""

from __future__ import annotations

import math

import numpy as np

from onlinegcp.ktensor import KTensor
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.streaming import OnlineGCP


class World:
    """A model with known factors, and slices drawn from it."""

    def __init__(self, name, shape=(7, 5), rank=2, total=30.0, seed=0, missing=0.0, spread=0.05):
        self.rng = np.random.default_rng(seed)
        self.loss = get_loss(name)
        self.missing, self.spread = missing, spread
        if math.isinf(self.loss.lower):
            factors = [self.rng.normal(size=(n, rank)) for n in shape]
            weights = np.linspace(0.8, 1.2, rank)
        else:
            factors = [self.rng.dirichlet(np.full(n, 0.5), rank).T for n in shape]
            weights = self.rng.gamma(3.0, 1.0, rank)
            weights *= total / weights.sum()
        self.weights = weights
        self.model = OnlineGCP(rank, name, init=KTensor(weights, factors))
        self.factors = factors
        self.model.partial_fit(self.draw())
        # One slice has been learned: what the model believes now is the truth from here on.
        self.factors = self.model.factors_
        lengths = [np.linalg.norm(a, axis=0) / np.linalg.norm(b, axis=0)
                   for a, b in zip(factors, self.factors, strict=True)]  # fmt: skip
        self.weights = weights * np.prod(lengths, axis=0)

    def draw(self, times=1.0):
        shape = 1.0 / self.spread
        row = self.weights * times * self.rng.gamma(shape, 1.0 / shape, len(self.weights))
        x = self.loss.sample(self.rng, KTensor(row, self.factors).full())
        if self.missing:
            x[self.rng.random(x.shape) < self.missing] = np.nan
        if self.missing or self.loss.zero_shape is None or math.isinf(self.loss.lower):
            return Slice.dense(x)
        index = np.argwhere(x)
        return Slice(index, x[tuple(index.T)], x.shape)

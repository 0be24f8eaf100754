"""The paper's solver: sampled gradients, steps, and a history of past slices."""

from __future__ import annotations

from onlinegcp.solvers.sgd.solve import SgdResult, SgdSettings, solve_sgd

__all__ = ["SgdResult", "SgdSettings", "solve_sgd"]

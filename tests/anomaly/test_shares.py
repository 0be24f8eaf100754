"""Shares of rows: what they tell of the total where labels come and go."""

from __future__ import annotations

import numpy as np

from onlinegcp.anomaly.shares import RowShares


def test_rows_that_are_never_seen_again_do_not_eat_up_the_total():
    # Ten members who stay, and twenty in every slice who come once: after two hundred slices four
    # thousand rows are known, each of which might have half an event.
    rng, shares = np.random.default_rng(0), RowShares()
    for t in range(200):
        sums = np.concatenate([rng.poisson(40.0, 10), np.zeros(20 * t), np.ones(20)]).astype(float)
        seen = shares.judge(sums)
        if t > 20:
            known = float(sums[: seen.n_known].sum())
            assert abs(seen.total - known) < 0.05 * known
            assert abs(seen.forecast[:10].sum() - known) < 0.1 * known
        shares.learn(seen)

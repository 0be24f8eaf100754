"""What to learn from a flagged slice: the rows that are odd as they usually are, the rest as it is.

A slice left out altogether would let the model age, and one learned whole would teach it the
anomaly. So the events of an odd row are scaled to the row's forecast: a surge is cut down, a row
that is new is left out, and one that lost events is filled up as far as what is left of it allows.
"""

from __future__ import annotations

import numpy as np

from onlinegcp.anomaly.score import Anomaly
from onlinegcp.slices import Slice

MOST = 3.0  # times as many: the few events left of a row do not tell where all of them would be


def held_back(x: Slice, anomaly: Anomaly) -> Slice:
    """The slice with its odd rows scaled to their forecasts.

    Parameters
    ----------
    x
        The slice.
    anomaly
        What `score_slice` found.

    Returns
    -------
    The same slice where no row is odd, or data do not add up.
    """
    if not anomaly.counted or x.n_observed < x.size:
        return x
    scale = np.ones(len(x.value))
    for k, odd in enumerate(anomaly.odd_rows):
        if len(odd):
            seen = anomaly.verdict.rows[k]
            ratio = np.ones(len(seen.observed))
            usual = np.where(odd >= seen.n_known, 0.0, seen.forecast[odd])
            ratio[odd] = np.clip(usual / np.maximum(seen.observed[odd], 1e-12), 0.0, MOST)
            scale *= ratio[x.index[:, k]]
    if (scale == 1.0).all():
        return x
    return Slice(x.index, x.value * scale, x.shape, time=x.time, unlisted=x.unlisted)

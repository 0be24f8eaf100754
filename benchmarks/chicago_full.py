"""The whole Chicago stream, 5,687 days, yes or no, rank 50, by the default solver on one core.

Times are of `partial_fit`, first the static fit of the warm start, then all days after it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.records import Row
from benchmarks.timing import clock

RANK = 50


def run(*, quick: bool = False) -> Iterator[Row]:
    """Seconds of the stream, of the warm start and of both."""
    from experiments.data import chicago
    from experiments.streams import data_folder

    from onlinegcp.streaming import OnlineGCP

    slices = chicago(data_folder(), 300 if quick else None)
    model = OnlineGCP(RANK, "bernoulli_odds")
    begin = clock()
    for x in slices[: model.init_slices]:
        model.partial_fit(x)
    warm = clock() - begin
    losses = []
    begin = clock()
    for x in slices[model.init_slices :]:
        model.partial_fit(x)
        assert model.last_ is not None
        losses.append(model.last_.prequential / (model.last_.norm_squared or 1.0))
    stream = clock() - begin
    count = len(slices) - model.init_slices
    each = f"{count:,} days, {1e3 * stream / count:.1f} ms each"
    loss = f"prequential loss {np.mean(losses):.5f}"
    for method, seconds, target, words in (
        ("stream", stream, "<= 180", loss),
        ("warm start", warm, "", f"{model.init_slices} days, best of {model.init_starts}"),
        ("both", stream + warm, "<= 180", ""),
    ):
        values = (seconds, seconds, seconds)
        yield Row("chicago_full", method, *values, "s", words, target=target, note=each)

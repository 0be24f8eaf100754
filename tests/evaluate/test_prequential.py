"""Judged, then learned: rows of frames are where the model has them, in either step."""

import numpy as np
import pandas as pd
import pytest

from onlinegcp import OnlineGCP
from onlinegcp.evaluate import prequential

COUNTS = np.random.default_rng(6).poisson([[90.0, 4.0], [3.0, 20.0], [8.0, 8.0]], (9, 3, 2))


@pytest.mark.parametrize("turn", [lambda x: x, lambda x: x.iloc[::-1], lambda x: x[["v", "u"]]])
def test_frames_are_judged_and_learned_by_their_labels(turn):
    frames = [pd.DataFrame(x, index=list("abc"), columns=list("uv")) for x in COUNTS]
    frames = [turn(frame) if t % 2 else frame for t, frame in enumerate(frames)]
    model, by_hand = (OnlineGCP(1, "poisson", ndim=2, init_slices=4) for _ in range(2))
    turns = list(prequential(model, iter(frames), lambda number, x: model.loss_of(x)))
    for count, one in zip(COUNTS, turns, strict=True):
        np.testing.assert_array_equal(one.x.to_dense(), count)
        if one.verdict is not None:
            assert one.verdict == by_hand.loss_of(count)
        by_hand.partial_fit(count)
    assert [one.verdict is None for one in turns] == [True] * 4 + [False] * 5
    assert model.row_labels_ == (("a", "b", "c"), ("u", "v"))
    np.testing.assert_array_equal(model.factors_[0], by_hand.factors_[0])


def test_lists_of_numbers_are_slices():
    model = OnlineGCP(1, "poisson", init_slices=4)
    turns = list(prequential(model, COUNTS[:, :, 0].tolist()))
    assert [one.x.shape for one in turns] == [(3,)] * 9
    assert model.n_slices_ == 9

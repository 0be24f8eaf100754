"""The newest slices: bounded whatever comes, and the same numbers once stored."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.forecasting.recent import FEW, LARGE, LARGEST, MOST, SMALL, Recent
from onlinegcp.slices import Slice


def sized(n: int, high: int = 9) -> Slice:
    values = np.full(n, 1.0)
    values[0] = high
    return Slice(np.arange(n)[:, None], values, (max(n, 10),))


@pytest.mark.parametrize(
    ("listed", "kept"),
    [(3, MOST), (SMALL // 50, 50), (LARGE // 10, 10), (SMALL // 5, FEW), (LARGEST + 1, 0)],
)
def test_few_large_slices_are_kept_and_many_small_ones(listed, kept):
    recent, x = Recent(), sized(listed)
    for _ in range(kept + 12):
        recent = recent.after(x)
    assert len(recent) == kept


def test_all_that_is_kept_has_room_and_nothing_more_would_have():
    rng = np.random.default_rng(3)
    mixed = [1, 2, 400, 3_000, LARGEST, LARGEST + 1]
    sizes = rng.choice(mixed, 300, p=[0.3, 0.3, 0.3, 0.08, 0.01, 0.01])
    sizes[50:54], sizes[-130:] = LARGEST + 1, 2
    slices = [sized(int(n)) for n in sizes]
    recent, at, seen = Recent(), 0, set()
    while at < len(slices):
        new = slices[at : at + int(rng.integers(1, 5))]
        recent, at = recent.after(*new), at + len(new)
        until = list(sizes[:at])
        # From the newest back, as many as each has room with all that are newer.
        room = [
            n <= LARGEST and k < MOST and sum(until[-k - 1 :]) <= (LARGE if k < FEW else SMALL)
            for k, n in enumerate(reversed(until))
        ]
        count = room.index(False) if False in room else at
        seen.add(count)
        assert [len(x.value) for x in recent.slices] == until[at - count :]
        assert recent.listed == sum(until[at - count :])
        # Resumed, it lets go of the same slices.
        assert Recent.of(recent.to_arrays()).listed == recent.listed
    assert {0, MOST} < seen


def test_a_slice_too_large_ends_what_came_before():
    """Otherwise slices would no longer be those of the last weights."""
    recent = Recent().after(sized(4)).after(sized(LARGEST + 1)).after(sized(5))
    assert [len(x.value) for x in recent.slices] == [5]


def test_numbers_are_those_of_the_slices_and_a_stored_copy_goes_on_as_the_original():
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(3, 300))
    dense[1, 2] = np.nan
    given = [
        Slice([[2, 0], [0, 299]], [70_000, 3], (3, 300)),
        Slice.dense(np.arange(900.0).reshape(3, 300)),
        Slice.dense(dense),
        Slice([[1, 1]], [-1e40], (3, 300)),
        Slice([[1, 1]], [2**32], (3, 300)),
        Slice([[1, 1]], [2**40], (3, 300)),
    ]
    recent = Recent()
    for x in given:
        recent = recent.after(x)
    for x, kept in zip(given, recent.slices, strict=True):
        assert (kept.index == x.index).all()
        np.testing.assert_allclose(kept.value, x.value, rtol=1e-7)
        assert kept.whole == (x.unlisted == "zero")
    again = Recent.of(recent.to_arrays())
    few = Slice([[0, 0]], [1], (3, 300))
    for _ in range(MOST - 1):  # those with long numbers leave, and types become short again
        recent, again = recent.after(few), again.after(few)
        ours, theirs = recent.to_arrays(), again.to_arrays()
        assert all((ours[n] == theirs[n]).all() for n in ours)
        assert [a.dtype for a in ours.values()] == [a.dtype for a in theirs.values()]
    assert recent.to_arrays()["value"].nbytes == again.to_arrays()["value"].nbytes


def test_several_slices_at_once_are_kept_as_one_after_the_other():
    rng = np.random.default_rng(4)
    sizes = [300, 20_000, LARGEST + 1, *rng.integers(1, 3000, 150).tolist()]
    slices = [
        Slice(np.arange(n, dtype=np.int32)[:, None], rng.integers(1, 9, n).astype(float), (n,))
        for n in sizes
    ]
    written_out = (rng.integers(0, 9, 20), rng.normal(size=20), 2.0**32 * np.eye(1, 20)[0])
    slices += [Slice.dense(x) for x in written_out]
    for first, last in ((0, 2), (1, 5), (3, 153), (0, 153), (153, 156)):
        singly = Recent().after(slices[0])
        for x in slices[first:last]:
            singly = singly.after(x)
        at_once = Recent().after(slices[0]).after(*slices[first:last])
        ours, theirs = at_once.to_arrays(), singly.to_arrays()
        assert ours.keys() == theirs.keys()
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
        shorter = at_once.without_last()
        assert shorter == Recent(at_once.slices[:-1], sum(len(x.value) for x in shorter.slices))

"""Fingerprints of arrays: the same for the same, and another after any change."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.sums import fingerprint as module
from onlinegcp.sums.fingerprint import fingerprint


@pytest.mark.parametrize("n", [0, 1, 5, 63, 64, 65, 1000])
@pytest.mark.parametrize("kind", [np.float64, np.int32, np.uint8])
def test_any_bit_that_changes_is_noticed(monkeypatch, n, kind):
    monkeypatch.setattr(module, "_BLOCK", 64)
    module._odd_numbers.cache_clear()
    rng = np.random.default_rng(n)
    array = (rng.random(n) * 100).astype(kind)
    first = fingerprint(array)
    assert fingerprint(array.copy()) == first
    assert fingerprint(np.repeat(array, 2)[::2]) == first  # whatever the strides
    content = array.view(np.uint8)
    for place in rng.integers(0, max(1, 8 * len(content)), min(200, 8 * len(content))):
        content[place // 8] ^= np.uint8(1 << (place % 8))
        assert fingerprint(array) != first
        content[place // 8] ^= np.uint8(1 << (place % 8))
    assert fingerprint(array) == first
    module._odd_numbers.cache_clear()


def test_places_kinds_and_round_numbers_are_told_apart():
    """Numbers that differ in their high bits only, as ones and twos do."""
    rng = np.random.default_rng(0)
    drawn = [2.0 ** rng.integers(-3, 4, 12) for _ in range(20_000)]
    distinct = {array.tobytes() for array in drawn}
    assert len({fingerprint(array) for array in drawn}) == len(distinct)
    array = np.arange(6.0)
    same_bytes = [array, array.reshape(2, 3), array.reshape(3, 2), array.view(np.int64)]
    assert len(set(map(fingerprint, same_bytes))) == 4
    assert fingerprint(array[::-1]) != fingerprint(array)

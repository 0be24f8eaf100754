"""A million labels never seen before, in one slice: processor time and memory.

Three kinds of label: short text ("u123456"), long text (about 33 bytes) and whole numbers too far
apart for a table. Each case runs in a process of its own that has its libraries loaded and a small
vocabulary made before; the column exists before and is not counted. What counts is giving ids and
codes to the labels (the vocabulary), the same and writing them to the labels of a run, and the same
again for a vocabulary that holds ten million already. Peaks are above what was resident before.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.alone import alone, resident
from benchmarks.records import Row, measured
from benchmarks.timing import Times, clock

KINDS = ["short", "long", "numbers"]
SIZE = 1_000_000


def run(*, quick: bool = False, only: str | None = None) -> Iterator[Row]:
    """Seconds and peak memory by kind of label."""
    size, rounds = (SIZE // 10, 1) if quick else (SIZE, 3)
    for kind in KINDS if only is None else [only]:
        found = [alone("labels", kind, size, 0, POLARS_MAX_THREADS="2") for _ in range(rounds)]
        yield from _rows(f"labels/{kind}", found, size, promised=not quick)
    if only is None:
        before = 10 * size
        found = [alone("labels", "short", size, before, POLARS_MAX_THREADS="2")]
        yield from _rows("labels/after ten times as many", found, size, promised=not quick)


def _rows(case: str, found: list[dict[str, float]], size: int, *, promised: bool) -> Iterator[Row]:
    def times(name: str) -> Times:
        return Times(tuple(one[name] for one in found))

    note = f"{size:,} new labels, {found[0]['text'] / size:.1f} bytes of text each"
    target = "<= 1" * promised
    yield measured(case, "vocabulary", times("seconds"), "s", target=target, note=note)
    yield measured(case, "vocabulary and file", times("with_file"), "s")
    # Text itself is no overhead, but is in the figure all the same.
    target = "<= 100" * promised
    yield measured(case, "peak", times("peak"), "MB", 1e-6, target=target)
    yield measured(case, "held", times("held"), "bytes per label", note="ids, codes, text, marks")


def _column(kind: str, first: int, size: int):
    import polars as pl

    # Every number once, in no order: a large odd factor runs through all of them.
    numbers = pl.Series("label", (np.arange(first, first + size) * 7_368_787) % 99_999_989)
    if kind == "numbers":
        return numbers * 1_000_003
    text = numbers.cast(pl.String)
    return "u" + text if kind == "short" else "customer-000-" + text + "@example.com"


def _measure(kind: str, size: int, before: int) -> None:
    from onlinegcp.events.vocabulary import Vocabulary
    from onlinegcp.runlog.labels import append_labels

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _learn(Vocabulary(), _column(kind, 0, 3000))
        vocabulary, kept = Vocabulary(), None
        for first in range(0, before, size):
            _learn(vocabulary, _column(kind, first, size))
        if before:
            kept = append_labels(folder, kept, {"mode": vocabulary.labels})
        column = _column(kind, before, size)
        start = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # peak := present
        begin = clock()
        ids = _learn(vocabulary, column)
        seconds = clock() - begin
        append_labels(folder, kept, {"mode": vocabulary.labels})
        with_file = clock() - begin
        peak = resident("VmHWM") - start
    assert len(vocabulary) == before + size == int(vocabulary.codes(ids).max()) + 1
    facts = {"seconds": seconds, "with_file": with_file, "peak": peak, "text": _text(column)}
    print(json.dumps({**facts, "held": (resident("VmRSS") - start) / size}))


def _learn(vocabulary, column) -> np.ndarray:
    ids = vocabulary.identify(column)
    vocabulary.settle([ids])
    vocabulary.marks(ids)  # as the fingerprint of a slice needs them
    return ids


def _text(column) -> int:
    import polars as pl

    return int(column.cast(pl.String).str.len_bytes().sum())


if __name__ == "__main__":
    _measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

"""Looking through a source before it is streamed: is it in order of time, and what is frequent?

Order is needed between bins only. Files that are each in order and do not overlap are read one
after the other, whatever their names; all else is sorted on disk.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from onlinegcp.events.label_order import label_order
from onlinegcp.events.reading import Here, Reading, There, Workers
from onlinegcp.events.rows import RowReader, Rows
from onlinegcp.events.spill import Spill
from onlinegcp.events.table_parts import Part
from onlinegcp.events.vocabulary import Vocabulary


def in_order_of_time(
    parts: Sequence[Part], reader: RowReader, reading: Reading | None = None
) -> list[Part] | None:
    """The parts in an order that makes bins follow each other, or None if there is none."""
    reading = reading or Here(reader)
    spans: list[tuple[int, int, int]] = []
    without: list[int] = []
    n_rows = 0
    for number, part in enumerate(parts):
        first: int | None = None
        last = 0
        for height, span in reading.spans(part):
            n_rows += height
            if span is None or (first is not None and span[0] <= span[1] and span[0] < last):
                return None
            if span[0] <= span[1]:  # else no row counts
                first, last = span[0] if first is None else first, span[1]
        if first is None:
            without.append(number)
        else:
            spans.append((first, last, number))
    spans.sort()
    if any(start < end for (_, end, _), (start, _, _) in itertools.pairwise(spans)):
        return None
    reader.n_rows = n_rows
    # Parts without a row that counts go last: what they hold is still to be counted as null.
    return [parts[number] for number in [*(span[2] for span in spans), *without]]


def sorted_rows(
    parts: Sequence[Part], reader: RowReader, reading: Reading | None = None
) -> Iterator[Rows]:
    """All rows in order of bins, by way of the disk."""
    reading = reading or Here(reader)
    counts: Counter[int] = Counter()
    n_rows = 0
    for part in parts:
        for height, found in reading.counts(part):
            n_rows += height
            counts.update(found)
    reader.n_rows = n_rows
    n_outside = n_untimed = 0
    with Spill(counts, len(reader.modes), valued=reader.value is not None) as spill:
        for part in parts:
            for rows in reading.rows(part):
                n_outside += rows.n_outside
                n_untimed += rows.n_untimed
                if len(rows):
                    spill.add(rows.keys, rows.ids, rows.values)
        for keys, ids, values in spill.rows():
            yield Rows(keys, ids, values, _sorted_away, n_outside, n_untimed)
            n_outside = n_untimed = 0
    if n_outside or n_untimed:  # no row is left to count them with
        nothing = np.empty(0, dtype=np.int64)
        ids = tuple(np.empty(0, dtype=np.int32) for _ in reader.modes)
        yield Rows(nothing, ids, None, _sorted_away, n_outside, n_untimed)


def all_rows(
    parts: Sequence[Part],
    reader: RowReader,
    in_order: bool | None,
    workers: Workers | None = None,
) -> Iterator[Rows]:
    """All rows, in order of time if there is a way to have them so; read here, or by workers."""
    reading = Here(reader) if workers is None else There(reader, workers)
    ordered = in_order_of_time(parts, reader, reading) if in_order is None else list(parts)
    if ordered is None or in_order is False:
        yield from sorted_rows(parts, reader, reading)
        return
    for part in ordered:
        yield from reading.rows(part)


def most_frequent(
    parts: Sequence[Part], reader: RowReader, wanted: Mapping[tuple[str, ...], int]
) -> dict[tuple[str, ...], list[str]]:
    """The most frequent labels of groups of modes, the most frequent first.

    Parameters
    ----------
    parts
        What to read.
    reader
        Knows the bins: rows that will be left out are not counted.
    wanted
        How many labels, by group of modes that share a vocabulary.
    """
    sources = {mode.name: mode.source for mode in reader.modes}
    columns = {group: [sources[name] for name in group] for group in wanted}
    needed = list(dict.fromkeys(name for group in columns.values() for name in group))
    vocabularies = {group: Vocabulary() for group in wanted}
    counts = {group: np.zeros(0, dtype=np.int64) for group in wanted}
    for part in parts:
        for block in part.read(list(dict.fromkeys([reader.time.name, *needed]))):
            _, keep = reader.keys(block)
            for group, names in columns.items():
                for name in names:
                    ids = vocabularies[group].identify(block.frame[name], block.where)
                    ids = ids if keep is None else ids[keep]
                    found = np.bincount(ids[ids >= 0], minlength=vocabularies[group].n_ids)
                    found[: len(counts[group])] += counts[group]
                    counts[group] = found
    chosen = {}
    for group, k in wanted.items():
        label, numbers = vocabularies[group].name, counts[group].tolist()
        # Only those that can be among the first k are sorted: there may be a million labels.
        least = sorted(numbers, reverse=True)[:k][-1:] or [0]
        candidates = [n for n, number in enumerate(numbers) if number >= max(1, least[0])]
        candidates.sort(key=lambda n: (-numbers[n], label_order(label(n))))
        chosen[group] = [label(n) for n in candidates[:k]]
    return chosen


def _sorted_away(position: int) -> str:
    return "a row of the source"

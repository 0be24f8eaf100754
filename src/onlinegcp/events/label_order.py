"""The order in which new labels get their codes: whole numbers by size, then all others by text.

Few are sorted by a key. Of many, a column is sorted, and where they are very many they are first
dealt out to piles that follow each other, so that one pile at a time is held as text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.events.label_ids import BLOCK, Ids, LabelIds
from onlinegcp.events.label_marks import side_by_side
from onlinegcp.storage.labels import MANY

if TYPE_CHECKING:
    import polars as pl

Places = NDArray[np.int64]

_PILE = 1 << 14  # labels that are held as text while they are sorted
_SAMPLE = 64  # labels that are looked at per pile, to make piles alike


def label_order(label: str) -> str:
    """Key that sorts whole numbers by size, before all other labels, which go by text."""
    # One text, not a tuple: a million tuples keep the garbage collector busy for seconds.
    digits = label[1:] if label.startswith("-") else label
    if digits.isascii() and digits.isdecimal() and len(digits) < 30:
        return f"0{int(label) + 10**30:031} {label}"
    return f"1{label}"


def ids_in_order(known: LabelIds, ids: Ids) -> Iterator[Ids]:
    """Ids in the order of their labels, some at a time."""
    if len(ids) < MANY:
        names = known.column.texts(ids)
        yield ids[sorted(range(len(names)), key=lambda place: label_order(names[place]))]
    elif len(ids) <= BLOCK:
        yield _sorted(known, ids)
    else:
        piles = _piles(known, ids)
        for pile in range(int(piles.max()) + 1):
            yield _sorted(known, ids[piles == pile])


def _sorted(known: LabelIds, ids: Ids) -> Ids:
    return np.asarray(ids[places_in_order(known.column.take(ids))])


def places_in_order(labels: pl.Series) -> Places:
    """Where the labels are that come first, second and so on by `label_order`.

    Examples
    --------
    >>> import polars as pl
    >>> places_in_order(pl.Series(["b", "10", "9", "a"])).tolist()
    [2, 1, 3, 0]
    """
    whole = _whole(labels).to_numpy()
    numbers, texts = np.flatnonzero(whole), np.flatnonzero(~whole)
    if not len(numbers):
        return _by_text(labels)
    by_size = numbers[_by_size(labels.gather(numbers))]
    return np.concatenate([by_size, texts[_by_text(labels.gather(texts))]])


def _by_size(labels: pl.Series) -> Places:
    """The order of whole numbers; those that are equal go by their text."""
    import polars as pl

    numbers = labels.cast(pl.Int64, strict=False)
    if not numbers.null_count():
        order = np.argsort(numbers.to_numpy())
        ordered = numbers.to_numpy()[order]
        if (ordered[1:] != ordered[:-1]).all():
            return order
    table = pl.DataFrame({"label": labels, "number": labels.cast(pl.Int128)})
    return table.select(pl.arg_sort_by("number", "label")).to_series().to_numpy().astype(np.int64)


def _by_text(labels: pl.Series) -> Places:
    """The order of texts by the bytes of UTF-8, which is by characters.

    Sorted are words of eight bytes, those behind what all labels begin with; where words are the
    same, the words behind them.
    """
    if len(labels) < 2:
        return np.arange(len(labels))
    text, at, left = side_by_side(labels)
    words = np.ndarray((len(text) - 7,), dtype=">u8", buffer=text, strides=(1,))
    first, last = str(labels.min()).encode(), str(labels.max()).encode()
    alike = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    common = sum(1 for _ in alike)
    at, left = at + common, left - common
    order = np.argsort(_words(words, at, left))
    word = _words(words, at[order], left[order])
    starts = np.concatenate(([True], word[1:] != word[:-1]))
    while True:
        group = np.cumsum(starts)
        tied = np.flatnonzero(~(starts & np.append(starts[1:], True)))
        if not len(tied):
            return order
        rows = order[tied]
        # Of two that differ in length only, or in zeros at the end, the shorter comes first.
        taken = np.clip(left[rows], 0, 8)
        at[rows], left[rows] = at[rows] + 8, left[rows] - 8
        word = _words(words, at[rows], left[rows])
        again = np.lexsort((word, taken, group[tied]))
        order[tied], keys = rows[again], (word[again], taken[again], group[tied])
        new = np.any([key[1:] != key[:-1] for key in keys], axis=0) | (keys[1][1:] < 8)
        starts[tied] = np.concatenate(([True], new))


def _words(words: NDArray[Any], at: Places, left: Places) -> NDArray[np.uint64]:
    """The word of each label that begins at its place, without what is behind its end."""
    behind = np.uint64(8) * np.clip(8 - left, 0, 7).astype(np.uint64)
    word = words[np.minimum(at, len(words) - 1)].astype(np.uint64)
    return np.where(left > 0, (word >> behind) << behind, np.uint64(0))


def _whole(labels: pl.Series) -> pl.Series:
    return labels.str.contains(r"^-?[0-9]{1,29}$")


def _piles(known: LabelIds, ids: Ids) -> NDArray[np.unsignedinteger[Any]]:
    """The pile of each id: all labels of a pile come before those of the next."""
    import polars as pl

    n_piles = -(-len(ids) // _PILE)
    every = max(1, len(ids) // (n_piles * _SAMPLE))
    sample = known.column.take(ids[::every])
    ends = sample.gather(places_in_order(sample)[_SAMPLE - 1 :: _SAMPLE])
    whole = _whole(ends)
    # Rounded to 64 bits, numbers that differ may be equal, but none changes places with another.
    numbers = ends.filter(whole).cast(pl.Float64).to_numpy()
    texts = ends.filter(~whole)
    piles = np.empty(len(ids), dtype=np.min_scalar_type(len(ends) + 2))
    for start in range(0, len(ids), BLOCK):
        labels = known.column.take(ids[start : start + BLOCK])
        whole = _whole(labels)
        of_number = np.searchsorted(numbers, labels.filter(whole).cast(pl.Float64).to_numpy())
        rest = labels.filter(~whole)
        of_text = np.zeros(len(rest), dtype=np.int32)
        if len(texts):
            of_text = texts.search_sorted(rest, side="left").to_numpy()
        here = piles[start : start + BLOCK]
        here[whole.to_numpy()] = of_number
        # One pile more between the last number and the first text.
        here[~whole.to_numpy()] = of_text + (len(numbers) + 1)
    return piles

"""The order in which new labels get their codes: whole numbers by size, then all others by text.

Few are sorted by a key. Of many, a column is sorted, and where they are very many they are first
dealt out to piles that follow each other, so that one pile at a time is held as text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from onlinegcp.events.label_ids import BLOCK, Ids, LabelIds
from onlinegcp.storage.labels import MANY

if TYPE_CHECKING:
    import polars as pl

_SAMPLE = 64  # labels that are looked at per pile, to make piles alike


def label_order(label: str) -> str:
    """Key that sorts whole numbers by size, before all other labels, which go by text."""
    # One text, not a tuple: a million tuples keep the garbage collector busy for seconds.
    digits = label[1:] if label.startswith("-") else label
    if digits.isascii() and digits.isdecimal() and len(digits) < 30:
        return f"0{int(label) + 10**30:031} {label}"
    return f"1{label}"


def ids_in_order(known: LabelIds, ids: Ids) -> Ids:
    """Ids in the order of their labels."""
    if len(ids) < MANY:
        names = known.column.texts(ids)
        return ids[sorted(range(len(names)), key=lambda place: label_order(names[place]))]
    if len(ids) <= BLOCK:
        return _sorted(known, ids)
    piles = _piles(known, ids)
    return np.concatenate([_sorted(known, ids[piles == p]) for p in range(int(piles.max()) + 1)])


def _sorted(known: LabelIds, ids: Ids) -> Ids:
    # Sorting the text and looking it up is quicker than sorting places by their text.
    return known.find(in_order(known.column.take(ids)))


def in_order(labels: pl.Series) -> pl.Series:
    """Labels in the order of `label_order`.

    Examples
    --------
    >>> import polars as pl
    >>> in_order(pl.Series(["b", "10", "9", "a"])).to_list()
    ['9', '10', 'a', 'b']
    """
    import polars as pl

    whole = _whole(labels)
    text = labels.filter(~whole).sort()  # by bytes of UTF-8, which is by characters
    if not whole.any():
        return text
    table = pl.DataFrame({"label": labels.filter(whole)})
    table = table.with_columns(number=pl.col("label").cast(pl.Int128))
    return pl.concat([table.sort("number", "label")["label"], text])


def _whole(labels: pl.Series) -> pl.Series:
    return labels.str.contains(r"^-?[0-9]{1,29}$")


def _piles(known: LabelIds, ids: Ids) -> Ids:
    """The pile of each id: all labels of a pile come before those of the next."""
    import polars as pl

    n_piles = -(-len(ids) // BLOCK)
    every = max(1, len(ids) // (n_piles * _SAMPLE))
    sample = in_order(known.column.take(ids[::every]))
    ends = sample.gather_every(_SAMPLE, offset=_SAMPLE - 1)
    whole = _whole(ends)
    # Rounded to 64 bits, numbers that differ may be equal, but none changes places with another.
    numbers = ends.filter(whole).cast(pl.Float64).to_numpy()
    texts = ends.filter(~whole)
    piles = np.empty(len(ids), dtype=np.int32)
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

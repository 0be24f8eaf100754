"""Which labels tell rows apart best: pairs of ends first, then words, then by entropy."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from onlinegcp.drawing.text import words_of
from onlinegcp.planning import words
from onlinegcp.planning.columns import Codes, Column
from onlinegcp.planning.words import PAIRS

MOST_COLUMNS = 3  # that a plan makes modes of
# A label that occurs so often is learned well; so often, well enough for a place nobody else wants.
OFTEN, ENOUGH = 100, 30
_LACKING = 0.1


def missing(column: Column) -> float:
    """Share of rows that a column says nothing of."""
    return column.values.null_count() / max(1, len(column.values))


def most_telling(labels: Sequence[Column]) -> tuple[list[str], dict[str, str]]:
    """At most three columns: pairs first, then words, then by entropy, none that another one tells.

    A row without a label is no event, so those that many rows lack come last.
    """
    codes = {column.name: column.codes for column in labels}
    entropy = {name: _entropy(part) for name, part in codes.items()}
    pairs = [
        {a.name, b.name} for a, b in itertools.combinations(labels, 2) if is_pair(a.name, b.name)
    ]
    paired = set().union(*pairs[:1])
    ranked = sorted(
        labels,
        key=lambda c: (
            *(c.name not in paired, c.rows_each < OFTEN, missing(c) > _LACKING, _may_be_amount(c)),
            *(-round(entropy[c.name], 9), c.numbers is not None),  # of two that say the same, words
        ),
    )
    chosen: list[str] = []
    out: dict[str, str] = {}
    for column in ranked:
        name = column.name
        teller = next(
            (
                other
                for other in chosen
                if _entropy(joint([codes[other], codes[name]])) - entropy[other]
                < 0.05 * entropy[name]
            ),
            None,
        )
        if teller is not None:
            out[name] = f"known from {teller}"
        elif len(chosen) >= 2 and column.rows_each < ENOUGH and name not in paired:
            out[name] = f"{column.n_labels:,} labels, about {column.rows_each:.0f} rows each"
        elif len(chosen) < MOST_COLUMNS:
            chosen.append(name)
        elif entropy[name] <= min(entropy[other] for other in chosen):
            out[name] = f"{MOST_COLUMNS} others tell more"
        elif missing(column) > _LACKING:
            out[name] = f"{missing(column):.0%} of rows lack it"
        elif column.rows_each < OFTEN:
            out[name] = f"labels of {MOST_COLUMNS} others occur more often"
        elif _may_be_amount(column):
            out[name] = "numbers that may be amounts; words come first"
        else:
            out[name] = "two ends of one thing come first"
    return chosen, out


def _may_be_amount(column: Column) -> bool:
    """Whether labels are numbers whose name does not say that they are codes: goals, grades."""
    return column.numbers is not None and not words.CODES & set(column.words)


def _entropy(codes: Codes) -> float:
    counts = np.unique(codes[codes >= 0], return_counts=True)[1]
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def is_pair(first: str, second: str) -> bool:
    """Whether two names are two ends of one thing, such as pu_zone and do_zone."""
    a, b = words_of(first), words_of(second)
    for one, other in PAIRS:
        for here, there in ((one, other), (other, one)):
            if here in a and there in b:
                left, right = list(a), list(b)
                left.remove(here)
                right.remove(there)
                if left == right:
                    return True
    return False


def joint(codes: Iterable[Codes]) -> Codes:
    """Numbers of combinations: alike where all parts are."""
    joined: Codes | None = None
    for part in codes:
        if joined is None:
            joined = part
        else:
            joined = joined * (int(part.max()) + 2) + part
            if int(joined.max()) > 1 << 40:
                joined = np.unique(joined, return_inverse=True)[1].reshape(-1).astype(np.int64)
    assert joined is not None
    return joined

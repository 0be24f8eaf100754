"""The entries of a large slice in the order of their cells, compiled, on several threads.

The positions of an entry are packed into one integer, whose order is that of the cells. Entries are
dealt out into buckets by its leading bits, each thread its own stretch of them, so that equal cells
keep their order; a bucket, which fits into a cache, is sorted by the remaining bits, digit by
digit, and entries of one cell are added up; a few buckets are written down as soon as it is known
where, which is before they leave the cache. The result has the bits that `entries.sorted_sums`
gives, on any number of threads.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator,assignment"

from __future__ import annotations

import itertools
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.jit import kernel
from onlinegcp.sums.local import Local, jobs

Array = NDArray[Any]

U = np.uint64  # of places: Numba then asks nobody whether they are counted from the end
LEADING = 9  # bits that name a bucket: with more, dealing writes to too many places at a time
DIGIT = 11  # bits of a digit within a bucket
BUCKET = 2048  # entries that are worth a bucket
FEW = 24  # entries that are sorted by insertion
WORD = 63  # bits of a packed cell
PIECE = 1 << 17  # entries that are sorted and written down at a time, while a cache holds them
PIECES = 4  # per thread at least
# What a look at the entries finds.
ORDERED, UNORDERED, WRONG = 0, 1, 2


def in_order(
    rows: Array, value: NDArray[np.float64], shape: tuple[int, ...], *, keep_zeros: bool
) -> tuple[NDArray[np.int32], NDArray[np.float64]] | None:
    """Index and values of the cells in C order, in memory of their own.

    None where an entry is wrong, a sum is not finite, or cells are too many for this way: whoever
    takes the long one then finds out what it is.

    Parameters
    ----------
    rows
        (n, d) positions, not checked.
    value
        (n,) numbers, not checked.
    shape
        Length of each mode.
    keep_zeros
        Whether cells that are zero stay.
    """
    widths = tuple((dim - 1).bit_length() for dim in shape)
    total, n = sum(widths), len(rows)
    if total > WORD or n == 0:
        return None
    if rows.dtype not in (np.int32, np.int64):
        rows = rows.astype(np.int64)
    rows, value = np.ascontiguousarray(rows), np.ascontiguousarray(value, dtype=np.float64)
    leading = min(total, LEADING, max(1, (n // BUCKET).bit_length()))
    with jobs(None) as chosen:
        work = _Work(Local(chosen.jobs), rows, value, widths, total - leading, 1 << leading)
        found = work.look(shape)
        if found == WRONG:
            return None
        if found == ORDERED:
            return work.as_they_are(keep_zeros)
        return work.sort(keep_zeros)


class _Work:
    """Entries that are being sorted."""

    def __init__(
        self,
        who: Local,
        rows: Array,
        value: Array,
        widths: tuple[int, ...],
        rest: int,
        buckets: int,
    ) -> None:
        # `rest`: bits below those that name the bucket.
        self.who, self.rows, self.value, self.widths, self.rest = who, rows, value, widths, rest
        self.flat = rows.reshape(-1)
        stretches = who.jobs
        self.cuts = [len(rows) * i // stretches for i in range(stretches + 1)]
        self.counts = np.zeros((stretches, buckets), dtype=np.int64)

    def _stretches(self, function: Any) -> list[Any]:
        """What a function gives for each stretch of the entries."""
        found: list[Any] = [None] * (len(self.cuts) - 1)

        def work(i: int) -> None:
            found[i] = function(i, self.cuts[i], self.cuts[i + 1])

        self.who.run(work, len(found))
        return found

    def look(self, shape: tuple[int, ...]) -> int:
        """Check the entries, and count those of every bucket."""

        def work(i: int, first: int, last: int) -> Any:
            counts, rest = self.counts[i], self.rest
            return survey(self.flat, self.value, shape, self.widths, rest, first, last, counts)

        return int(max(self._stretches(work)))

    def as_they_are(self, keep_zeros: bool) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Entries in order, each of another cell."""
        if not keep_zeros and not self.value.all():
            stay = self.value != 0.0
            return self.rows[stay].astype(np.int32), self.value[stay]
        index, value = np.empty(self.rows.shape, dtype=np.int32), np.empty(len(self.value))

        def work(_: int, first: int, last: int) -> None:
            index[first:last], value[first:last] = self.rows[first:last], self.value[first:last]

        self._stretches(work)
        return index, value

    def sort(self, keep_zeros: bool) -> tuple[NDArray[np.int32], NDArray[np.float64]] | None:
        """Deal entries out into buckets, sort these, and write them down."""
        n, buckets = len(self.rows), self.counts.shape[1]
        sizes = self.counts.sum(axis=0)
        if self.rest + (int(sizes.max()) - 1).bit_length() > WORD:
            return None
        bounds = np.concatenate(([0], np.cumsum(sizes)))
        places = bounds[:-1] + np.cumsum(self.counts, axis=0) - self.counts
        # A bucket is known by where it lies, so that the bits that name it need not be kept.
        keys, values = np.empty(n, dtype=np.uint32 if self.rest <= 32 else np.int64), np.empty(n)
        self._stretches(
            lambda i, first, last: deal(
                self.flat, self.value, self.widths, self.rest, first, last, places[i], keys, values
            )
        )
        # Runs of whole buckets with about as many entries each.
        pieces = max(PIECES * self.who.jobs, n // PIECE)
        wanted = n * np.arange(1, pieces) // pieces
        ends = np.unique(np.concatenate(([0], np.searchsorted(bounds, wanted), [buckets])))
        runs, modes = list(itertools.pairwise(ends.tolist())), len(self.widths)
        # Pages that nobody writes to take no memory.
        index, sums, line = np.empty(n * modes, dtype=np.int32), np.empty(n), _Line()

        def work(i: int) -> None:
            first, last = runs[i]
            size = int(bounds[last] - bounds[first])
            cells, totals = np.empty(size, dtype=np.int64), np.empty(size)
            kept = arrange(keys, values, bounds, self.rest, first, last, keep_zeros, cells, totals)
            for at, count, *piece in line.after(i, kept, cells, totals):
                write(*piece, count, self.widths, at, index, sums)

        self.who.run(work, len(runs))
        if line.length < 0:
            return None
        index.resize(line.length * modes, refcheck=False)
        sums.resize(line.length, refcheck=False)
        return index.reshape(-1, modes), sums


class _Line:
    """Pieces that are ready in any order, and where each begins in the line of all of them.

    Attributes
    ----------
    length
        Of the line up to now; -1 once a piece is wrong.
    """

    def __init__(self) -> None:
        self.length = 0
        self._next, self._waiting, self._lock = 0, dict[int, tuple[int, Array, Array]](), Lock()

    def after(
        self, i: int, kept: int, cells: Array, totals: Array
    ) -> list[tuple[int, int, Array, Array]]:
        """The pieces that have their places now that piece i is ready, with these and lengths.

        Nobody waits for a piece before: whoever brings that one gets both.
        """
        placed = []
        with self._lock:
            self._waiting[i] = kept, cells, totals
            while self._next in self._waiting and self.length >= 0:
                count, packed, sums = self._waiting.pop(self._next)
                placed.append((self.length, count, packed, sums))
                self.length = -1 if count < 0 else self.length + count
                self._next += 1
        return placed


@kernel(fastmath=False)
def survey(rows, value, shape, widths, rest, first, last, counts):
    """Whether entries first to last are wrong or out of order; count them by bucket."""
    modes, mask = len(shape), len(counts) - 1
    wrong, unordered, before = False, False, np.int64(-1)
    at = first * modes
    if first > 0:
        before = np.int64(0)
        for k in range(len(shape)):
            before = (before << widths[k]) | np.int64(rows[at - modes + k])
    for i in range(first, last):
        key = np.int64(0)
        for k in range(len(shape)):
            row = np.int64(rows[U(at + k)])
            wrong |= U(row) >= U(shape[k])  # below zero is far above
            key = (key << widths[k]) | row
        at += modes
        wrong |= value[i] - value[i] != 0.0  # not finite
        unordered |= key <= before
        before = key
        counts[U((key >> rest) & mask)] += 1
    if wrong:
        return WRONG
    return UNORDERED if unordered else ORDERED


@kernel(fastmath=False)
def deal(rows, value, widths, rest, first, last, places, keys, values):
    """Write packed cells, less their leading bits, and values to the next places of buckets."""
    modes, below = len(widths), (np.int64(1) << rest) - 1
    at = first * modes
    for i in range(first, last):
        key = np.int64(0)
        for k in range(len(widths)):
            key = (key << widths[k]) | np.int64(rows[U(at + k)])
        at += modes
        bucket = U(key >> rest)
        to = places[bucket]
        places[bucket] = to + 1
        keys[U(to)] = key & below
        values[U(to)] = value[U(i)]


@kernel(fastmath=False)
def total_of(numbers, first, last):
    """The sum of some numbers, added up in NumPy's order: in pairs of eight, and of halves."""
    n = last - first
    if n < 8:
        total = -0.0
        for i in range(first, last):
            total += numbers[i]
        return total
    if n > 128:
        half = n // 2
        half -= half % 8
        return total_of(numbers, first, first + half) + total_of(numbers, first + half, last)
    a, b, c, d = numbers[first], numbers[first + 1], numbers[first + 2], numbers[first + 3]
    e, f, g, h = numbers[first + 4], numbers[first + 5], numbers[first + 6], numbers[first + 7]
    i = first + 8
    while i + 8 <= last:
        a += numbers[i]
        b += numbers[i + 1]
        c += numbers[i + 2]
        d += numbers[i + 3]
        e += numbers[i + 4]
        f += numbers[i + 5]
        g += numbers[i + 6]
        h += numbers[i + 7]
        i += 8
    total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    while i < last:
        total += numbers[i]
        i += 1
    return total


@kernel(fastmath=False)
def by_insertion(words, n):
    """Sort a few words."""
    for i in range(1, n):
        word = words[i]
        j = i
        while j > 0 and words[U(j - 1)] > word:
            words[U(j)] = words[U(j - 1)]
            j -= 1
        words[U(j)] = word


@kernel(fastmath=False)
def by_digits(words, other, n, low, high, counts):
    """Sort words by their bits low to high; what lies below is in order. Where they are then."""
    differ = np.int64(0)
    for i in range(n):
        differ |= words[i] ^ words[0]
    digit = 4
    while digit < DIGIT and (1 << (digit + 1)) <= n:
        digit += 1
    passes = max(1, (high - low + digit - 1) // digit)
    digit = max(1, (high - low + passes - 1) // passes)
    mask = (np.int64(1) << digit) - 1
    for shift in range(low, high, digit):
        if (differ >> shift) & mask == 0:
            continue
        counts[: mask + 1] = 0
        for i in range(n):
            counts[U((words[U(i)] >> shift) & mask)] += 1
        begin = np.int64(0)
        for c in range(mask + 1):
            here = counts[U(c)]
            counts[U(c)] = begin
            begin += here
        for i in range(n):
            word = words[U(i)]
            at = U((word >> shift) & mask)
            to = counts[at]
            counts[at] = to + 1
            other[U(to)] = word
        words, other = other, words
    return words


@kernel(fastmath=False)
def arrange(keys, values, bounds, rest, first, last, keep_zeros, cells, totals):
    """Sort buckets first to last and add up entries of one cell; how many cells there are.

    Cells, packed, and their sums go to `cells` and `totals`; -1 where a sum is not finite.
    """
    most = np.int64(0)
    for b in range(first, last):
        most = max(most, bounds[b + 1] - bounds[b])
    here, there = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    numbers = np.empty(most)
    counts = np.zeros(1 << DIGIT, dtype=np.int64)
    finite, kept = True, np.int64(0)
    for b in range(first, last):
        begin, n, above = bounds[b], bounds[b + 1] - bounds[b], np.int64(b) << rest
        if n == 0:
            continue
        # The rest of a cell and the place of its entry share one word.
        low = np.int64(0)
        while (np.int64(1) << low) < n:
            low += 1
        for i in range(n):
            here[U(i)] = (np.int64(keys[U(begin + i)]) << low) | i
        words = here
        if n <= FEW:
            by_insertion(words, n)
        else:
            words = by_digits(here, there, n, low, low + rest, counts)
        place = (np.int64(1) << low) - 1
        distinct = True
        before = np.int64(-1)
        for i in range(n):
            word = words[U(i)]
            numbers[U(i)] = values[U(begin + (word & place))]
            cell = word >> low
            distinct &= cell != before
            before = cell
        i = np.int64(0)
        if distinct:
            for i in range(n):
                total = numbers[U(i)]
                cells[U(kept)] = above | (words[U(i)] >> low)
                totals[U(kept)] = total
                kept += keep_zeros or total != 0.0
        else:
            while i < n:
                cell = words[U(i)] >> low
                total = numbers[U(i)]
                end = i + 1
                while end < n and words[U(end)] >> low == cell:
                    end += 1
                if end > i + 1:
                    total += total_of(numbers, i + 1, end)
                    finite &= total - total == 0.0
                cells[U(kept)] = above | cell
                totals[U(kept)] = total
                kept += keep_zeros or total != 0.0
                i = end
    return kept if finite else -1


@kernel(fastmath=False)
def write(cells, totals, count, widths, to, index, sums):
    """Unpack so many cells, and write them down from place `to` on."""
    modes = len(widths)
    for i in range(count):
        key = cells[U(i)]
        at = (to + i) * modes
        for back in range(len(widths)):
            k = modes - 1 - back
            index[U(at + k)] = key & ((np.int64(1) << widths[k]) - 1)
            key >>= widths[k]
        sums[U(to + i)] = totals[U(i)]

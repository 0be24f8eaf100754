"""Sorting of cells into the boxes of a grid over two modes, so that each box meets few rows."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

from __future__ import annotations

from onlinegcp.kernels.jit import kernel


@kernel
def count_rows(index, mode, counts):
    for j in range(index.shape[0]):
        counts[index[j, mode]] += 1


@kernel
def count_boxes(index, first, second, first_box, second_box, columns, counts):
    # Cells per box; box of a cell: first_box[row of mode `first`] * columns + second_box[...].
    for j in range(index.shape[0]):
        counts[first_box[index[j, first]] * columns + second_box[index[j, second]]] += 1


@kernel
def sort_into_boxes(index, value, first, second, first_box, second_box, columns, places, cells,
                    numbers):  # fmt: skip
    # Box by box, in listed order within each; `places` holds where every box begins, and is spent.
    for j in range(index.shape[0]):
        box = first_box[index[j, first]] * columns + second_box[index[j, second]]
        at = places[box]
        places[box] = at + 1
        numbers[at] = value[j]
        for k in range(index.shape[1]):
            cells[at, k] = index[j, k]


@kernel
def sort_by_row(index, mode, places, order):
    # Cells by their row of a mode, in listed order within each; `places` holds where every row
    # begins, and is spent.
    for j in range(index.shape[0]):
        i = index[j, mode]
        order[places[i]] = j
        places[i] += 1

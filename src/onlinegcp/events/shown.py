"""How a stream of events shows itself: as one line, or as a card in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinegcp.notebook.html import card, table, text

if TYPE_CHECKING:
    from onlinegcp.events.stream import EventStream


def as_line(stream: EventStream, every: object) -> str:
    """Modes, bins and how far it has been read; never its labels."""
    lengths = zip(stream.mode_names, stream.shape, strict=True)
    shape = ", ".join(f"{name} {length:,}" for name, length in lengths)
    return f"EventStream({shape}; every {every}, {stream.n_slices:,} slices read)"


def as_card(stream: EventStream, every: object) -> str:
    """The same as HTML, with a few labels of each mode."""
    facts = f"every {every}, {stream.n_slices:,} slices and {stream.n_events:,} events read"
    rows = [
        [text(name), f"{len(labels):,}", text(", ".join(labels[:6]))]
        for name, labels in zip(stream.mode_names, stream.labels, strict=True)
    ]
    return card("EventStream", facts, table(["mode", "labels", "such as"], rows))

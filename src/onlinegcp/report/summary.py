"""A run in a few sentences: what data, which model, how well it fits, what stands out."""

from __future__ import annotations

from collections.abc import Sequence

from onlinegcp.digest import Digest, loss_name
from onlinegcp.drawing.text import noun_for, number, percent, plural, say_time
from onlinegcp.report.changes import Change
from onlinegcp.report.fit import Fit, say_means
from onlinegcp.report.sentences import sentence
from onlinegcp.report.words import Pattern
from onlinegcp.runlog import anomaly_of
from onlinegcp.runlog.told import WAITING, score


def summarize(
    digest: Digest, patterns: Sequence[Pattern], fit: Fit, changed: Sequence[Change]
) -> list[list[str]]:
    """Pairs of a heading and a sentence or two.

    Parameters
    ----------
    digest
        The run.
    patterns
        Its components in words, strongest first.
    fit
        How well it fits.
    changed
        What changed.
    """
    if not digest.count:
        return [["Data", data(digest)]]
    quality = ". ".join(filter(None, [fit.sentence, say_means(digest)]))
    parts = [["Data", data(digest)], ["Model", model(digest)], ["Fit", f"{quality}."]]
    if patterns:
        parts.append(["Patterns", _patterns(patterns)])
    parts.append(["Unusual", anomalies(digest)])
    if changed:
        parts.append(["Change", " ".join(change.text for change in changed)])
    return parts


def unit_of(digest: Digest) -> str:
    """What is counted, in the plural; "" where values are not counted."""
    info = digest.view.info
    if not digest.traits.counts and not info.get("unit"):
        return ""
    return noun_for(info.get("unit"), (info.get("events") or {}).get("value"))


def data(digest: Digest) -> str:
    """What the run is about."""
    view = digest.view
    if not digest.count:
        needed = ((view.info.get("model") or {}).get("parameters") or {}).get("init_slices")
        after = f" when {needed} slices have come" if needed else ""
        return f"The warm start is not over: slices and patterns appear{after}."
    lengths = " × ".join(f"{len(names):,}" for names in view.labels)
    shape = f"{' × '.join(view.modes)} ({lengths})" if lengths else ""
    slices = plural(digest.count, f"{digest.interval} slice".strip())
    unit = unit_of(digest)
    what = f"{number(digest.events)} {unit}" if unit else "Data"
    first, last = (say_time(t, digest.interval) for t in (digest.first_time, digest.last_time))
    when = "" if digest.first_time is None else f" from {first} to {last}"
    return f"{what}{when}, in {slices}" + (f" of {shape}." if shape else ".")


def model(digest: Digest) -> str:
    """What was learned, and how."""
    given = digest.view.info.get("model") or {}
    rank = digest.rank or (given.get("parameters") or {}).get("rank", "unknown")
    warm = digest.warm
    start = f", after a warm start on the first {plural(warm, 'slice')}" if warm else ""
    held = digest.held
    skipped = f" Odd rows of {plural(held, 'flagged slice')} were held." if held else ""
    loss = loss_name(digest.view).replace("_", " ")
    if digest.traits.person:
        loss = loss.capitalize()
    return (
        f"{given.get('method', 'A model')} of rank {rank} with the {loss} loss, learned one slice "
        f"at a time{start}.{skipped}"
    )


def _patterns(patterns: Sequence[Pattern]) -> str:
    strongest = patterns[0]
    text = f"The strongest of {len(patterns)} carries {percent(strongest.share)}: "
    text += f"{_lower(strongest.sentence)}."
    if len(patterns) > 1:
        rest = [
            f"{_lower(p.headline.replace(' · ', ', '))} ({percent(p.share)})" for p in patterns[1:3]
        ]
        text += f" Next: {'; '.join(rest)}."
    return text


def anomalies(digest: Digest, top: int = 3) -> str:
    """How many slices were flagged, and the oddest of them."""
    if not digest.scored:
        return "No slice has been scored yet."
    scored = plural(digest.scored, "scored slice")
    if not digest.flagged and digest.odd and not any(map(score, digest.odd)):
        return f"None of {scored} was flagged yet: {WAITING}."
    if not digest.flagged:
        return f"None of {scored} was flagged."
    flagged = digest.flagged
    worst = [step for step in digest.odd if anomaly_of(step).get("flagged")][:top]
    lead = "The oddest" if flagged > top else "They are" if flagged > 1 else "It is"
    return (
        f"{flagged:,} of {scored} ({percent(flagged / digest.scored)}) "
        f"{'were' if flagged > 1 else 'was'} flagged. {lead}: "
        f"{' '.join(sentence(step, digest.interval) for step in worst)}"
    )


def _lower(text: str) -> str:
    """The text inside a sentence; words in capitals stay."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]

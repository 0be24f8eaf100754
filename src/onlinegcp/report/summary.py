"""A run in a few sentences: what data, which model, how well it fits, what stands out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onlinegcp.drawing.profiles import FloatArray, matrix
from onlinegcp.drawing.text import and_list, number, percent, plural, say_interval, say_time
from onlinegcp.report.fit import Fit, loss_name, loss_traits, say_means
from onlinegcp.report.words import Pattern
from onlinegcp.runlog import RunView, Step, anomaly_of, smallest_p
from onlinegcp.storage.printable import short


def summarize(
    view: RunView, patterns: Sequence[Pattern], fit: Fit, active: FloatArray
) -> list[list[str]]:
    """Pairs of a heading and a sentence or two.

    Parameters
    ----------
    view
        The run.
    patterns
        Its components in words, strongest first.
    fit
        How well it fits.
    active
        (slices, rank) what each component adds to each slice.
    """
    if not view.steps:
        return [["Data", "No slice has been learned yet."]]
    quality = ". ".join(filter(None, [fit.sentence, say_means(view)]))
    parts = [["Data", _data(view)], ["Model", _model(view)], ["Fit", f"{quality}."]]
    if patterns:
        parts.append(["Patterns", _patterns(patterns)])
    parts.append(["Unusual", anomalies(view.steps)])
    if change := _change(view, patterns):
        parts.append(["Change", change])
    return parts


def _data(view: RunView) -> str:
    steps = view.steps
    total = sum(step.get("total") or 0 for step in steps)
    every = say_interval(view.times)
    lengths = " × ".join(f"{len(names):,}" for names in view.labels)
    shape = f"{' × '.join(view.modes)} ({lengths})" if lengths else ""
    slices = plural(len(steps), f"{every} slice".strip())
    what = f"{number(total)} events" if loss_traits(view).counts else "Data"
    span = f"{say_time(steps[0].get('time'))} to {say_time(steps[-1].get('time'))}"
    when = "" if steps[0].get("time") is None else f" from {span}"
    return f"{what}{when}, in {slices}" + (f" of {shape}." if shape else ".")


def _model(view: RunView) -> str:
    warm = sum(1 for step in view.steps if step.get("warm"))
    model = view.info.get("model") or {}
    rank = view.rank or (model.get("parameters") or {}).get("rank", "unknown")
    start = f", after a warm start on the first {plural(warm, 'slice')}" if warm else ""
    held = sum(1 for step in view.steps if step.get("held"))
    skipped = f" {plural(held, 'flagged slice')} not learned." if held else ""
    loss = loss_name(view).replace("_", " ")
    if loss_traits(view).person:
        loss = loss.capitalize()
    return (
        f"{model.get('method', 'A model')} of rank {rank} with the {loss} loss, learned one slice "
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


def anomalies(steps: Sequence[Step], top: int = 3) -> str:
    """How many slices were flagged, and the oddest of them."""
    scored = [step for step in steps if step.get("anomaly")]
    if not scored:
        return "No slice has been scored yet."
    flagged = [step for step in scored if anomaly_of(step).get("flagged")]
    if not flagged:
        return f"None of {plural(len(scored), 'scored slice')} was flagged."
    worst = sorted(flagged, key=smallest_p)[:top]
    named = and_list([f"{say_time(step.get('time'))} ({_why(step)})" for step in worst])
    share = percent(len(flagged) / len(scored))
    lead = "The oddest" if len(flagged) > top else "They are" if len(flagged) > 1 else "It is"
    return (
        f"{len(flagged)} of {plural(len(scored), 'scored slice')} ({share}) "
        f"{'were' if len(flagged) > 1 else 'was'} flagged. {lead}: {named}."
    )


def _why(step: Step) -> str:
    anomaly = anomaly_of(step)
    expected = anomaly.get("expected_total")
    if anomaly.get("kind") == "volume" and expected is not None:
        return f"{number(step.get('total'))} where {number(round(expected))} were expected"
    cells = anomaly.get("cells")
    if not cells:
        return "an unusual pattern"
    best = cells[0]
    names = ", ".join(
        short(str(name), 60) for name in best.get("labels") or best.get("index") or ()
    )
    return (
        f"{names}: {number(best.get('observed'))} where {number(best.get('expected'), 2)} "
        "were expected"
    )


def _change(view: RunView, patterns: Sequence[Pattern]) -> str:
    """The component that moved most, and components born or gone."""
    drift = np.nan_to_num(matrix(view.steps, "drift", view.rank))
    births = sum(step.get("births") or 0 for step in view.steps)
    deaths = sum(step.get("deaths") or 0 for step in view.steps)
    texts = []
    if drift.size and drift.max() > 0.01 and patterns:
        order = {pattern.component: place for place, pattern in enumerate(patterns, start=1)}
        most = int(drift.sum(axis=0).argmax())
        when = view.times[int(drift[:, most].argmax())]
        name = _lower(patterns[order[most] - 1].headline.replace(" · ", ", "))
        texts.append(f"Pattern {order[most]} ({name}) moved most, fastest around {say_time(when)}.")
    if births or deaths:
        texts.append(f"{plural(births, 'pattern')} appeared, {deaths} went.")
    return " ".join(texts)


def _lower(text: str) -> str:
    """The text inside a sentence; words in capitals stay."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]

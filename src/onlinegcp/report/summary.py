"""A run in a few sentences: what data, which model, how well it fits, what stands out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onlinegcp.drawing.profiles import FloatArray, matrix
from onlinegcp.drawing.text import (
    number,
    parse_time,
    percent,
    plural,
    say_interval,
    say_time,
)
from onlinegcp.report.fit import Fit, loss_name, loss_traits, say_means
from onlinegcp.report.words import Pattern
from onlinegcp.runlog import RunView, Step, anomaly_of
from onlinegcp.runlog.told import score, sentence


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
    skipped = f" Odd rows of {plural(held, 'flagged slice')} were held." if held else ""
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
    worst = sorted(flagged, key=lambda step: -score(step))[:top]
    share = percent(len(flagged) / len(scored))
    lead = "The oddest" if len(flagged) > top else "They are" if len(flagged) > 1 else "It is"
    return (
        f"{len(flagged)} of {plural(len(scored), 'scored slice')} ({share}) "
        f"{'were' if len(flagged) > 1 else 'was'} flagged. {lead}: "
        f"{' '.join(map(sentence, worst))}"
    )


def _change(view: RunView, patterns: Sequence[Pattern]) -> str:
    """The component that moved most, and components born or gone."""
    drift = np.nan_to_num(matrix(view.steps, "drift", view.rank))
    # Patterns that changed all at once are told apart from those that came and went one by one.
    single = [step for step in view.steps if not step.get("regime")]
    births = sum(step.get("births") or 0 for step in single)
    deaths = sum(step.get("deaths") or 0 for step in single)
    texts = regimes(view.steps, view.rank)
    if drift.size and drift.max() > 0.01 and patterns:
        by_number = {pattern.component: pattern for pattern in patterns}
        most = int(drift.sum(axis=0).argmax())
        when = view.times[int(drift[:, most].argmax())]
        name = _lower(by_number[most].headline.replace(" · ", ", "))
        texts.append(f"Pattern {most + 1} ({name}) moved most, fastest around {say_time(when)}.")
    if births or deaths:
        texts.append(f"{plural(births, 'pattern')} appeared, {deaths} went.")
    return " ".join(texts)


def regimes(steps: Sequence[Step], rank: int, top: int = 3) -> list[str]:
    """When many patterns changed at once; of many such times only the newest are told.

    Parameters
    ----------
    steps
        The steps of the run.
    rank
        Number of patterns.
    top
        Most times that are told.

    Examples
    --------
    >>> regimes([{"time": "2024-03-03", "regime": "changed", "births": 5}], 8)
    ['On 3 March 2024 5 of 8 patterns were replaced.']
    """
    sudden = [step for step in steps if step.get("regime")]
    began = {step.get("number"): step for step in steps}
    texts = []
    for step in sudden[-top:]:
        first = began.get(step.get("regime_since"), step)
        dated = parse_time(first.get("time")) is not None
        at = f"On {say_time(first['time'])}" if dated else f"At slice {first.get('number')}"
        many = f"{step.get('births') or 0} of {plural(rank, 'pattern')}"
        if step["regime"] == "returned":
            texts.append(f"{at} an earlier regime came back: {many} changed.")
        else:
            texts.append(f"{at} {many} were replaced.")
    if len(sudden) > top:
        texts.insert(0, f"Many patterns changed at once {len(sudden)} times, of late:")
    return texts


def _lower(text: str) -> str:
    """The text inside a sentence; words in capitals stay."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]

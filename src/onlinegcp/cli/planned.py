"""From options to settings: what was not given is planned, and the plan is told."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from onlinegcp.cli import STANDARD_INPUT
from onlinegcp.cli.options import ModelOptions, TableOptions, parse_setting, source_of
from onlinegcp.errors import DataError

if TYPE_CHECKING:
    from onlinegcp.planning import Plan


def plan_of(
    sources: Sequence[str], table: TableOptions, model: ModelOptions, output: str | None
) -> Plan | None:
    """A plan for whatever the options leave open; None if they leave nothing open.

    Events that are counted in a table that was described in full are Poisson without a trial.
    """
    settled = not table.missing and output is not None
    if settled and (model.loss is not None or table.value is None):
        return None
    from onlinegcp.events.remote import scheme_of

    if STANDARD_INPUT in sources:
        _refuse_missing(table, output, "standard input, which can be read only once")
        return None
    if any(map(scheme_of, sources)):
        _refuse_missing(table, output, "a database, a log or objects, which no plan looks at")
        return None
    from onlinegcp.planning import make_plan

    settings = table.settings()
    chosen = ("time", "every", "modes", "value", "agg", "share")
    given = {name: settings.pop(name) for name in chosen}
    given |= {"loss": model.loss, "rank": model.rank, "init_slices": model.warm_start}
    given |= {"output": output, "lower": dict(map(parse_setting, model.set)).get("lower")}
    return make_plan(source_of(sources), given, format=table.format, settings=settings)


def _refuse_missing(table: TableOptions, output: str | None, source: str) -> None:
    """Some sources cannot be looked at beforehand."""
    needed = [f"--{name}" for name in table.missing] + (["--output"] if output is None else [])
    if table.missing or output is None:
        raise DataError(
            f"{_listed(needed)} needed for {source}, but not given. Give them, or save the rows to "
            "a file."
        )


def _listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} is"
    return f"{', '.join(names[:-1])} and {names[-1]} are"


def with_plan(
    plan: Plan | None, table: TableOptions, model: ModelOptions
) -> tuple[TableOptions, ModelOptions]:
    """The options with the choices of a plan filled in."""
    if plan is None:
        return table, model
    events, chosen = plan.events, plan.model
    value = events["value"]
    table = dataclasses.replace(
        table,
        time=events["time"],
        every=str(events["every"]),
        modes=[",".join(events["modes"])],
        value=value if value is None or isinstance(value, str) else ",".join(value),
        agg=events["agg"],
        share=["=".join(group) for group in events["share"]],
    )
    lower = [] if chosen["lower"] is None else [f"lower={chosen['lower']:g}"]
    set_already = any(word.startswith("lower=") for word in model.set)
    # Rivals have no bound of their own to set.
    bound = [] if set_already or model.method != "online_gcp" else lower
    model = dataclasses.replace(
        model,
        rank=model.usual_rank if model.rank is None else model.rank,
        loss=chosen["loss"] if model.method == "online_gcp" else model.loss,
        warm_start=chosen["init_slices"],
        set=[*model.set, *bound],
    )
    return table, model


def extra_words(table: TableOptions, model: ModelOptions) -> list[str]:
    """Options a plan does not speak of, as they were given."""
    words: list[str] = []
    plain = ("vocabulary", "empty", "timezone", "time_unit", "time_format", "max_gap")
    for name in (*plain, "since", "until", "format"):
        if getattr(table, name) is not None:
            words += [f"--{name.replace('_', '-')}", str(getattr(table, name))]
    for options, names in ((table, ("on_new", "on_late", "on_null")), (model, ("method", "seed"))):
        for name in names:
            default = next(f.default for f in dataclasses.fields(options) if f.name == name)
            if getattr(options, name) != default:
                words += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    for word in table.top:
        words += ["--top", word]
    for word in model.set:
        if not word.startswith("lower="):
            words += ["--set", word]
    return words


def tell(plan: Plan, command: str) -> None:
    """The plan in five lines, and the command that says the same."""
    from rich.markup import escape

    from onlinegcp.cli.terminal import say

    for what, choice, reason in plan.lines:
        say(f"[b]{what:>6}[/b]  {escape(choice)}  [dim]{escape(reason)}[/dim]")
    say(f"[dim]The same in full:[/dim] {escape(command)}")


def as_json(plan: Plan, command: str) -> dict[str, Any]:
    """The plan for programs."""
    return {
        "events": {**plan.events, "share": [list(group) for group in plan.events["share"]]},
        "model": dict(plan.model),
        "output": plan.output,
        "why": {what: reason for what, _, reason in plan.lines},
        "command": command,
    }

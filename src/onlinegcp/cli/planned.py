"""From options to settings: what was not given is planned, and the plan is told."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onlinegcp.cli import STANDARD_INPUT
from onlinegcp.cli.options import (
    ModelOptions,
    TableOptions,
    parse_setting,
    source_of,
    suitable_loss,
)
from onlinegcp.errors import DataError, OnlineGCPError

if TYPE_CHECKING:
    from onlinegcp.planning import Plan


def plan_of(
    sources: Sequence[str],
    table: TableOptions,
    model: ModelOptions,
    output: str | None,
    *,
    by: str | None = None,
) -> Plan | None:
    """A plan for whatever the options leave open; None if they leave nothing open.

    With `by`, it is made for the rows of the label that has most of them in the sample.
    Events that are counted in a table that was described in full are Poisson without a trial.
    """
    settled = not table.missing and output is not None
    if settled and (model.loss is not None or table.value is None):
        return None
    from onlinegcp.events.remote import is_database, scheme_of

    if STANDARD_INPUT in sources:
        _refuse_missing(table, output, "standard input, which can be read only once")
        return None
    asked = table.query is not None or any(map(is_database, sources))
    if any(map(scheme_of, sources)) and not asked:
        _refuse_missing(table, output, "a log or objects, which no plan looks at")
        return None
    from onlinegcp.planning import free_name, make_plan
    from onlinegcp.planning.sample import busiest

    settings = table.settings()
    chosen = ("time", "every", "modes", "value", "agg", "share")
    given = {name: settings.pop(name) for name in chosen}
    given |= {"loss": model.loss, "rank": model.rank, "init_slices": model.warm_start}
    of_model = dict(map(parse_setting, model.set))
    given |= {"output": output, "lower": of_model.get("lower")}
    # Units are learned by the default solver alone; whoever chose another divides by himself.
    given["scale"] = of_model.get("scale", of_model.get("solver"))
    source = source_of(sources, table.query)
    if by is not None:
        source, stem = busiest(source, by, table.format)
        given["output"] = output or free_name(stem)
    settings |= {"since": table.since, "until": table.until}
    plan = make_plan(source, given, format=table.format, settings=settings)
    return plan if model.method == "online_gcp" else _of_a_rival(plan, model)


def _of_a_rival(plan: Plan, model: ModelOptions) -> Plan:
    """The plan for a method that has no bound or units, finds no rank, and perhaps has no loss."""
    from onlinegcp.streaming import METHODS

    method = METHODS.get(model.method)  # an unknown one is refused by whoever makes it
    known = () if method is None else method._get_param_names()
    loss = plan.model["loss"] if "loss" in known else model.loss
    rank = model.usual_rank if model.rank is None else model.rank
    chosen = {"rank": rank, "loss": loss, "init_slices": plan.model["init_slices"], "lower": None}
    why = ["as you said", *(["its loss as for the default"] if loss != model.loss else [])]
    spelt = f"{model.method}, {'' if loss is None else f'{loss}, '}rank {rank}"
    lines = [
        line if line[0] != "model" else ("model", spelt, "; ".join(why)) for line in plan.lines
    ]
    return dataclasses.replace(plan, model=chosen, lines=tuple(lines))


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
        timezone=events.get("timezone", table.timezone),
        time_format=events.get("time_format", table.time_format),
    )
    lower = [] if chosen["lower"] is None else [f"lower={chosen['lower']:g}"]
    set_already = any(word.startswith("lower=") for word in model.set)
    bound = [] if set_already else lower
    if chosen.get("scale") is not None:
        bound = [*bound, f"scale={chosen['scale']}"]
    model = dataclasses.replace(
        model,
        rank=model.usual_rank if model.rank is None else model.rank,
        loss=chosen["loss"],
        warm_start=chosen["init_slices"],
        set=[*model.set, *bound],
    )
    return table, model


def by_words(by: str | None) -> list[str]:
    """The option that tells streams apart, as it was given."""
    return [] if by is None else ["--by", by]


def with_bound(sources: Sequence[str], table: TableOptions, model: ModelOptions) -> ModelOptions:
    """The options with a bound at 0 where the loss has none and no value is negative.

    For options that left nothing to plan; a source that cannot be looked at is left alone.
    """
    import polars

    from onlinegcp.events.remote import scheme_of
    from onlinegcp.planning.losses import natural_bound
    from onlinegcp.planning.sample import read_sample

    settings = dict(map(parse_setting, model.set))
    loss = model.loss or suitable_loss(table.agg, table.value)
    open_to_it = model.method == "online_gcp" and not {"lower", "solver"} & set(settings)
    readable = STANDARD_INPUT not in sources and not any(map(scheme_of, sources))
    # Asked of any positive number first: most losses have a bound, and need no look at the data.
    if not (open_to_it and readable) or natural_bound(loss, [1.0]) is None:
        return model
    columns = [] if table.value is None else table.value.split(",")
    try:
        frame = read_sample(source_of(sources), format=table.format).frame
        values: list[Any] = [frame[name].cast(polars.Float64).min() for name in columns] or [1.0]
    except (OnlineGCPError, OSError, polars.exceptions.PolarsError):
        return model  # whoever reads the table says what is wrong with it
    if natural_bound(loss, [value for value in values if value is not None]) is None:
        return model
    return dataclasses.replace(model, set=[*model.set, "lower=0"])


def extra_words(
    table: TableOptions, model: ModelOptions, of_the_run: Mapping[str, Any] | None = None
) -> list[str]:
    """Options a plan does not speak of, as they were given.

    Parameters
    ----------
    table, model
        The options.
    of_the_run
        Those of `fit` alone, by name.
    """
    words: list[str] = []
    plain = ("vocabulary", "empty", "timezone", "time_unit", "time_format", "max_gap")
    for name in ("query", *plain, "since", "until", "format"):
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
    for name, value in (of_the_run or {}).items():
        if value is True:
            words.append(f"--{name.replace('_', '-')}")
        elif value not in (None, False) and (name, value) != ("level", 0.01):
            words += [f"--{name.replace('_', '-')}", str(value)]
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

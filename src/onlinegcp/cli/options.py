"""Options that several commands share, and what they mean to the library."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from onlinegcp.errors import DataError

if TYPE_CHECKING:
    from onlinegcp.losses import Loss
    from onlinegcp.streaming import StreamingModel

_TABLE = Group.create_ordered("Table")
_MODEL = Group.create_ordered("Model")


def _read_whole(kind: Any, tokens: Sequence[Any]) -> int:
    """A whole number as it is written; the parser would round others."""
    text = tokens[0].value
    if not re.fullmatch(r"[+-]?\d{1,18}", text.strip()):
        raise ValueError(f"a whole number is needed, but {text!r} was given")
    return int(text)


def _read_rank(kind: Any, tokens: Sequence[Any]) -> int | str:
    text = str(tokens[0].value).strip()
    if text == "auto":
        return text
    try:
        return _read_whole(kind, tokens)
    except ValueError as error:
        raise ValueError(f"a whole number or auto is needed, but {text!r} was given") from error


def _read_number(kind: Any, tokens: Sequence[Any]) -> float:
    text = tokens[0].value
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"a number is needed, but {text!r} was given")
    return number


Whole = Annotated[int, Parameter(converter=_read_whole)]
Rank = Annotated[int | str, Parameter(converter=_read_rank)]
Number = Annotated[float, Parameter(converter=_read_number)]
# A word that begins with a bracket is a name, no JSON.
Words = Annotated[
    list[str],
    Parameter(consume_multiple=False, negative="", show_default=False, json_list=False),
]
Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Json = Annotated[bool, Parameter(name="--json", negative="", show_default=False)]
Quiet = Annotated[bool, Parameter(name=["--quiet", "-q"], negative="", show_default=False)]


@Parameter(name="*", group=_TABLE)
@dataclass(kw_only=True)
class TableOptions:
    """How a table of events becomes slices.

    Parameters
    ----------
    time
        Column that says when. This and what else is not given is chosen by a plan.
    every
        Length of a time bin: 1d, 1h, 15m, 1w, 1mo, ...
    modes
        Columns with commas between them; also pickup:hour, pickup:weekday, pickup:month and
        fare:bins=0/5/10.
    value
        Column of numbers to aggregate, or several with commas, whose names become a mode; without
        it events are counted.
    agg
        count, sum, any, mean or max.
    share
        Modes with one vocabulary, such as pu=do.
    top
        Keep that many of the most frequent labels and call the rest "other"; 50, or user=1000.
    vocabulary
        JSON file of labels by mode, known from the start.
    on_new
        What happens to labels outside a given vocabulary: grow, other or error.
    on_late
        What happens to rows whose bin is closed: drop or error.
    on_null
        What happens to rows without time, key or value: drop or error.
    empty
        What a bin without events becomes: zero, missing or skip.
    timezone
        Zone of the calendar, such as America/New_York.
    time_unit
        Unit of numbers in the time column: y, d, s, ms, us or ns.
    time_format
        Format of times that is not recognised, such as "%d/%m/%Y %H:%M".
    max_gap
        Most empty bins in a row.
    since
        Leave out rows before this time.
    until
        Leave out rows at or after this time.
    format
        parquet, arrow, csv or jsonl, should it not be recognised.
    query
        What to ask a database for: "select ...".
    """

    time: str | None = None
    every: str | None = None
    modes: Words = field(default_factory=list)
    value: str | None = None
    agg: str | None = None
    share: Words = field(default_factory=list)
    top: Words = field(default_factory=list)
    vocabulary: str | None = None
    on_new: str = "grow"
    on_late: str = "drop"
    on_null: str = "drop"
    empty: str | None = None
    timezone: str | None = None
    time_unit: str | None = None
    time_format: str | None = None
    max_gap: Whole | None = None
    since: str | None = None
    until: str | None = None
    format: str | None = None
    query: str | None = None

    @property
    def values(self) -> str | list[str] | None:
        """The value column, or several."""
        found = [word for word in (self.value or "").split(",") if word]
        return None if not found else found[0] if len(found) == 1 else found

    @property
    def missing(self) -> list[str]:
        """Options that a table cannot be read without, and that were not given."""
        found = [name for name in ("time", "every") if getattr(self, name) is None]
        return found if self.modes or self.value else [*found, "modes"]

    def settings(self) -> dict[str, Any]:
        """Arguments of `from_events` that hold for every source."""
        from onlinegcp.events.modes import parse_share

        plain = (
            *("time", "agg", "vocabulary", "on_new", "on_late", "on_null", "empty"),
            *("timezone", "time_unit", "time_format", "max_gap"),
        )
        modes = [mode for word in self.modes for mode in word.split(",") if mode]
        share = [parse_share(group) for word in self.share for group in word.split(",")]
        return {
            **{name: getattr(self, name) for name in plain},
            "every": int(self.every) if self.every and self.every.isdigit() else self.every,
            "modes": modes,
            "value": self.values,
            "share": share,
            "top": _top(self.top),
        }

    def of_the_source(self) -> dict[str, Any]:
        """Arguments of `from_events` that hold for this source."""
        return {"since": self.since, "until": self.until, "format": self.format}


@Parameter(name="*", group=_MODEL)
@dataclass(kw_only=True)
class ModelOptions:
    """What is learned.

    Parameters
    ----------
    rank
        Number of patterns, or auto, the default: found in the first slices, and grown and shrunk
        along the stream where that predicts better, up to --set max_rank=50. Rivals take 10.
    loss
        How data are measured: poisson for counts, bernoulli_odds for yes or no, gaussian for
        measurements, gamma, negative_binomial:r=2, ... By default what suits the table.
    method
        online_gcp, or a rival: online_sgd, online_cp, cp_stream, olstec, rlst, sdt, acp, gocpte.
    warm_start
        Slices the first model is made from; by default 10, or fewer where there are few.
    seed
        Seed of the random draws.
    jobs
        Threads, or with --by processes: by default every core, threads only where slices are large
        enough for it; the result does not depend on their number.
    cluster
        A Dask cluster that shares the work on large slices, with the same result: its scheduler,
        tcp://host:8786, or local:4 for four processes here. Needs onlinegcp[cluster].
    device
        Where to compute: cpu, cuda (an NVIDIA card, onlinegcp[cuda]), or auto, the card where it
        gains.
    set
        Any other parameter of the method, as name=value.
    """

    rank: Rank | None = None
    loss: str | None = None
    method: str = "online_gcp"
    warm_start: Whole | None = None
    seed: Whole = 0
    jobs: Whole | None = None
    cluster: str | None = None
    device: str = "cpu"
    set: Words = field(default_factory=list)

    @property
    def usual_rank(self) -> int | str:
        """What is taken where no rank is given: only the default solver finds its own."""
        solver = dict(map(parse_setting, self.set)).get("solver", "auto")
        return "auto" if self.method == "online_gcp" and solver == "auto" else 10

    def build(self, agg: str | None, value: str | None, *, threads: bool = True) -> StreamingModel:
        """The model; what suits the table fills in the loss. Without threads, it has one."""
        return make_model(
            self.method,
            {
                "rank": self.usual_rank if self.rank is None else self.rank,
                "loss": self.loss or suitable_loss(agg, value),
                "init_slices": 10 if self.warm_start is None else self.warm_start,
                "random_state": self.seed,
                "n_jobs": self.jobs if threads else 1,
                **({} if self.cluster is None else {"cluster": self.cluster}),
                "device": self.device,
                **dict(map(parse_setting, self.set)),
            },
            given={"rank", "device", *([] if self.loss is None else ["loss"])},
        )


def make_model(method: str, parameters: dict[str, Any], given: set[str]) -> StreamingModel:
    """A model by the name of its method.

    Parameters
    ----------
    method
        A name in `streaming.METHODS`.
    parameters
        Its parameters; those it does not have are an error if they are in `given`.
    given
        Names the user asked for.
    """
    from onlinegcp.errors import closest
    from onlinegcp.streaming import METHODS, SGD

    if method not in METHODS:
        raise DataError(
            f"method must be one of {', '.join(METHODS)}, but is {method!r}."
            f"{closest(method, METHODS)} Choose one of them."
        )
    known = METHODS[method]._get_param_names()
    parameters, of_sgd = dict(parameters), {}
    if "solver" in known and parameters.get("solver") == "sgd":
        of_sgd = {n: parameters.pop(n) for n in SGD._get_param_names() if n in parameters}
    if parameters.get("device") == "cpu":
        given = given - {"device"}  # what every method does
    common = {"loss", "n_jobs", "init_slices", "random_state", "device"} - given
    for name in parameters:
        if name not in known and name not in common:
            raise DataError(
                f"The method {method} has the parameters {', '.join(known)}, but {name!r} was "
                f"given.{closest(name, known)} {_advice(name, known)}"
            )
    chosen = {name: value for name, value in parameters.items() if name in known}
    if of_sgd:
        chosen["solver"] = SGD(**of_sgd)
    if isinstance(chosen.get("loss"), str):
        chosen["loss"] = parse_loss(chosen["loss"])
    return METHODS[method](**chosen)


def _advice(name: str, known: Collection[str]) -> str:
    from onlinegcp.streaming import SGD

    if "solver" in known and name in SGD._get_param_names():
        return "It belongs to the paper's solver: add --set solver=sgd, or leave it out."
    return "Correct it or leave it out."


def suitable_loss(agg: str | None, value: str | None) -> str:
    """The loss that suits what the cells hold."""
    aggregation = agg or ("count" if value is None else "sum")
    return {"count": "poisson", "any": "bernoulli_odds"}.get(aggregation, "gaussian")


def parse_loss(text: str) -> str | Loss:
    """A loss from its spelling, such as poisson or negative_binomial:r=2.

    Examples
    --------
    >>> parse_loss("poisson"), parse_loss("huber:delta=0.5")
    ('poisson', huber(delta=0.5))
    """
    from onlinegcp.losses import get_loss

    name, colon, rest = text.partition(":")
    if not colon:
        get_loss(name)  # refuses what it does not know, and suggests
        return name
    return get_loss(name, **dict(map(parse_setting, rest.split(","))))


def parse_setting(text: str) -> tuple[str, Any]:
    """A name and a value.

    Examples
    --------
    >>> parse_setting("forget=30"), parse_setting("solver=sgd"), parse_setting("lower=none")
    (('forget', 30), ('solver', 'sgd'), ('lower', None))
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise DataError(f"A setting is written name=value, but {text!r} was found. Correct it.")
    words = {"none": None, "true": True, "false": False}
    if value.lower() in words:
        return name, words[value.lower()]
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def named(sources: tuple[str, ...]) -> str:
    """What was read, as a title says it."""
    return ", ".join(sources[:3]) + (" ..." if len(sources) > 3 else "")


def source_of(sources: Sequence[str], query: str | None = None) -> Any:
    """What `from_events` is to read."""
    from onlinegcp.cli import STANDARD_INPUT

    if query is not None and len(sources) == 1:
        from onlinegcp.events.remote.databases import database

        return database(sources[0], query)
    if query is not None:
        raise DataError(
            f"A query needs one database, but {len(sources)} sources were given. Name one."
        )
    if not sources:
        raise DataError(
            "At least one file is needed, but none was given. Name files, patterns or directories, "
            "or - for standard input."
        )
    if STANDARD_INPUT in sources:
        if len(sources) > 1:
            raise DataError(
                "Standard input must be the only source, but files were given as well. Leave one "
                "of them out."
            )
        return "-"
    return list(sources)


def _top(words: Sequence[str]) -> int | dict[str, int] | None:
    found: dict[str, int] = {}
    for word in words:
        name, equals, number = word.rpartition("=")
        if not number.isdigit() or (not equals and len(words) > 1):
            raise DataError(
                f"top must be a whole number, or one for each of several modes, but {word!r} was "
                "found. Write for example --top 50, or --top user=1000."
            )
        if not equals:
            return int(number)
        found[name] = int(number)
    return found or None

"""The gallery: six data sets, each with its command, a picture and what one learns from it.

    python docs/gallery.py         # run all, check every sentence, write page and pictures
    python docs/gallery.py birds   # one of them, and keep what the page has of the others

What a paragraph says is checked against the run (`check`): if it is no longer true, the script
fails and its part of the page stays as it was. Data are read from `ONLINEGCP_DATA`, else from
`shared/data` beside the repository; they are not part of the package. Needs Chromium and
playwright.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from pictures import PROGRAM, take

from onlinegcp.runlog import RunView, anomaly_of, read_run

HERE = Path(__file__).parent
PAGE = HERE / "gallery.md"

HEAD = """\
# Gallery

*This page is written by `python docs/gallery.py`, which runs the commands and checks what is said.*

Six tables as people have them: what was typed, what it shows, what one learns. The data are public
but not part of the package; each entry says where they come from.
"""


@dataclass(frozen=True)
class Entry:
    """One data set: where it is, what is typed, what is said, and whether that is true."""

    name: str
    title: str
    about: str
    source: str
    command: str
    picture: tuple[str, int]
    alt: str
    learned: str
    check: Callable[[RunView], None]
    credit: str
    prepare: Callable[[Path], pl.DataFrame] | None = None
    days: tuple[str, ...] = ()
    press: tuple[str, ...] = ()  # on buttons of the report, before the picture is taken


def _crimes(folder: Path) -> pl.DataFrame:
    found = pl.read_parquet(folder / "chicago_crime_counts.parquet")
    labels = json.loads((folder / "labels.json").read_text())
    names = {
        mode: pl.Series([label.title() for label in labels[f"{mode}_labels"]])
        for mode in ("area", "type")
    }
    two_years = found.filter(pl.col("day").is_between(730, 1460))
    return two_years.select(
        date=pl.date(2001, 1, 1) + pl.duration(days=pl.col("day")),
        hour="hour",
        area=names["area"].gather(two_years["area"]),
        type=names["type"].gather(two_years["type"]),
        count="count",
    )


def _days(view: RunView) -> dict[str, Any]:
    return {str(step["time"]): anomaly_of(step) for step in view.steps}


def _flagged(view: RunView) -> list[str]:
    return [time for time, anomaly in _days(view).items() if anomaly.get("flagged")]


def _share(view: RunView, label: str, first: str, last: str) -> float:
    """Share of the pattern that has most of a label, in the slices between two times."""
    rows = [labels.index(label) for labels in view.labels if label in labels]
    mode = next(k for k, labels in enumerate(view.labels) if label in labels)
    pattern = int((view.factors[mode][rows[0]] / view.factors[mode].sum(0)).argmax())
    chosen = [step["weights"] for step in view.steps if first <= str(step["time"]) < last]
    return sum(w[pattern] for w in chosen) / sum(map(sum, chosen))


def _top(view: RunView, mode: str, n: int = 1) -> list[list[str]]:
    """The strongest labels of each pattern in a mode."""
    k = view.modes.index(mode)
    order = (-view.factors[k]).argsort(0)[:n]
    return [[view.labels[k][row] for row in column] for column in order.T]


def _check_crimes(view: RunView) -> None:
    raid = _days(view)["2003-10-16"]
    assert raid["flagged"], raid
    assert "Austin x 6" in raid["sentence"], raid["sentence"]
    assert "Narcotics x 3" in raid["sentence"], raid["sentence"]
    assert {"2004-01-01", "2004-11-25", "2004-12-25"} <= set(_flagged(view))
    kinds, areas = _top(view, "type"), _top(view, "area", 2)
    hours = [top[0] for top in _top(view, "hour")]
    found = {
        kind[0]: (set(area), hour) for kind, area, hour in zip(kinds, areas, hours, strict=True)
    }
    assert "Austin" in found["Narcotics"][0], found
    assert found["Narcotics"][1] in ("19", "20", "21"), found
    assert found["Prostitution"][1] in ("19", "20", "21", "22"), found
    assert (["Theft"], {"Near North Side", "Loop"}) in [
        (kind, set(area)) for kind, area in zip(kinds, areas, strict=True)
    ], list(zip(kinds, areas, strict=True))


def _check_rides(view: RunView) -> None:
    seasons = {"before": ("2019-10-01", "2020-03-01"), "spring": ("2020-03-30", "2020-05-18")}
    seasons["after"] = ("2020-10-01", "2021-01-01")
    harlem = {name: _share(view, "75", *times) for name, times in seasons.items()}
    nights = {name: _share(view, "79", *times) for name, times in seasons.items()}
    assert harlem["before"] < 0.05, harlem
    assert harlem["spring"] > 0.2, harlem
    assert harlem["after"] < 0.1, harlem
    assert nights["before"] > 0.1, nights
    assert nights["spring"] < 0.03, nights
    assert {"2020-03-16", "2020-03-23"} <= set(_flagged(view))


def _check_air(view: RunView) -> None:
    tops = dict(zip(map(tuple, _top(view, "measure")), _top(view, "time:hour"), strict=True))
    assert tops[("o3",)][0] in ("14", "15", "16", "17"), tops
    assert {"2014-10-09", "2014-10-12"} <= set(_flagged(view)), _flagged(view)
    assert "pm25 x 3.98" in _days(view)["2014-10-09"]["sentence"], _days(view)["2014-10-09"]


def _check_questions(view: RunView) -> None:
    assert view.factors[0].shape[0] == 501, view.factors[0].shape
    writers = [set(top) - {"other"} for top in _top(view, "src", 4)]
    kinds = [top[0] for top in _top(view, "kind")]
    answers = set().union(*(w for w, kind in zip(writers, kinds, strict=True) if kind == "c2a"))
    assert answers, kinds
    assert any(
        not (w & answers) for w, kind in zip(writers, kinds, strict=True) if kind == "c2q"
    ), list(zip(kinds, writers, strict=True))
    shares = []
    for year in range(2010, 2016):
        chosen = [step["weights"] for step in view.steps if str(step["time"])[:4] == str(year)]
        sums = [sum(column) for column in zip(*chosen, strict=True)]
        shares.append([one / sum(sums) for one in sums])
    largest = [max(range(len(row)), key=row.__getitem__) for row in shares]
    assert len(set(largest)) > 1, shares


def _check_passengers(view: RunView) -> None:
    marathon, blizzard = {"2014-11-01", "2014-11-02"}, {"2015-01-26", "2015-01-27"}
    holidays = {"2014-11-27", "2014-11-28", *(f"2014-12-{day}" for day in (25, 26, 27))}
    expected = marathon | holidays | {"2015-01-01"} | blizzard
    assert expected == set(_flagged(view)), _flagged(view)


def _check_birds(view: RunView) -> None:
    airports, species = _top(view, "Airport Name"), _top(view, "Wildlife Species", 3)
    airlines = _top(view, "Aircraft Airline Operator", 2)
    rows = zip(airports, airlines, species, strict=True)
    found = {airport[0]: {*airline, *bird} for airport, airline, bird in rows}
    assert {"HAWAIIAN AIR", "Pacific golden-plover"} <= found["LIHUE ARPT"], found
    assert {"MILITARY", "Mourning dove"} <= found["BARKSDALE AIR FORCE BASE ARPT"], found
    assert "FEDEX EXPRESS" in found["MEMPHIS INTL"], found
    assert "AMERICAN AIRLINES" in found["DALLAS/FORT WORTH INTL ARPT"], found


ENTRIES = (
    Entry(
        "crimes",
        "Chicago: what happens where, and when the police came",
        "835,000 crime reports of two years, by community area, kind and hour.",
        "chicago_crime",
        "onlinegcp fit crimes.parquet --time date --every 1d --modes area,type,hour --value "
        "count --agg sum --loss poisson --rank 10 -o crimes.run",
        ("#patterns", 860),
        "The first patterns: fights, drugs by area and hour, break-ins found in the morning",
        "Each kind of trouble has its places and its hours: narcotics in the evening in "
        "Austin and its neighbours, theft on the Near North Side and in the Loop, "
        "prostitution after dark. And single days stand out in one place. On 16 October 2003 "
        "Austin had six times its usual number of reports, and the city three times its usual "
        "cases of narcotics, which looks like a police sweep. The total was no more than "
        "busy.",
        _check_crimes,
        "City of Chicago Data Portal, Crimes 2001 to Present; modified for use from the "
        "original source.",
        _crimes,
        ("2003-10-16",),
    ),
    Entry(
        "rides",
        "New York's taxis in the spring of 2020",
        "354,000 rides, a sample of 10,000 a month from 2018 to 2020, by zones and hour, a "
        "slice per week.",
        "nyc_yellow_taxi_sample/yellow_sample_2018_2020.parquet",
        "onlinegcp fit rides.parquet --time pickup_time --every 1w --modes "
        "pu_zone,do_zone,pickup_time:hour --share pu_zone=do_zone --rank 8 -o rides.run",
        ("#time", 720),
        "Strength of each pattern over three years; in March 2020 most fall and one rises",
        "The sample holds 10,000 rides of every month, so that totals by month tell nothing. "
        "The patterns do: late evenings in the East Village (zone 79), a tenth of all rides "
        "and more until February, fall below 3 %, and East Harlem (zones 74 and 75), less "
        "than 5 % before, holds more than a fifth of what is left until the middle of May. In "
        "autumn it is back below a tenth.",
        _check_rides,
        "NYC Taxi and Limousine Commission trip records; sample of the Great Expectations project.",
        lambda file: pl.read_parquet(file),
        ("2020-03-16", "2020-04-06"),
        ("7 · From 75 and 74",),
    ),
    Entry(
        "air",
        "Beijing's air: measurements with gaps",
        "Five pollutants at twelve stations, every hour for two years. Whole stations are "
        "missing for days.",
        "beijing_air_quality/beijing_air.parquet",
        "onlinegcp fit air.parquet --time time --every 1d --modes station,time:hour --value "
        "pm25,pm10,so2,no2,o3 --agg mean --set lower=0 --rank 6 --until 2015-03-01 -o air.run",
        ("#patterns", 860),
        "The first patterns: ozone in the afternoon, particles in the morning, nitrogen dioxide",
        "Ozone has a pattern of its own, made by the sun in the afternoon and strongest out "
        "of town, in Dingling. Particles have several, one for each part of the day, and "
        "nitrogen dioxide goes with sulphur dioxide from traffic and heating. Gaps are gaps, "
        "no zeros: a silent station does not look like clean air. The smog that came on 7 "
        "October 2014 is flagged on its third day, when particles were four times as many as "
        "usual, and so is the wind that ended it.",
        _check_air,
        "Zhang et al., Proc. R. Soc. A 473 (2017); UCI Machine Learning Repository 501, CC BY 4.0.",
        lambda file: pl.read_parquet(file),
        ("2014-10-09", "2014-10-12"),
    ),
    Entry(
        "questions",
        "MathOverflow: a community whose members change",
        "507,000 answers and comments in six years: who, to whom, what kind. The 500 busiest "
        "members have names, the others are one.",
        "mathoverflow/mathoverflow.parquet",
        "onlinegcp fit questions.parquet --time time --every 1w --modes src,dst,kind --share "
        "src=dst --top 500 --rank 8 -o questions.run",
        ("#time", 720),
        "Strength of each pattern from 2009 to 2016",
        "Those who comment on answers are not those who comment on questions: the patterns "
        "have different members at their heads. And they change: the strongest pattern of one "
        "year is not that of every other. The model follows, week by week, and never looks "
        "back at a week that was learned.",
        _check_questions,
        "SNAP sx-mathoverflow (Paranjape, Benson, Leskovec, WSDM 2017); Stack Exchange data "
        "dump, CC BY-SA.",
        lambda file: pl.read_parquet(file),
    ),
    Entry(
        "passengers",
        "Taxi passengers: which days were not like the others?",
        "Passengers per half hour from July 2014 to January 2015: a table of two columns.",
        "labelled/nab_nyc_taxi.csv",
        "onlinegcp fit passengers.csv --time timestamp --every 1d --modes timestamp:hour "
        "--value value --agg sum --loss poisson --rank 3 -o passengers.run",
        ("#unusual", 620),
        "How likely each day was; Thanksgiving, Christmas, New Year and the blizzard stand out",
        "Of 205 days scored, ten are flagged: the weekend of the marathon, when clocks were set "
        "back, Thanksgiving and the day after, Christmas and the two days after, New Year's Day "
        "and the blizzard of 26 and 27 January. The sentence says what was odd: on New Year's Day "
        "not the total, but six times as many passengers at three in "
        "the morning.",
        _check_passengers,
        "Numenta Anomaly Benchmark, realKnownCause/nyc_taxi.",
        None,
        ("2015-01-01", "2015-01-27"),
    ),
    Entry(
        "birds",
        "Birds that met aeroplanes",
        "10,000 reported strikes from 1990 to 2002, fourteen columns, and nothing said about "
        "any of them: the plan takes a slice per month, and airport, airline and species as "
        "its modes.",
        "tables/birdstrikes.csv",
        "onlinegcp fit birds.csv",
        ("#patterns", 760),
        "The first patterns of bird strikes, with their airports, airlines and species",
        "Sixty events a month are enough for a map of who meets whom: American in Dallas, "
        "FedEx in Memphis, the military at its own airfields with mourning doves, and Hawaii, "
        "where Hawaiian Airlines meet the Pacific golden-plover. It winters there, often on the "
        "lawns of airports. The months of each pattern show when birds are on the move.",
        _check_birds,
        "Federal Aviation Administration, by way of the Vega project's example data.",
    ),
)


def data_folder() -> Path:
    """Where the data sets are."""
    given = os.environ.get("ONLINEGCP_DATA")
    return Path(given) if given else HERE.parents[1] / "shared" / "data"


def _lay_out(entry: Entry, place: Path) -> None:
    """The table of an entry under the name its command uses."""
    source = data_folder() / entry.source
    table = place / shlex.split(entry.command)[2]
    if entry.prepare is None:
        table.write_bytes(source.read_bytes())
    else:
        entry.prepare(source).write_parquet(table)


def make(entry: Entry) -> str:
    """Run an entry, check what is said of it, take its picture; its part of the page."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _lay_out(entry, place)
        for words in (shlex.split(entry.command), ["onlinegcp", "report", f"{entry.name}.run"]):
            more = ["--quiet"] if words[1] == "fit" else ["--no-global"]
            subprocess.run([PROGRAM, *words[1:], *more], cwd=place, check=True)
        view = read_run(place / f"{entry.name}.run")
        entry.check(view)
        report = place / f"{entry.name}.run" / "report.html"
        take(report, {f"gallery-{entry.name}": entry.picture}, press=entry.press)
        told = [_days(view)[day]["sentence"] for day in entry.days]
    return _part(entry, told)


def _filled(text: str, mark: str = "") -> str:
    text = text.replace(" %", "\u00a0%")  # a line that begins with % is a comment, and is left out
    return textwrap.fill(text, 112, initial_indent=mark, subsequent_indent=mark)


def _part(entry: Entry, told: list[str]) -> str:
    command = re.sub(r" (?=--(modes|value|loss|share|rank|agg)\b)", "\n", entry.command)
    lines = command.split("\n")
    wrapped = [lines[0]]
    for line in lines[1:]:
        if len(wrapped[-1]) + len(line) < 86:
            wrapped[-1] += f" {line}"
        else:
            wrapped.append(f"    {line}")
    said = "".join(f"\n{_filled(sentence, '> ')}\n" for sentence in told)
    return f"""
(gallery-{entry.name})=
## {entry.title}

{_filled(entry.about)}

<!-- not run: the data are not part of the package; docs/gallery.py runs it -->

```sh
{f" {chr(92)}{chr(10)}".join(wrapped)}
```

![{entry.alt}](figures/gallery-{entry.name}.png)

{_filled(entry.learned)}
{said}
*Data: {entry.credit}*
"""


def main(names: list[str]) -> None:
    """Write the page."""
    missing = [e.source for e in ENTRIES if not (data_folder() / e.source).exists()]
    if missing:
        print(f"Left as it is: {', '.join(missing)} are not in {data_folder()} (ONLINEGCP_DATA).")
        return
    parts = dict(re.findall(r"(?s)(\n\(gallery-(\w+)\)=\n.*?)(?=\n\(gallery-|\Z)", _old()))
    parts = {name: part.rstrip() + "\n" for part, name in parts.items()}
    for entry in ENTRIES:
        if not names or entry.name in names:
            parts[entry.name] = make(entry)
            told = "".join(parts.get(e.name, "") for e in ENTRIES)
            PAGE.write_text(HEAD + told, encoding="utf-8")


def _old() -> str:
    return PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""


if __name__ == "__main__":
    main(sys.argv[1:])

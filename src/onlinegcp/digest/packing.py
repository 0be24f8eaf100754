"""A digest as arrays and JSON, and back: what a long run keeps beside its lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.digest import digest as limits
from onlinegcp.digest.by_component import padded
from onlinegcp.digest.digest import Digest
from onlinegcp.digest.sums import WeightSums
from onlinegcp.digest.thinning import Point, Thinned
from onlinegcp.runlog import Position, RunView, Step

Arrays = dict[str, NDArray[Any]]
Record = dict[str, Any]

# Another one is not read, and made anew.
VERSION = 2
_COUNTS = (
    *("count", "scored", "flagged", "warm", "held", "births", "deaths", "merges"),
    *("events", "seconds", "first_time", "n_regimes", "times"),
)
_OF_FIT = ("count", "loss", "size", "even_counts", "even_binary", "means")
# Fields of a point: one number each, several each, and one per component.
_SINGLE = ("first", "last", "count", "warm", "held", "partial", "flagged", "low", "high")
_SEVERAL = ("happened", "total", "expected", "losses")
_PER_COMPONENT = ("weights", "known", "drift")
# What a page says about the oddest slice of a point, whose details are kept elsewhere if at all.
_OF_AN_ANOMALY = (
    *("p", "z", "score", "flagged", "severity", "kind", "volume_p", "total"),
    *("expected_total", "expected_low", "expected_high"),
)


def pack(digest: Digest, position: Position) -> tuple[Arrays, Record]:
    """A digest that was settled, and how far it has read."""
    kept = digest.details.state()
    lists = {
        **{name: [step.get("number") for step in steps] for name, steps in kept.items()},
        "newest": [step.get("number") for step in digest.newest],
        "regimes": [[step.get("number") for step in pair] for pair in digest.regimes],
    }
    every = (*digest.newest, *(s for steps in kept.values() for s in steps))
    steps = {step.get("number"): step for step in (*(s for p in digest.regimes for s in p), *every)}
    points = list(digest.series)
    odd = [
        (p.odd.get("number"), p.odd.get("time"), p.odd.get("total"), _short(p.odd.get("anomaly")))
        for p in points
    ]
    told = {
        "lists": lists,
        "steps": list(steps.values()),
        "odd": odd,
        "began": [p.began for p in points],
        "regime": [p.regime for p in points],
    }
    sums, record = digest.weights.state()
    rank = max((len(p.weights) for p in points), default=0)
    arrays: Arrays = {
        **sums,
        **{f"point.{n}": np.array([getattr(p, n) for p in points]) for n in (*_SINGLE, *_SEVERAL)},
        **{
            f"point.{name}": np.array([padded(getattr(p, name), rank) for p in points])
            for name in _PER_COMPONENT
        },
        "point.rank": np.array([len(p.weights) for p in points], dtype=np.int64),
        "told": np.frombuffer(json.dumps(told, separators=(",", ":")).encode(), dtype=np.uint8),
        "last": np.frombuffer(position.last, dtype=np.uint8),
    }
    return arrays, {
        "limits": _limits(digest),
        "offset": position.offset,
        "n_steps": digest.count,
        "weights": record,
        "fit": {name: getattr(digest.fit, name) for name in _OF_FIT},
        "sums": {name: getattr(digest, name) for name in _COUNTS},
        "series": [digest.series.most, digest.series.stride],
    }


def unpack(
    view: RunView, arrays: Mapping[str, NDArray[Any]], record: Mapping[str, Any]
) -> tuple[Digest, Position] | None:
    """What `pack` gave, for a run as it is now; None where another version made it.

    Raises a KeyError, TypeError, ValueError or IndexError where it is not whole.
    """
    found = Digest(view)
    if record["limits"] != _limits(found):
        return None
    told = json.loads(arrays["told"].tobytes())
    steps: dict[Any, Step] = {step.get("number"): step for step in told["steps"]}
    lists = told["lists"]
    found.details.restore(*([steps[n] for n in lists[name]] for name in ("odd", "last", "alarms")))
    found.newest.extend(steps[number] for number in lists["newest"])
    found.regimes.extend((steps[a], steps[b]) for a, b in lists["regimes"])
    for name in _COUNTS:
        setattr(found, name, record["sums"][name])
    for name in _OF_FIT:
        setattr(found.fit, name, record["fit"][name])
    found.weights = WeightSums.from_state(arrays, record["weights"])
    most, stride = record["series"]
    found.series = Thinned(most, stride, _points(arrays, told, steps))
    return found, Position(int(record["offset"]), arrays["last"].tobytes(), found.count)


def _points(
    arrays: Mapping[str, NDArray[Any]], told: Mapping[str, Any], steps: Mapping[Any, Step]
) -> list[Point]:
    single = {name: arrays[f"point.{name}"].tolist() for name in _SINGLE}
    several = {name: arrays[f"point.{name}"] for name in (*_SEVERAL, *_PER_COMPONENT)}
    found = []
    for k, rank in enumerate(arrays["point.rank"].tolist()):
        number, time, total, anomaly = told["odd"][k]
        # The details of a slice are in one place, from which they may be taken.
        whole = steps.get(number)
        if whole is not None and whole.get("anomaly"):
            anomaly = whole["anomaly"]
        fields: dict[str, Any] = {
            "odd": {"number": number, "time": time, "total": total, "anomaly": anomaly},
            "began": told["began"][k],
            "regime": told["regime"][k],
            **{name: values[k] for name, values in single.items()},
            **{name: several[name][k] for name in _SEVERAL},
            **{name: several[name][k, :rank].copy() for name in _PER_COMPONENT},
        }
        found.append(Point(**fields))
    return found


def _short(anomaly: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not anomaly:
        return None
    return {name: anomaly[name] for name in _OF_AN_ANOMALY if name in anomaly}


def _limits(digest: Digest) -> list[Any]:
    """What a digest depends on besides the lines."""
    return [
        *(VERSION, digest.divisor, limits.MOST_POINTS, limits.MOST_NUMBERS, limits.MOST_DETAILS),
        *(limits.NEWEST, limits.NEWEST_DETAILS, limits.MOST_REGIMES),
    ]

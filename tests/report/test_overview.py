"""The page of many streams: what it is given, escaped, and nothing that runs."""

from __future__ import annotations

from types import SimpleNamespace

from onlinegcp.report.overview import MOST_STREAMS, render_overview

FACTS = {
    "by": "customer", "streams": 2, "slices": 20, "flagged": 3, "stopped": ["b"],
    "first": "2018-01-01", "last": "2018-01-10",
}  # fmt: skip


def stream(name, **changes):
    row = {"stream": name, "slices": 10, "flagged": 1, "labels": "3 x 4", "last": "2018-01-10"}
    return {**row, "oddest": "quiet", "problem": None, "warming_up": 0, **changes}


def alarm(name, score, sentence="It rained."):
    anomaly = {"p": 10**-score, "score": score, "flagged": True, "severity": "high"}
    return {"stream": name, "time": "2018-01-09", "anomaly": {**anomaly, "sentence": sentence}}


def page(steps=(), by_time=None, streams=()):
    odd = SimpleNamespace(steps=list(steps), by_time=by_time or {})
    return render_overview("shops.run", FACTS, odd, streams)


def test_it_tells_alarms_and_streams():
    text = page(
        [alarm("b", 5.0), alarm("a", 3.0)],
        {"2018-01-08": 1, "2018-01-09": 2},
        [stream("b", problem="a value of 1e200"), stream("a"), stream("c", warming_up=4)],
    )
    assert text.index("1.0e-05") < text.index("1.0e-03")
    assert "Stopped: a value of 1e200" in text
    assert "4 slices wait" in text
    assert text.count("<rect") == 2


def test_labels_cannot_become_markup():
    hostile = '<img src=x onerror=alert(1)>"&\x1b[2J'
    text = page([alarm(hostile, 5.0, hostile)], {hostile: 1}, [stream(hostile, oddest=hostile)])
    assert "<img" not in text
    assert "\x1b" not in text
    assert "script" not in text.replace("noscript", "").partition("</style>")[2]


def test_it_stays_small():
    text = page(streams=[stream(f"s{k}") for k in range(5 * MOST_STREAMS)])
    assert text.count("<tr>") < MOST_STREAMS + 10
    assert len(page(streams=[stream("x" * 300_000)])) < 100_000
    assert "No slice was flagged" in page()

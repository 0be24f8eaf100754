"""How objects show themselves: short, readable, and safe whatever labels say."""

from __future__ import annotations

import datetime
import re

import numpy as np
import pytest

from onlinegcp import DataError, KTensor, OnlineGCP, Slice, from_events, load_flights
from onlinegcp.notebook import component_table
from onlinegcp.notebook.html import bars, joined, text
from onlinegcp.run import Run
from onlinegcp.streaming import METHODS

EVIL = "<script>alert('x')</script>&\"\x1b[2J"


def slices(n=6, shape=(5, 4), seed=0):
    rng = np.random.default_rng(seed)
    first = datetime.date(2024, 1, 1)
    return [
        Slice.dense(rng.poisson(4.0, shape).astype(float), time=first + datetime.timedelta(days=t))
        for t in range(n)
    ]


def shown(tmp_path):
    """One of each thing that shows itself, with labels that try to be markup."""
    model = OnlineGCP(2, "poisson", init_slices=3).fit(slices())
    labels = [[f"{EVIL}{n}" for n in range(length)] for length in (5, 4)]
    run = Run.create(
        tmp_path / "r.run", OnlineGCP(2, "poisson", init_slices=3), modes=["a", EVIL], labels=labels
    )
    with run:
        run.learn(slices())
    stream = from_events({"t": ["2024-01-01"], "a": [EVIL]}, time="t", every="1d", modes=["a"])
    next(stream)
    return {
        "model": model,
        "new model": OnlineGCP(2),
        "ktensor": model.to_ktensor(labels),
        "table": model.components(labels, modes=["a", EVIL]),
        "slice": slices()[0],
        "empty slice": Slice([], [], (3, 2)),
        "events": stream,
        "run": run,
        "stream": load_flights(),
    }


def test_everything_shows_itself_without_scripts_or_addresses(tmp_path):
    for name, thing in shown(tmp_path).items():
        html = thing._repr_html_()
        assert html.startswith("<"), name
        assert "<script" not in html.lower(), name
        assert not re.search(r"https?:|src=|href=|@import|url\(", html), name
        assert len(html) < 60_000, name
        assert html.count("<div") == html.count("</div"), name
        assert len(repr(thing)) < 600, name


def test_what_was_learned_is_what_a_notebook_shows(tmp_path):
    things = shown(tmp_path)
    bundle = things["model"]._repr_mimebundle_()
    assert "6 slices" in bundle["text/html"]
    assert bundle["text/plain"] == repr(things["model"])
    assert "not fitted" in things["new model"]._repr_html_()
    assert repr(things["events"]) == "EventStream(a 1; every 1d, 1 slices read)"
    assert "6 slices up to 2024-01-06" in repr(things["run"])


@pytest.mark.parametrize("method", METHODS)
def test_components_are_those_of_the_model_by_number(method):
    model = METHODS[method](2, init_slices=3).fit(slices())
    table = model.components([list("vwxyz"), None], modes=["letter", "place"], top=2)
    assert len(table) == len(model.weights_)
    shares = []
    for row in table:
        column = row["component"] - 1
        for k, mode in enumerate(("letter", "place")):
            factor = np.abs(model.factors_[k][:, column])
            if not factor.any():  # some methods give components up
                assert row["modes"][mode] == []
                continue
            label, share = row["modes"][mode][0]
            names = list("vwxyz") if k == 0 else list("0123")
            assert names.index(label) == factor.argmax()
            assert abs(share) == pytest.approx(factor.max() / factor.sum())
        shares.append(row["share"])
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1.0)


def test_a_table_has_one_line_per_pattern_and_no_long_ones():
    rng = np.random.default_rng(0)
    labels = [["a label that goes on and on " * 3] * 30, None]
    found = repr(component_table(np.ones(4), [rng.random((30, 4)), rng.random((3, 4))], labels))
    lines = found.splitlines()
    assert len(lines) == 5
    assert max(map(len, lines)) < 100


def test_labels_may_be_a_stream_that_knows_more_than_the_model():
    flights = load_flights()
    model = OnlineGCP(2, "poisson", init_slices=3).fit(flights.slices[:8])
    assert model.components(flights).modes == ("dest", "carrier", "hour")
    longer = type(flights)(
        flights.slices, "poisson", labels=(*flights.labels[:2], (*flights.labels[2], "x"))
    )
    assert len(model.components(longer).labels[2]) == 24
    assert model.to_ktensor(longer).labels == tuple(map(tuple, flights.labels))
    assert model.forecast(1, longer).cells(0, 1)[0]["labels"][0] in flights.labels[0]
    assert flights.labels[1][0] in str(model.plot_components(longer))
    with pytest.raises(DataError, match=r"labels must be a stream, or a list .* of 3 modes"):
        model.to_ktensor([["a"]])


def test_bars_stay_inside_their_picture():
    for values in ([1.0, -2.0, 0.0], [0.0], [], [np.nan, 3.0], np.arange(1000.0)):
        drawn = bars(values)
        height = float(re.search(r'height="([\d.]+)" role', drawn)[1])
        for y, size in re.findall(r'y="([\d.]+)" width="3" height="([\d.]+)"', drawn):
            assert float(y) >= 0
            assert float(y) + float(size) <= height + 0.4
        assert drawn.count("<rect") <= 60


def test_a_slice_shows_itself_however_long_its_modes_are():
    """A mode of 2^31 - 1 rows would take 17 GB if each had a sum of its own."""
    longest = 2**31 - 1
    html = Slice([[longest - 1, 5], [0, 5]], [3.0, 1.0], (longest, 10))._repr_html_()
    long, short = re.findall(r"<svg.*?</svg>", html)
    heights = [float(size) for size in re.findall(r'width="3" height="([\d.]+)"', long)]
    assert (len(heights), heights[0], heights[-1]) == (60, 7.3, 22.0)
    assert max(heights[1:-1]) < 1.0
    assert short.count("<rect") == 10


@pytest.mark.parametrize("length", [1, 59, 60, 61, 119, 500])
def test_sums_of_rows_are_joined_as_bars_joins_them(length):
    rng = np.random.default_rng(length)
    rows, values = rng.integers(0, length, 300), rng.integers(0, 9, 300) + 0.0
    each = [values[rows == row].sum() for row in range(length)]
    assert bars(joined(rows, values, length)) == bars(each)


def test_text_is_never_markup():
    assert "<" not in text(EVIL)
    assert len(text("x" * 1000)) <= 60


def test_a_ktensor_tells_its_components():
    model = KTensor([2.0, 1.0], [np.eye(2), np.eye(2)], [("cat", "dog"), None])
    assert [row["component"] for row in model.components()] == [1, 2]
    assert model.components()[0]["modes"]["mode 1"] == [("cat", 1.0)]

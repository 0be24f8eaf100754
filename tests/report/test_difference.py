"""Two runs side by side: patterns are matched by their labels, whatever their order and number."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from onlinegcp import OnlineGCP, Slice
from onlinegcp.cli import Exit, call
from onlinegcp.errors import DataError
from onlinegcp.report.difference import difference
from onlinegcp.run import Run
from onlinegcp.runlog import read_run
from onlinegcp.runlog.names import write_name

LABELS = [list("abcdef"), list("uvwxyz")]
BLOCKS = {
    "ab": (slice(0, 2), slice(0, 2)),
    "cd": (slice(2, 4), slice(2, 4)),
    "ef": (slice(4, 6),) * 2,
}


def run_of(path, seed, labels=LABELS, modes=("left", "right"), **levels):
    """A run whose slices hold blocks of cells at the given levels."""
    rng = np.random.default_rng(seed)
    mean = np.full((6, 6), 0.01)
    for name, level in levels.items():
        mean[BLOCKS[name]] = level
    order = [sorted(range(6), key=lambda i: names[i]) for names in labels]
    mean = mean[np.ix_(*[np.argsort(np.argsort(places)) for places in order])]
    slices = [Slice.dense(rng.poisson(mean).astype(float), time=t) for t in range(16)]
    model = OnlineGCP(len(levels), "poisson", init_slices=5)
    with Run.create(path, model, modes=modes, labels=labels) as run:
        run.learn(slices)
    return str(path)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    # The second knows its labels in another order.
    turned = [LABELS[0][::-1], LABELS[1][::-1]]
    return (
        run_of(folder / "a.run", 0, ab=10.0, cd=20.0),
        run_of(folder / "b.run", 1, labels=turned, ab=30.0, ef=12.0),
    )


def test_patterns_are_matched_by_their_labels(runs):
    pairs = difference(*map(read_run, runs))
    kinds = {pair.kind: pair for pair in pairs}
    assert sorted(pair.kind for pair in pairs) == ["both", "gone", "new"]
    assert kinds["both"].similarity > 0.9
    assert kinds["both"].held == pytest.approx(40, rel=0.2)  # four cells of level 10, then 30
    assert kinds["both"].holds == pytest.approx(120, rel=0.2)
    assert kinds["gone"].held == pytest.approx(80, rel=0.2)
    assert kinds["new"].holds == pytest.approx(48, rel=0.2)
    changes = [abs(pair.holds - pair.held) for pair in pairs]
    assert changes == sorted(changes, reverse=True)


def test_a_name_that_one_run_has_is_told_in_either_order(runs, tmp_path):
    old = Path(shutil.copytree(runs[0], tmp_path / "old.run"))
    views = read_run(old), read_run(runs[1])
    (same,) = (pair for pair in difference(*views) if pair.kind == "both")
    write_name(old, same.before.component + 1, "Mornings", 2)
    for pair in (*difference(*views), *difference(*views[::-1])):
        assert (pair.to_json()["name"] == "Mornings") is (pair.kind == "both")


def test_a_run_compared_with_itself_is_the_same(runs):
    view = read_run(runs[0])
    pairs = difference(view, view)
    assert [pair.kind for pair in pairs] == ["both", "both"]
    assert all(pair.before == pair.after for pair in pairs)
    assert all(pair.similarity == pytest.approx(1.0) for pair in pairs)


def test_the_command_tells_text_and_json(runs, capsys):
    assert call(["diff", *runs]) is Exit.DONE
    assert "1 pattern in both, 1 new, 1 gone" in capsys.readouterr().out
    assert call(["diff", *runs, "--json"]) is Exit.DONE
    told = json.loads(capsys.readouterr().out)
    assert {row["kind"] for row in told} == {"both", "new", "gone"}
    assert call(["diff", *runs, "--labels"]) is Exit.DONE
    text = capsys.readouterr().out
    assert "pattern" not in text
    assert call(["diff", *runs, "--labels", "--json"]) is Exit.DONE
    told = json.loads(capsys.readouterr().out)
    assert told
    assert all(row["of"] == "share" for row in told)
    assert all(row["label"] in text for row in told[:2])


def test_runs_with_other_modes_are_refused(runs, tmp_path):
    other = run_of(tmp_path / "c.run", 0, modes=("left", "place"), ab=10.0)
    with pytest.raises(DataError, match="the same modes are needed"):
        difference(read_run(runs[0]), read_run(other))

"""Where slices came from: files can be read again slice by slice, whatever happened in between."""

from __future__ import annotations

import datetime
import io
import json

import pytest

from event_run import SETTINGS, create, learn, write_days
from onlinegcp.errors import StateError
from onlinegcp.events import from_events
from onlinegcp.run import Run
from onlinegcp.run.sources import note, replay
from onlinegcp.runlog.sources import SOURCES, read_sources
from onlinegcp.streaming import OnlineGCP


def facts(x):
    return str(x.time), x.shape, x.index.tolist(), x.value.tolist()


def again(path):
    with Run.open(path, write=False) as run:
        sources = read_sources(path, run.n_sources)
        n_slices = run.n_steps + run.warming_up
        return sources, [facts(x) for x in replay(run.info["events"], sources, n_slices)]


def test_one_file_is_noted_with_its_size_and_read_again(tmp_path):
    file = write_days(tmp_path / "a.csv", 0, 10)
    learn(tmp_path / "r", file)
    sources, slices = again(tmp_path / "r")
    stat = (tmp_path / "a.csv").stat()
    assert len(sources) == 1
    assert sources[0]["files"] == [[file, stat.st_size, stat.st_mtime_ns]]
    assert (sources[0]["kind"], sources[0]["after"]) == ("files", 0)
    assert slices == [facts(x) for x in from_events(file, **SETTINGS)]


def test_the_same_source_after_an_interruption_is_one_source(tmp_path):
    file = write_days(tmp_path / "a.csv", 0, 12)
    for n_slices in (2, 5, None):  # the first stop falls into the warm start
        learn(tmp_path / "r", file, stop_after=n_slices)
    learn(tmp_path / "whole", file)
    sources, slices = again(tmp_path / "r")
    assert len(sources) == 1
    assert slices == again(tmp_path / "whole")[1]
    ours, theirs = ((tmp_path / name / SOURCES).read_bytes() for name in ("r", "whole"))
    assert ours == theirs


def test_updates_are_read_again_in_turn_with_the_same_codes(tmp_path):
    files = [write_days(tmp_path / f"{k}.csv", *span) for k, span in enumerate([(0, 6), (5, 14)])]
    whole = write_days(tmp_path / "all.csv", 0, 14)
    learn(tmp_path / "r", files[0])
    learn(tmp_path / "r", files[1])  # day 5 is in both, and learned once
    sources, slices = again(tmp_path / "r")
    assert [source["after"] for source in sources] == [0, 6]
    assert slices == [facts(x) for x in from_events(whole, **SETTINGS)]


def test_options_of_a_source_and_rows_left_open_are_kept(tmp_path):
    first = write_days(tmp_path / "a.csv", 0, 9)
    lines = (tmp_path / "a.csv").read_text().splitlines()
    day = [line for line in lines if line.startswith("2018-01-09")]
    (tmp_path / "a.csv").write_text("\n".join(lines[: -len(day) // 2]) + "\n")
    rest = tmp_path / "b.csv"
    rest.write_text("\n".join(["when,pu", *lines[-len(day) // 2 :]]) + "\n")
    learn(tmp_path / "r", first, since="2018-01-02", close_last=False)
    learn(tmp_path / "r", str(rest), until=datetime.datetime(2018, 2, 1))
    sources, slices = again(tmp_path / "r")
    assert sources[0]["options"]["since"] == "2018-01-02"
    assert sources[1]["options"]["until"] == "2018-02-01T00:00:00"
    assert [when for when, *_ in slices] == [f"2018-01-0{d}" for d in range(2, 10)]
    assert sum(slices[-1][3]) == len(day)


def test_what_cannot_be_read_again_is_called_so(tmp_path):
    text = (tmp_path / "a.csv", "when,pu\n2018-01-01T08:00,a\n2018-01-02T08:00,b\n")[1]
    learn(tmp_path / "live", io.BytesIO(text.encode()))
    assert again_kinds(tmp_path / "live") == ["live"]
    learn(tmp_path / "table", {"when": ["2018-01-01T08:00"], "pu": ["a"]})
    assert again_kinds(tmp_path / "table") == ["table"]
    with create(tmp_path / "slices") as run:
        run.learn(list(from_events(io.BytesIO(text.encode()), **SETTINGS)))
    assert again_kinds(tmp_path / "slices") == ["slices"]


def again_kinds(path):
    with Run.open(path, write=False) as run:
        return [source["kind"] for source in read_sources(path, run.n_sources)]


def test_files_that_hold_less_give_fewer_slices(tmp_path):
    file = write_days(tmp_path / "a.csv", 0, 10)
    learn(tmp_path / "r", file)
    write_days(tmp_path / "a.csv", 0, 7)
    assert len(again(tmp_path / "r")[1]) == 7


def test_a_line_without_its_checkpoint_does_not_count(tmp_path):
    source = {"after": 0, "kind": "slices"}
    assert note(tmp_path, 0, source) == 1
    assert note(tmp_path, 1, {"after": 3, "kind": "live"}) == 2
    # Killed before the checkpoint: one line counts, and the next source takes the place.
    assert read_sources(tmp_path, 1) == [source]
    assert note(tmp_path, 1, {"after": 3, "kind": "table"}) == 2
    assert [s["kind"] for s in read_sources(tmp_path, 2)] == ["slices", "table"]


def test_a_lost_list_is_named_to_readers_and_does_not_stop_learning(tmp_path):
    file = write_days(tmp_path / "a.csv", 0, 8)
    learn(tmp_path / "r", file)
    (tmp_path / "r" / SOURCES).unlink()
    with pytest.raises(StateError, match=r"sources\.jsonl"):
        again(tmp_path / "r")
    (tmp_path / "r" / SOURCES).write_text("{")
    with pytest.raises(StateError, match=r"sources\.jsonl"):
        again(tmp_path / "r")
    learn(tmp_path / "r", write_days(tmp_path / "b.csv", 8, 10))
    (only,) = again(tmp_path / "r")[0]
    assert only["after"] == 8
    with pytest.raises(StateError, match="must hold 2 lines, but has 1"):
        read_sources(tmp_path / "r", 2)


def test_a_new_run_over_an_old_one_starts_its_own_list(tmp_path):
    learn(tmp_path / "r", write_days(tmp_path / "a.csv", 0, 6))
    model = OnlineGCP(2, "poisson", init_slices=4, init_starts=1, random_state=0)
    with Run.create(
        tmp_path / "r", model, modes=SETTINGS["modes"], events=SETTINGS, overwrite=True
    ) as run:
        run.learn(run.stream(write_days(tmp_path / "b.csv", 3, 9)))
    (only,) = [json.loads(line) for line in (tmp_path / "r" / SOURCES).read_text().splitlines()]
    assert only["files"][0][0].endswith("b.csv")

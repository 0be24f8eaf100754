"""A run over files of events: labels that grow, newer files, open bins, bad input."""

from __future__ import annotations

import itertools
import json

import pytest

from onlinegcp import runlog
from onlinegcp.errors import DataError, StateError
from onlinegcp.run import Run
from onlinegcp.runlog.labels import LABELS
from onlinegcp.slices import Slice
from onlinegcp.storage.archive import read_archive, write_archive
from run_tools import (
    assert_same_run,
    files_of,
    learn_events,
    learn_slices,
    make_slices,
    small_model,
    steps_of,
    write_events,
)


@pytest.mark.slow
def test_events_whose_vocabulary_grows_resume_exactly(tmp_path):
    source = write_events(tmp_path / "events.csv")
    assert learn_events(tmp_path / "whole", source) == 30
    lives = 0
    while learn_events(tmp_path / "parts", source, stop=iter([False, True]).__next__):
        lives += 1
    assert lives == 15
    assert_same_run(tmp_path / "parts", tmp_path / "whole")
    view = runlog.read_run(tmp_path / "whole")
    assert [len(names) for names in view.labels] == [9, 9, 7]
    assert [len(a) for a in view.factors] == [9, 9, 7]
    assert view.modes == ("pu", "do", "when:weekday")
    assert view.labels[0] == view.labels[1]


@pytest.mark.slow
def test_new_files_go_on_where_old_ones_ended(tmp_path):
    learn_events(tmp_path / "whole", write_events(tmp_path / "all.csv"))
    learn_events(tmp_path / "parts", write_events(tmp_path / "early.csv", 20))
    # The newer file starts with days that are known already.
    later = write_events(tmp_path / "late.csv", first=17)
    assert learn_events(tmp_path / "parts", later) == 10
    assert_same_run(tmp_path / "parts", tmp_path / "whole")


@pytest.mark.slow
def test_a_bin_left_open_is_kept_for_the_next_source(tmp_path):
    lines = write_events(tmp_path / "all.csv").read_text().splitlines(keepends=True)
    learn_events(tmp_path / "whole", tmp_path / "all.csv")
    cuts = [1, 60, 333, 700, len(lines)]
    for start, end in itertools.pairwise(cuts):
        part = tmp_path / f"{start}.csv"
        part.write_text(lines[0] + "".join(lines[start:end]))
        learn_events(tmp_path / "parts", part, close_last=end == len(lines))
    assert_same_run(tmp_path / "parts", tmp_path / "whole")


def test_bad_input_makes_no_directory_and_changes_none(tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text("when,pu,do\nyesterday,a,b\n")
    with pytest.raises(DataError, match="yesterday"):
        learn_events(tmp_path / "r", bad)
    assert not (tmp_path / "r").exists()
    learn_events(tmp_path / "r", write_events(tmp_path / "good.csv", 8))
    before = files_of(tmp_path / "r")
    with pytest.raises(DataError, match="yesterday"):
        learn_events(tmp_path / "r", bad)
    assert files_of(tmp_path / "r") == before


def test_data_the_loss_refuses_name_the_slice_and_cost_only_that_one(tmp_path):
    slices = make_slices(8)
    slices[6] = Slice.dense(-slices[6].to_dense(), time=slices[6].time)
    with Run.create(tmp_path / "r", small_model(), modes=["a", "b"]) as run:
        with pytest.raises(DataError, match=r"In the slice of 2018-01-07: .*poisson") as found:
            run.learn(slices)
        assert str(found.value).endswith(
            f"All up to 2018-01-06 is kept in {run.path}: go on with update."
        )
        assert run.n_steps == 6
        run.learn([slices[7]])
    assert len(steps_of(tmp_path / "r")) == 7


def test_tables_need_a_run_on_events(tmp_path):
    learn_slices(tmp_path / "r", make_slices(5))
    with Run.open(tmp_path / "r") as run, pytest.raises(StateError, match="made from slices"):
        run.stream("x.csv")


def test_a_run_of_the_first_format_is_read_and_brought_up_to_date(tmp_path):
    source, run = write_events(tmp_path / "events.csv", 16), tmp_path / "r"
    learn_events(tmp_path / "whole", source)
    learn_events(run, write_events(tmp_path / "early.csv", 9))
    # As the first format had it: all labels in the checkpoint, twice.
    arrays, record = read_archive(run / runlog.CHECKPOINT, runlog.CHECKPOINT_KIND)
    labels = Run.open(run, write=False).labels
    record["labels"] = labels
    record["events"]["vocabularies"] = {"pu": labels[0]}
    target = run / runlog.CHECKPOINT
    write_archive(target, runlog.CHECKPOINT_KIND, arrays, record, of_run=True)
    info = json.loads((run / runlog.RUN).read_text())
    (run / runlog.RUN).write_text(json.dumps({**info, "format": 1}))
    for name in (LABELS, runlog.SYNCED):
        (run / name).unlink()
    assert runlog.read_run(run).labels == labels
    learn_events(run, source)
    assert json.loads((run / runlog.RUN).read_text())["format"] == runlog.FORMAT
    assert runlog.read_run(run).labels == runlog.read_run(tmp_path / "whole").labels
    assert steps_of(run) == steps_of(tmp_path / "whole")
    learn_events(run, source)  # and is one of ours from then on


def test_a_checkpoint_does_not_grow_with_its_labels(tmp_path):
    """Nor does a slice without a new label write any."""
    names = [f"a place with a rather long name, number {i}" for i in range(3000)]
    vocabulary = {"pu": names}
    settings = {"time": "when", "every": "1d", "modes": ["pu"]}
    for run, more in (("few", {}), ("many", {"vocabulary": vocabulary})):
        with Run.create(
            tmp_path / run, small_model(rank=1), modes=["pu"], events={**settings, **more}
        ) as fresh:
            days = [f"2018-01-{day:02}" for day in range(1, 8)]
            fresh.learn(fresh.stream({"when": days, "pu": names[:1] * 7}))
    grown = (tmp_path / "many" / LABELS).read_bytes()
    assert grown.count(b"\n") == 1
    records = [
        len(json.dumps(read_archive(tmp_path / run / runlog.CHECKPOINT, runlog.CHECKPOINT_KIND)[1]))
        for run in ("few", "many")
    ]
    assert abs(records[1] - records[0]) < 300
    assert runlog.read_run(tmp_path / "many").labels == (tuple(names),)

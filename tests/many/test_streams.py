"""Many streams: each is what it would be alone, whatever the processes, cuts and accidents."""

from __future__ import annotations

import datetime
import inspect

import numpy as np
import polars as pl
import pytest

from many_tools import (
    SETTINGS,
    START,
    assert_same_streams,
    customers,
    days,
    fit,
    names_of,
    small_model,
    told,
)
from onlinegcp import DataError, ManyStreams, RankWarning, Slice, StateError, fit_many, runlog
from onlinegcp.losses import Loss
from onlinegcp.many import learning
from onlinegcp.many.files import shard_files, shard_numbers
from onlinegcp.many.reading import facts_of, oddest, shard_of
from onlinegcp.many.shard import Shard
from onlinegcp.many.taking_out import take_out
from onlinegcp.many.verifying import verify
from onlinegcp.run import Run
from onlinegcp.sums.local import engine


def steps_of_run(path):
    return [
        {name: value for name, value in step.items() if name != "seconds"}
        for step in runlog.read_run(path).steps
    ]


def test_every_stream_is_the_run_it_would_be_alone(tmp_path):
    table = customers()
    fit(tmp_path / "many", table)
    for name in ("c0", "c3"):
        own = table.filter(pl.col("customer") == name)
        model = small_model()
        with Run.create(tmp_path / name, model, modes=["a", "b"], events=SETTINGS) as run:
            run.learn(run.stream(own))
        assert told(tmp_path / "many", name) == steps_of_run(tmp_path / name)
        shard = shard_of(tmp_path / "many", name)
        info = ManyStreams.open(tmp_path / "many", write=False).info
        held = Shard(tmp_path / "many", shard, info).streams[name]
        for ours, theirs in zip(held.point.model.factors_, run.model.factors_, strict=True):
            assert ours.tobytes() == theirs.tobytes()
        assert held.point.labels == run.labels


@pytest.mark.slow
def test_the_number_of_processes_changes_no_bit(tmp_path):
    table = customers(n=5)
    one = fit(tmp_path / "one", table)
    three = fit(tmp_path / "three", table, n_jobs=3)
    assert_same_streams(tmp_path / "three", tmp_path / "one")
    assert (three.slices, three.flagged, three.rows) == (one.slices, one.flagged, one.rows)


@pytest.mark.parametrize("at", [2, 5])
def test_a_table_may_be_cut_anywhere(tmp_path, at):
    table = customers()
    table = pl.concat([table, days(table, 3, 5).with_columns(customer=pl.lit("short"))])
    fit(tmp_path / "whole", table.sort("when", maintain_order=True))
    fit(tmp_path / "parts", days(table, 0, at))
    fit(tmp_path / "parts", days(table, at, 8))
    assert names_of(tmp_path / "parts") == names_of(tmp_path / "whole")
    for name in names_of(tmp_path / "whole"):
        assert told(tmp_path / "parts", name) == told(tmp_path / "whole", name), name


def test_a_silent_stream_has_empty_slices_until_it_sleeps(tmp_path):
    table = customers(n_days=12)
    table = table.filter((pl.col("customer") != "c1") | (pl.col("when") < START.replace(day=5)))
    back = pl.DataFrame([{"when": START.replace(day=12), "customer": "c1", "a": "a1", "b": "b1"}])
    settings = {**SETTINGS, "max_gap": 4}
    both = pl.concat([table, back]).sort("when", maintain_order=True)
    fit(tmp_path / "many", both, settings=settings)
    steps = told(tmp_path / "many", "c1")
    # Four days with events, four silent ones, asleep until it comes back.
    assert [step["time"][-2:] for step in steps] == [f"{d:02}" for d in [*range(1, 9), 12]]
    assert [step["total"] > 0 for step in steps] == [True] * 4 + [False] * 4 + [True]
    # The same when every day is a table of its own.
    for day in range(12):
        fit(tmp_path / "daily", days(both, day, day + 1), settings=settings)
    assert told(tmp_path / "daily", "c1") == steps


def test_a_clock_that_jumps_is_refused_for_all(tmp_path):
    table = customers(n_days=3)
    far = pl.DataFrame([{"when": START.replace(year=2028), "customer": "c1", "a": "a", "b": "b"}])
    with pytest.raises(DataError, match=r"at most 100 empty bins.*2028-01-01"):
        fit(tmp_path / "many", pl.concat([table, far]))
    assert not (tmp_path / "many" / "streams.json").exists()


def test_times_mean_the_same_for_all_streams(tmp_path):
    # The times of "early" alone could be days of March or the third of each month.
    rows = [f"{day:02}/03/2018" for day in range(1, 26)]
    table = pl.DataFrame(
        {
            "when": rows + rows[:9],
            "customer": ["all"] * 25 + ["early"] * 9,
            "a": ["x", "y"] * 17,
            "b": ["z"] * 34,
        }
    )
    fit(tmp_path / "many", table)
    assert told(tmp_path / "many", "early")[1]["time"] == "2018-03-02"


def test_a_source_may_be_given_again(tmp_path):
    table = customers()
    fit(tmp_path / "once", table)
    fit(tmp_path / "twice", table)
    again = fit(tmp_path / "twice", table)
    assert again.slices == 0
    assert again.rows["again"] == again.rows["read"] == table.height
    assert_same_streams(tmp_path / "twice", tmp_path / "once")


def test_every_row_is_accounted_for(tmp_path):
    table = customers(n_days=5).with_columns(
        customer=pl.when(pl.int_range(pl.len()) % 7 == 3).then(None).otherwise("customer")
    )
    n_null = table["customer"].null_count()
    rows = fit(tmp_path / "many", table, until="2018-01-05", close_last=False).rows
    assert rows["read"] == table.height
    assert rows["dropped"] == n_null
    assert rows["waiting"] > 0
    assert rows["outside"] > 0
    parts = ("learned", "waiting", "late", "dropped", "outside", "again")
    assert sum(rows[name] for name in parts) == rows["read"]


def test_a_stream_that_cannot_go_on_stops_alone(tmp_path):
    table = customers().with_columns(v=pl.lit(1.0))
    settings = {**SETTINGS, "value": "v"}
    hit = (pl.col("customer") == "c2") & (pl.col("when") == START + datetime.timedelta(days=6))
    bad = table.with_columns(v=pl.when(hit).then(1e200).otherwise("v"))
    model = small_model()
    news = fit(tmp_path / "many", bad, settings=settings, model=model)
    ((name, problem),) = news.problems
    assert name == "c2"
    assert "2018-01-07" in problem
    lengths = {facts.stream: facts.account.slices for facts in facts_of(tmp_path / "many")}
    assert lengths == {"c0": 8, "c1": 8, "c2": 6, "c3": 8}
    assert [f.stream for f in facts_of(tmp_path / "many") if f.problem] == ["c2"]
    # Corrected data bring it up to the others.
    fit(tmp_path / "many", table)
    fit(tmp_path / "good", table, settings=settings, model=model)
    assert_same_streams(tmp_path / "many", tmp_path / "good")


def test_what_was_stopped_goes_on_to_the_same_end(tmp_path):
    table = customers()
    fit(tmp_path / "whole", table)
    calls = iter(range(1000))
    fit(tmp_path / "parts", table, stop=lambda: next(calls) > 12)
    n_slices = sum(facts.account.slices for facts in facts_of(tmp_path / "parts"))
    assert 0 < n_slices < 32
    fit(tmp_path / "parts", table)
    assert_same_streams(tmp_path / "parts", tmp_path / "whole")


def test_an_interrupted_file_must_be_read_to_its_end_first(tmp_path):
    table = customers()
    days(table, 0, 5).write_parquet(tmp_path / "first.parquet")
    days(table, 5, 8).write_parquet(tmp_path / "second.parquet")
    calls = iter(range(1000))
    fit(tmp_path / "many", tmp_path / "first.parquet", stop=lambda: next(calls) > 7)
    with pytest.raises(StateError, match=r"(?s)interrupted.*update .*first\.parquet.*abandon"):
        fit(tmp_path / "many", tmp_path / "second.parquet")
    fit(tmp_path / "many", tmp_path / "first.parquet")
    fit(tmp_path / "many", tmp_path / "second.parquet")
    fit(tmp_path / "whole", table)
    for name in names_of(tmp_path / "whole"):
        assert told(tmp_path / "many", name) == told(tmp_path / "whole", name)


def test_what_is_abandoned_is_left_as_it_is(tmp_path):
    table = customers()
    days(table, 0, 5).write_parquet(tmp_path / "first.parquet")
    days(table, 5, 8).write_parquet(tmp_path / "second.parquet")
    calls = iter(range(1000))
    fit(tmp_path / "many", tmp_path / "first.parquet", stop=lambda: next(calls) > 7)
    fit(tmp_path / "many", tmp_path / "second.parquet", abandon=True)
    assert names_of(tmp_path / "many") == ["c0", "c1", "c2", "c3"]
    assert len(told(tmp_path / "many", "c0")) == 8
    assert told(tmp_path / "many", "c3")[0]["time"] == "2018-01-06"


def test_slices_of_many_streams(tmp_path):
    rng = np.random.default_rng(0)
    streams = {
        name: [Slice.dense(rng.poisson(3.0, (4, 3)).astype(float), time=t) for t in range(7)]
        for name in ("north", "south")
    }
    options = {"modes": ["a", "b"], "labels": [list("wxyz"), list("uvw")]}
    many = fit_many(streams, small_model(), tmp_path / "many", n_jobs=1, **options)
    assert sorted(many.places()) == ["north", "south"]
    with Run.create(tmp_path / "north", small_model(), **options) as run:
        run.learn(streams["north"])
    assert told(tmp_path / "many", "north") == steps_of_run(tmp_path / "north")
    with ManyStreams.open(tmp_path / "many") as many:  # what was learned is passed over
        more = {"south": [*streams["south"], streams["north"][0].with_time(7)]}
        assert many.learn(more, n_jobs=1).slices == 1


def test_a_stream_can_be_taken_out_and_goes_on_alone(tmp_path):
    table = customers()
    fit(tmp_path / "many", days(table, 0, 6))
    take_out(tmp_path / "many", "c1", tmp_path / "c1")
    assert all(verdict.whole for verdict in runlog.verify(tmp_path / "c1"))
    own = table.filter(pl.col("customer") == "c1")
    with Run.open(tmp_path / "c1") as run:
        run.learn(run.stream(days(own, 6, 8)))
    with Run.create(tmp_path / "own", small_model(), modes=["a", "b"], events=SETTINGS) as run:
        run.learn(run.stream(own))
    assert steps_of_run(tmp_path / "c1") == steps_of_run(tmp_path / "own")
    with pytest.raises(DataError, match="c1"):
        take_out(tmp_path / "many", "c11", tmp_path / "none")


def test_the_oddest_slices_of_all_are_sorted_together(tmp_path):
    table = customers(n_days=14, per_day=12)
    busy = days(table, 12, 13).filter(pl.col("customer") == "c2")
    odd = pl.concat([table, *[busy] * 9]).sort("when", maintain_order=True)
    news = fit(tmp_path / "many", odd)
    found = oddest(tmp_path / "many", 5)
    assert found.steps[0]["stream"] == "c2"
    assert found.steps[0]["time"] == "2018-01-13"
    scores = [step["anomaly"]["score"] for step in found.steps]
    assert scores == sorted(scores, reverse=True)
    assert (found.scored, found.flagged) == (news.scored, news.flagged)
    many = ManyStreams.open(tmp_path / "many", write=False)
    assert [step["number"] for step in many.oddest(1).steps] == [13]
    assert [facts.account.slices for facts in many.facts()] == [14] * 4
    everything = oddest(tmp_path / "many", 1000, flagged=False)
    assert len(everything.steps) == everything.scored == 4 * 11
    late = oddest(tmp_path / "many", 1000, flagged=False, within=lambda time: time > "2018-01-12")
    assert late.scored == 8


def test_a_changed_byte_is_found(tmp_path):
    fit(tmp_path / "many", customers(n=2))
    assert all(verdict.whole for verdict in verify(tmp_path / "many"))
    files = [*(tmp_path / "many").rglob("*.json*"), shard_files(tmp_path / "many", 1)[0]]
    for file in files:
        before = file.read_bytes()
        middle = len(before) // 2
        file.write_bytes(before[:middle] + bytes([before[middle] ^ 1]) + before[middle + 1 :])
        damaged = [verdict.file for verdict in verify(tmp_path / "many") if not verdict.whole]
        name = str(file.relative_to(tmp_path / "many"))
        # An archive that is damaged says nothing about its lines.
        assert name in damaged, file
        file.write_bytes(before)
    _, lines = shard_files(tmp_path / "many", 0)
    lines.write_bytes(lines.read_bytes()[:-10])
    with pytest.raises(StateError, match="Lines were lost"):
        fit(tmp_path / "many", customers(n=2))


def test_lines_of_a_process_that_was_cut_off_do_not_count(tmp_path):
    table = customers(n=2)
    fit(tmp_path / "whole", table)
    fit(tmp_path / "many", days(table, 0, 5))
    _, lines = shard_files(tmp_path / "many", 0)
    with lines.open("ab") as file:
        file.write(b'{"stream":"c0","number":6,"ti')
    assert len(told(tmp_path / "many", "c0")) == 5
    fit(tmp_path / "many", days(table, 5, 8))
    assert told(tmp_path / "many", "c0") == told(tmp_path / "whole", "c0")


def test_a_run_is_replaced_when_the_new_one_has_something(tmp_path):
    with Run.create(tmp_path / "run", small_model(), modes=["a", "b"]) as run:
        run.learn([Slice.dense(np.ones((3, 2)), time=t) for t in range(4)])
    table = customers(n=2)
    with pytest.raises(StateError, match="holds a run already"):
        ManyStreams.create(tmp_path / "run", small_model(), by="customer", events=SETTINGS)
    options = {"by": "customer", "events": SETTINGS, "overwrite": True}
    with (
        ManyStreams.create(tmp_path / "run", small_model(), **options) as many,
        pytest.raises(DataError, match="'nobody'"),
    ):
        many.learn(table.rename({"customer": "nobody"}), n_jobs=1)
    assert len(runlog.read_run(tmp_path / "run").steps) == 4
    with ManyStreams.create(tmp_path / "run", small_model(), **options) as many:
        many.learn(table, n_jobs=1)
    assert sorted(many.places()) == ["c0", "c1"]
    with pytest.raises(StateError, match="holds many"):
        runlog.read_run(tmp_path / "run")


def test_what_an_early_kill_leaves_is_no_run(tmp_path):
    from onlinegcp.many.files import STREAMS_JSON

    fit(tmp_path / "many", customers(n=1))
    info = ManyStreams.open(tmp_path / "many", write=False).info
    (tmp_path / "hollow").mkdir()
    STREAMS_JSON.write(tmp_path / "hollow", info)
    fit_many(
        customers(n=2), small_model(), tmp_path / "hollow", by="customer", n_jobs=1, **SETTINGS
    )
    assert names_of(tmp_path / "hollow") == ["c0", "c1"]


def test_one_process_writes(tmp_path):
    table = customers(n=1)
    fit(tmp_path / "many", days(table, 0, 5))
    with runlog.Lock(tmp_path / "many"), pytest.raises(StateError, match="only one process"):
        fit(tmp_path / "many", table)


def test_many_streams_share_shards(tmp_path):
    rng = np.random.default_rng(0)
    streams = {
        f"s{k}": [Slice.dense(rng.poisson(3.0, (2, 2)).astype(float), time=0)] for k in range(200)
    }
    with ManyStreams.create(tmp_path / "many", small_model(), modes=["a", "b"]) as many:
        many.learn(streams, n_jobs=1)
        assert many.info["per_shard"] == 4
        assert len(shard_numbers(tmp_path / "many")) == 50
        many.learn({"s200": streams["s0"], "s201": streams["s1"]}, n_jobs=1)
    assert many.places()["s201"] == 50


def test_a_stream_without_slices_yet_is_one_all_the_same(tmp_path):
    slices = [Slice.dense(np.ones((2, 2)), time=time) for time in range(5)]
    many = fit_many({"a": slices, "b": []}, small_model(), tmp_path / "many", n_jobs=1)
    assert {one.stream: one.account.slices for one in many.facts()} == {"a": 5, "b": 0}
    with ManyStreams.open(tmp_path / "many") as again:
        again.learn({"b": slices}, n_jobs=1)
    assert again.facts()[1].account.slices == 5
    verify(tmp_path / "many")


def test_own_losses_are_learned_by_this_process(tmp_path):
    own = Loss("squares", value=lambda x, m: (x - m) ** 2, deriv=lambda x, m: 2.0 * (m - x))
    model = small_model(loss=own)
    news = fit(tmp_path / "many", days(customers(n=2), 0, 5), model=model, n_jobs=2)
    assert news.slices == 10
    with ManyStreams.open(tmp_path / "many", loss=own) as many:
        assert many.learn(customers(n=2), n_jobs=2).slices == 6


def test_processes_that_learn_side_by_side_have_one_thread_each(tmp_path, monkeypatch):
    seen = []

    def watching(*arguments, **options):
        seen.append(engine().jobs)
        return advance(*arguments, **options)

    advance = learning.advance
    monkeypatch.setattr(learning, "advance", watching)
    fit(tmp_path / "many", customers(n=2), n_jobs=1)
    assert set(seen) == {1}
    assert inspect.signature(learning.learn_shard).parameters["threads"].default == 1
    seen.clear()
    fit(tmp_path / "alone", customers(n=1), n_jobs=3)  # nobody is beside it
    assert set(seen) == {3}


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_warning_names_the_stream_and_comes_once(tmp_path, n_jobs, capfd):
    few = customers(n=3).with_columns(a=pl.lit("a0"), b=pl.lit("b0"))
    with pytest.warns(RankWarning) as heard:
        fit(tmp_path / "many", few, n_jobs=n_jobs, model=small_model(rank=2))
    (told,) = [str(one.message) for one in heard]
    assert told.startswith("customer 'c0': 2 components were asked for")
    assert told.endswith("(2 more were warned alike)")
    assert not capfd.readouterr().err  # of the other processes


def test_a_cluster_of_each_process_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"cluster was given \(local:2\)"):
        fit(tmp_path / "many", customers(n=2), model=small_model(cluster="local:2"))
    assert not (tmp_path / "many").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"by": "nobody"}, "'nobody'"),
        ({"by": "a"}, "must be none of those they are made of"),
        ({"settings": {**SETTINGS, "time": "then"}}, "'then'"),
        ({"settings": {**SETTINGS, "on_null": "maybe"}}, "on_null"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(tmp_path, change, message):
    with pytest.raises(DataError, match=message):
        fit(tmp_path / "many", customers(n=2, n_days=3), **change)
    assert not (tmp_path / "many").exists()


def test_a_row_without_a_name_can_be_an_error(tmp_path):
    table = customers(n=2, n_days=3).with_columns(
        customer=pl.when(pl.int_range(pl.len()) == 4).then(None).otherwise("customer")
    )
    with pytest.raises(DataError, match="row 5 of the table has none"):
        fit(tmp_path / "many", table, settings={**SETTINGS, "on_null": "error"})


def test_wrong_calls_say_what_is_needed(tmp_path):
    with pytest.raises(DataError, match=r"no by=\.\.\."):
        fit_many({}, small_model(), tmp_path / "x", modes=["a"], time="when")
    with pytest.raises(DataError, match="both"):
        ManyStreams.create(tmp_path / "x", small_model(), by="customer")
    with (
        ManyStreams.create(tmp_path / "x", small_model(), modes=["a"]) as many,
        pytest.raises(DataError, match="mapping from names to slices"),
    ):
        many.learn([1, 2])
    with pytest.raises(DataError, match="mapping is empty"):
        fit_many({}, small_model(), tmp_path / "x")
    slices = [Slice.dense(np.ones((2, 2)), time=time) for time in range(5)]
    with pytest.raises(DataError, match="is fitted"):
        fit_many({"a": slices}, small_model().fit(slices), tmp_path / "x")
    with pytest.raises(DataError, match="n_jobs"):
        fit(tmp_path / "x", customers(n=1), n_jobs=0)
    with pytest.raises(StateError, match=r"many streams was needed, but .* is no directory"):
        ManyStreams.open(tmp_path / "none")
    fit(tmp_path / "y", customers(n=1, n_days=4))
    many = ManyStreams.open(tmp_path / "y", write=False)
    with pytest.raises(StateError, match="open for writing"):
        many.learn(customers(n=1))
    assert "1 streams" in repr(many)

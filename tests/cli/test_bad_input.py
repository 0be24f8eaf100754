"""Input that goes wrong at three in the morning, through the command: what it says, what it leaves.

Every message names the file and the row where there is one, and says what to do.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess

import pytest

from onlinegcp import runlog
from onlinegcp.cli import Exit, call
from run_tools import files_of, write_events

TABLE = ["--time", "when", "--every", "1d", "--modes", "pu,do", "--rank", "2", "--warm-start", "4"]

BAD = {
    "no time column": ("a.csv", b"when2,pu,do\n2018-01-01,a,b\n", ["'when'", "mean 'when2'"]),
    "unparsable time": (
        "a.csv", b"when,pu,do\n2018-01-01,a,b\nyesterday,a,b\n", ["row 2", "'yesterday'"],
    ),
    "text for a value": (
        "a.csv", b"when,pu,do,v\n2018-01-01,a,b,1\n2018-01-02,a,b,much\n", ["row 2", "'v'", "much"],
    ),
    "empty file": ("a.csv", b"", ["is empty"]),
    "header only": ("a.csv", b"when,pu,do,v\n", ["at least one time bin"]),
    "binary": ("a.csv", bytes(range(256)) * 20, ["binary"]),
    "program": ("a.csv", b"\x7fELF\x02\x01\x01" + b"\0" * 500, ["binary"]),
    "ragged": ("a.csv", b"when,pu,do\n2018-01-01,a,b\n2018-01-02,a,b,c\n", ["row 2", "has 4"]),
    "not UTF-8": ("a.csv", b"when,pu,do\n2018-01-01,caf\xe9,b\n", ["UTF-8", "row 1"]),
    "half a record": ("a.jsonl", b'{"when":"2018-01-01","pu":"a","do":"b"}\n{"when":\n', ["row 2"]),
    "no parquet": ("a.parquet", b"PAR1 but not for long", ["damaged"]),
    "wrong century": ("a.csv", b"when,pu,do\n2018-01-01,a,b\n9999-01-01,a,b\n", ["row 2", "9999"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_explained_and_leaves_a_run_as_it_was(tmp_path, capsys, case):
    name, content, expected = BAD[case]
    bad, run = tmp_path / name, tmp_path / "r.run"
    bad.write_bytes(content)
    value = ["--value", "v"] if case == "text for a value" else []
    assert call(["fit", str(bad), *TABLE, *value, "-o", str(run), "--quiet"]) is Exit.BAD_INPUT
    said = capsys.readouterr().err.replace("\n", " ")
    assert case == "header only" or name in said
    for words in expected:
        assert words in said
    if run.exists():  # some slices were whole: they can be gone on from
        assert case == "wrong century"
        assert "is kept in" in said
        good = write_events(tmp_path / "good.csv", 8)
        assert call(["update", str(run), str(good), "--quiet"]) is Exit.DONE


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    good = write_events(folder / "good.csv", 8)
    assert call(["fit", str(good), *TABLE, "-o", str(folder / "r.run"), "--quiet"]) is Exit.DONE
    return folder / "r.run"


@pytest.mark.parametrize("case", ["no time column", "unparsable time", "empty file", "binary"])
def test_an_update_with_bad_input_changes_nothing(tmp_path, finished, capsys, case):
    name, content, _ = BAD[case]
    (tmp_path / name).write_bytes(content)
    before = files_of(finished)
    assert call(["update", str(finished), str(tmp_path / name), "--quiet"]) is Exit.BAD_INPUT
    assert name in capsys.readouterr().err.replace("\n", "")
    assert files_of(finished) == before


def test_rows_without_keys_are_dropped_and_told(tmp_path, caplog):
    source = write_events(tmp_path / "a.csv", 6)
    source.write_text(source.read_text() + "2018-01-06T23:00,,z1\n2018-01-06T23:00,z1,\n")
    run = tmp_path / "r.run"
    assert call(["fit", str(source), *TABLE, "-o", str(run), "--quiet"]) is Exit.DONE
    assert "2 rows without a time, a key or a value" in caplog.text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["update", "{none}", "{good}"], "no directory"),
        (["update", "{good}", "{good}"], "no directory"),
        (["fit", "{good}", *TABLE, "-o", "{good}/below"], "good.csv is no directory"),
        (["fit", "{good}", *TABLE, "-o", "{run}"], "holds a run already"),
        (["update", "{newer}", "{good}"], "Upgrade"),
        (["update", "{lost}", "{good}"], "Restore"),
    ],
)
def test_places_that_are_no_run_are_named(tmp_path, finished, capsys, words, expected):
    good = write_events(tmp_path / "good.csv", 8)
    newer, lost = (tmp_path / name for name in ("newer", "lost"))
    for copy in (newer, lost):
        copy.mkdir()
        for name, content in files_of(finished).items():
            (copy / name).write_bytes(content)
    info = json.loads((newer / runlog.RUN).read_text())
    (newer / runlog.RUN).write_text(json.dumps({**info, "format": 99}))
    for name in (runlog.CHECKPOINT, runlog.SYNCED):
        (lost / name).unlink()
    places = {
        "none": tmp_path / "none",
        "good": good,
        "run": finished,
        "newer": newer,
        "lost": lost,
    }
    before = {place: files_of(path) for place, path in places.items() if path.is_dir()}
    assert call([word.format(**places) for word in words]) is Exit.BAD_STATE
    assert expected in capsys.readouterr().err.replace("\n", " ")
    after = {place: files_of(path) for place, path in places.items() if path.is_dir()}
    assert {p: {n: b for n, b in f.items() if n != "lock"} for p, f in after.items()} == {
        p: {n: b for n, b in f.items() if n != "lock"} for p, f in before.items()
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_disk_that_is_really_full_loses_nothing(tmp_path, finished, capsys):
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        run = small / "r.run"
        run.mkdir()
        for name, content in files_of(finished).items():
            (run / name).write_bytes(content)
        with contextlib.suppress(OSError), (small / "filler").open("wb", buffering=0) as filler:
            while filler.write(b"x" * 4096):
                pass
        before = {n: b for n, b in files_of(run).items() if n != "lock"}
        more = write_events(tmp_path / "more.csv", 14)
        assert call(["update", str(run), str(more), "--quiet"]) is Exit.BAD_STATE
        assert "No space left" in capsys.readouterr().err
        assert {n: b for n, b in files_of(run).items() if n != "lock"} == before
        (small / "filler").unlink()
        assert call(["update", str(run), str(more), "--quiet"]) is Exit.DONE
        assert len(runlog.read_run(run).steps) == 14
    finally:
        subprocess.run(["umount", str(small)], check=True)

"""`report`: where it goes, the numbers it tells, and what it says when something is missing."""

from __future__ import annotations

import json

from cli_tools import MODEL, TABLE
from onlinegcp.cli import Exit, call


def test_the_report_is_written_where_asked(run, tmp_path, capsys):
    assert call(["report", str(run), "-o", str(tmp_path / "page.html")]) is Exit.DONE
    told = capsys.readouterr()
    assert told.out.strip() == str(tmp_path / "page.html")
    for word in ("Mean loss per event", "prequential", "local", "global"):
        assert word in told.err
    assert "2018-01-26" in (tmp_path / "page.html").read_text()


def test_the_report_tells_its_numbers_to_scripts(run, tmp_path, capsys):
    words = ["report", str(run), "-o", str(tmp_path / "page.html"), "--json"]
    assert call(words) is Exit.DONE
    found = json.loads(capsys.readouterr().out)
    assert set(found["mean_loss"]) == {"per", "prequential", "local", "global"}
    assert found["mean_loss"]["local"] <= found["mean_loss"]["prequential"]
    assert found["no_global_loss"] is None
    assert call([*words, "--no-global"]) is Exit.DONE
    assert "global" not in json.loads(capsys.readouterr().out)["mean_loss"]
    assert call(["report", str(run), "-o", str(tmp_path / "page.html"), "-q"]) is Exit.DONE
    assert capsys.readouterr().err == ""


def test_the_report_says_why_a_curve_is_missing(events, tmp_path, capsys):
    copy = tmp_path / "events.jsonl"
    copy.write_bytes(events.read_bytes())
    where = str(tmp_path / "r")
    assert call(["fit", str(copy), *TABLE, *MODEL, "-o", where, "-q"]) is Exit.DONE
    copy.unlink()
    assert call(["report", where]) is Exit.DONE
    told = " ".join(capsys.readouterr().err.split())
    assert f"No global loss: {copy} is no longer there." in told

"""Words of a command and labels of data that nobody would write by mistake."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import numpy as np

from onlinegcp.cli import Exit, call

WORDS = ["nan", "inf", "-1", "0", "1e9", "2.5", "", " ", "[/x]", "\x1b[2J", "\0", "-", "--", "a=b",
         "../..", "é\u202e", "9" * 30, "true", "{}", "%Y", "x" * 3000]  # fmt: skip
OPTIONS = ["--rank", "--level", "--season", "--warm-start", "--seed", "--loss", "--method", "--set",
           "--every", "--modes", "--time", "--agg", "--value", "--share", "--top", "--empty",
           "--timezone", "--time-unit", "--time-format", "--max-gap", "--since", "--until",
           "--format", "--on-late", "--on-null", "--on-new", "-o", "--unknown"]  # fmt: skip
LABELS = ["a", "b", "\x1b[31mred", "[bold]x[/bold]", "</script><script>", "ü" * 500, "\u202eabc",
          "7.0", "7", "null", "", "\t", "'\"", "NaN", "𝒳"]  # fmt: skip


def play(rng: np.random.Generator, folder: Path) -> None:
    """Whatever the words are, the exit code is never "please report it"."""
    records = [
        {
            "t": f"2024-01-{day:02}T0{int(rng.integers(0, 9))}:00",
            "a": LABELS[int(rng.integers(0, len(LABELS)))],
            "b": int(rng.integers(0, 3)),
        }
        for day in range(1, 9)
        for _ in range(5)
    ]
    file, run = folder / "e.jsonl", folder / "r"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    words = ["fit", str(file), "--time", "t", "--every", "1d", "--modes", "a,b", "--rank", "2"]
    words += ["--warm-start", "3", "-o", str(run), "-q"]
    if rng.random() < 0.8:
        for _ in range(int(rng.integers(1, 3))):
            option = OPTIONS[int(rng.integers(0, len(OPTIONS)))]
            word = WORDS[int(rng.integers(0, len(WORDS)))]
            if option == "-o":
                word = str(folder / "other") + word[:20]
            if option in words:
                words[words.index(option) + 1] = word
            else:
                words += [option, word]
        if "-" in words:  # would wait for standard input
            words = [word for word in words if word != "-"]
    _call(words)
    if run.exists():
        for command in ("components", "anomalies", "inspect"):
            shown = _call([command, str(run)])
            assert not set(shown) & set("\x1b\x9b\u202e"), "a control character was shown"


def _call(words: list[str]) -> str:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = call(words)
    assert code is not Exit.UNEXPECTED, f"{words}: {err.getvalue()}"
    return out.getvalue() + err.getvalue()

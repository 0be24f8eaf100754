"""Pages as programs: the blocks of a Markdown page, run from top to bottom in a folder of its own.

- ``python`` blocks share one namespace. An ``output`` block right after one is what it printed.
- ``console`` blocks hold commands after ``$``; lines without it are what the command printed.
- ``sh`` blocks are commands alone. A shell runs what needs one; a plain ``onlinegcp`` with its
  words is called in this process, which spares it a second of imports.
- A comment ``<!-- setup: ... -->`` holds Python that readers need not see: files to work on.
- A comment ``<!-- not run: why -->`` right before a block says why it cannot be run here.

In expected output ``...`` stands for anything, and white space is folded.

``python tests/pages.py docs/tutorial.md`` writes what was printed into the page, where it differs.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from onlinegcp.cli import call

ROOT = Path(__file__).parents[1]
# A terminal that is narrow enough for a page.
PLAIN = {"NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb"}
LOOSE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

_PIECE = re.compile(
    r"^<!-- setup:(?P<setup>.*?)-->"
    r"|^<!-- not run: (?P<why>[^>]+) -->\n+(?=```)"
    r"|^```(?P<kind>[\w{}-]*)\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)

# What is different each time a page is run: written as ... when outputs are written anew.
_CHANGING = [
    (re.compile(r"\bin [\d.]+ (ms|s|min)( \([\d.]+ slices/s\))?"), "in ... s"),
    (re.compile(r"\d+ ms\b"), "... ms"),
    (re.compile(r"/tmp/\S+"), "..."),
]

# A block, where in it output is shown, that output, and what was printed instead.
Told = Callable[["Block", int, str, str], None]


@dataclass
class Block:
    """One piece of a page: what kind, its text, the line it starts at, why it is not run."""

    kind: str
    code: str
    line: int
    not_run: str = ""


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page in order."""
    text = page.read_text(encoding="utf-8")
    found, why = [], ""
    for piece in _PIECE.finditer(text):
        line = text.count("\n", 0, piece.start()) + 1
        if piece["setup"] is not None:
            found.append(Block("setup", piece["setup"].strip(), line))
        elif piece["why"] is not None:
            why = piece["why"]
            continue
        else:
            found.append(Block(piece["kind"], piece["code"], line, why))
        why = ""
    return found


def run_page(page: Path, folder: Path, told: Told | None = None) -> None:
    """Run every block of a page; raises AssertionError where output differs, unless `told` is."""
    names: dict[str, object] = {"__name__": "__main__"}
    printed, before = "", Path.cwd()

    def refuse(block: Block, _: int, wanted: str, found: str) -> None:
        raise AssertionError(
            f"{page.name}:{block.line} shows\n{wanted}\nbut this was printed:\n{found}\n"
            f"If that is right, `python tests/pages.py {page.relative_to(ROOT)}` writes it there."
        )

    differs = told or refuse
    os.chdir(folder)
    try:
        for block in blocks_of(page):
            if block.not_run:
                printed = ""
            elif block.kind in ("python", "setup"):
                printed = _run_python(block, page, names)
            elif block.kind == "output":
                _compare(block, 0, block.code, printed, differs)
            elif block.kind in ("console", "sh"):
                _run_shell(block, page, differs)
    finally:
        os.chdir(before)


def rewrite(page: Path) -> int:
    """Write what the blocks of a page print into it; returns how many outputs were new."""
    changes: list[tuple[Block, int, str, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        run_page(page, Path(folder), lambda *change: changes.append(change))
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    text = "".join(lines)
    for block, place, wanted, printed in reversed(changes):
        printed = "".join(map(_fitted, printed.strip("\n").splitlines()))
        start = sum(map(len, lines[: block.line])) + place  # after the line of the fence
        text = text[:start] + printed + text[start + len(wanted) :]
    page.write_text(text, encoding="utf-8")
    return len(changes)


def _fitted(line: str) -> str:
    """A line of a page; the terminal has broken tables, and breaks nothing else."""
    line = line.rstrip()
    if len(line) > 100:
        line = textwrap.fill(line, 100, subsequent_indent="    ", break_on_hyphens=False)
    return f"{line}\n"


def _run_python(block: Block, page: Path, names: dict[str, object]) -> str:
    if ">>>" in block.code:
        parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=LOOSE)
        examples = parser.get_doctest(block.code, names, page.name, str(page), block.line)
        told: list[str] = []
        failed = runner.run(examples, out=told.append, clear_globs=False).failed
        assert not failed, "".join(told)
        names |= examples.globs
        return ""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        # As a reader's file would be: without what this file asked of the future.
        exec(compile("\n" * block.line + block.code, str(page), "exec", dont_inherit=True), names)
    return said.getvalue()


def _run_shell(block: Block, page: Path, differs: Told) -> None:
    if block.kind == "sh":
        lines = [line for line in block.code.replace("\\\n", " ").splitlines() if line.strip()]
        alone = all(_plain_words(line) is not None for line in lines)
        commands = [(0, line, "") for line in (lines if alone else [block.code])]
    else:
        found = re.finditer(r"^\$ (?:.*\\\n)*.*\n", block.code, re.MULTILINE)
        spans = [(one.start() + 2, one.end()) for one in found]
        ends = [start - 2 for start, _ in spans[1:]] + [len(block.code)]
        commands = [
            (middle, block.code[start:middle], block.code[middle:end])
            for (start, middle), end in zip(spans, ends, strict=True)
        ]
    for place, command, wanted in commands:
        words = _plain_words(command)
        code, printed, told = _in_shell(command) if words is None else _in_process(words)
        assert code == 0, f"{page.name}:{block.line}: {command}\n{printed}{told}"
        if wanted.strip():
            _compare(block, place, wanted, printed, differs)


def _plain_words(command: str) -> list[str] | None:
    """The words after `onlinegcp`, patterns expanded; None for what a shell must run."""
    lexer = shlex.shlex(command.replace("\\\n", " "), posix=False, punctuation_chars=True)
    lexer.whitespace_split = True
    raw = list(lexer)
    if raw[:1] != ["onlinegcp"] or any(set(word) & set("$`;|&<>()") for word in raw):
        return None
    words: list[str] = []
    for word in raw[1:]:
        if word[0] in "'\"":
            words.append(word[1:-1])
        else:
            words += sorted(map(str, Path().glob(word))) if set(word) & set("*?[") else [word]
    return words


def _in_process(words: list[str]) -> tuple[int, str, str]:
    said, told, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["onlinegcp", *words]
    try:
        with (
            mock.patch.dict(os.environ, PLAIN),
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(told),
        ):
            code = call(words)
    finally:
        sys.argv = before
    return int(code), said.getvalue(), told.getvalue()


def _in_shell(command: str) -> tuple[int, str, str]:
    place = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        env={**os.environ, **place, **PLAIN},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def _compare(block: Block, place: int, wanted: str, printed: str, differs: Told) -> None:
    for pattern, instead in _CHANGING:
        printed = pattern.sub(instead, printed)
    if not doctest.OutputChecker().check_output(wanted, printed, LOOSE):
        differs(block, place, wanted, printed)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(f"{name}: {rewrite(Path(name).resolve())} outputs written")

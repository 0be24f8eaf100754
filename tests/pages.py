"""Pages as programs: the blocks of a Markdown page, run from top to bottom in a folder of its own.

- ``python`` blocks share one namespace. An ``output`` block right after one is what it printed.
- ``console`` blocks hold commands after ``$``; lines without it are what the command printed.
- ``sh`` blocks are commands alone.
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
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
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
        for pattern, instead in _CHANGING:
            printed = pattern.sub(instead, printed)
        printed = "".join(map(_fitted, printed.strip("\n").splitlines()))
        start = sum(map(len, lines[: block.line])) + place  # after the line of the fence
        text = text[:start] + printed + text[start + len(wanted) :]
    page.write_text(text, encoding="utf-8")
    return len(changes)


def _fitted(line: str) -> str:
    """A line of a page; prose is broken as a narrow terminal would, tables are left alone."""
    line = line.rstrip()
    if len(line) > 96 and "   " not in line.strip() and "─" not in line:
        line = textwrap.fill(line, 96, subsequent_indent="    ", break_on_hyphens=False)
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
        exec(compile("\n" * block.line + block.code, str(page), "exec"), names)
    return said.getvalue()


def _run_shell(block: Block, page: Path, differs: Told) -> None:
    if block.kind == "sh":
        commands = [(0, block.code, "")]
    else:
        found = re.finditer(r"^\$ (?:.*\\\n)*.*\n", block.code, re.MULTILINE)
        spans = [(one.start() + 2, one.end()) for one in found]
        ends = [start - 2 for start, _ in spans[1:]] + [len(block.code)]
        commands = [
            (middle, block.code[start:middle], block.code[middle:end])
            for (start, middle), end in zip(spans, ends, strict=True)
        ]
    place = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    plain = {"NO_COLOR": "1", "COLUMNS": "88", "TERM": "dumb"}
    for place_of_output, command, wanted in commands:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            env={**os.environ, **place, **plain},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        told = f"{page.name}:{block.line}: {command}\n{done.stdout}{done.stderr}"
        assert done.returncode == 0, told
        if wanted.strip():
            _compare(block, place_of_output, wanted, done.stdout, differs)


def _compare(block: Block, place: int, wanted: str, printed: str, differs: Told) -> None:
    if not doctest.OutputChecker().check_output(wanted, printed, LOOSE):
        differs(block, place, wanted, printed)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(f"{name}: {rewrite(Path(name).resolve())} outputs written")

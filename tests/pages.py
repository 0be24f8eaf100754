"""Pages as programs: the blocks of a Markdown page, run from top to bottom in a folder of its own.

- ``python`` blocks share one namespace. An ``output`` block right after one is what it printed.
- ``console`` blocks hold commands after ``$``; lines without it are what the command printed.
- ``sh`` blocks are commands alone.
- A comment ``<!-- setup: ... -->`` holds Python that readers need not see: files to work on.
- A comment ``<!-- not run: why -->`` right before a block says why it cannot be run here.

In expected output ``...`` stands for anything, and white space is folded.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
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


def run_page(page: Path, folder: Path) -> None:
    """Run every block of a page; raises AssertionError where output differs."""
    names: dict[str, object] = {"__name__": "__main__"}
    printed, before = "", Path.cwd()
    os.chdir(folder)
    try:
        for block in blocks_of(page):
            if block.not_run:
                printed = ""
            elif block.kind in ("python", "setup"):
                printed = _run_python(block, page, names)
            elif block.kind == "output":
                _compare(block.code, printed, page, block.line)
            elif block.kind in ("console", "sh"):
                _run_shell(block, page)
    finally:
        os.chdir(before)


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


def _run_shell(block: Block, page: Path) -> None:
    if block.kind == "sh":
        commands = [(block.code, "")]
    else:
        parts = re.split(r"^\$ ", block.code, flags=re.MULTILINE)[1:]
        commands = [_split(part) for part in parts]
    place = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    plain = {"NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb"}
    for command, wanted in commands:
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
            _compare(wanted, done.stdout, page, block.line)


def _split(part: str) -> tuple[str, str]:
    """A command, which goes on after a backslash, and what it printed."""
    lines = part.splitlines(keepends=True)
    end = 1
    while lines[end - 1].endswith("\\\n"):
        end += 1
    return "".join(lines[:end]), "".join(lines[end:])


def _compare(wanted: str, printed: str, page: Path, line: int) -> None:
    same = doctest.OutputChecker().check_output(wanted, printed, LOOSE)
    assert same, f"{page.name}:{line} shows\n{wanted}\nbut this was printed:\n{printed}"

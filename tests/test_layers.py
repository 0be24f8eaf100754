"""How files lie: layers are listed once, tests mirror the package, no file is long."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_page_shows_the_layers_that_lint_enforces():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    page = (ROOT / "docs" / "design.md").read_text()
    table = page[page.index("| layer |") :].split("\n\n")[0].splitlines()[2:]
    shown = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table]
    assert shown == [re.findall(r"\w+", layer) for layer in layers]


def test_tests_mirror_the_package():
    folders = {path.parent.relative_to(ROOT / "tests") for path in ROOT.glob("tests/**/test_*.py")}
    known = {
        path.parent.relative_to(ROOT / "src/onlinegcp")
        for path in ROOT.glob("src/onlinegcp/**/*.py")
    }
    assert folders - known == {Path("recorded")}


def test_no_file_has_more_than_five_hundred_lines():
    files = [
        path
        for folder in ("src", "tests", "benchmarks", "experiments", "reliability", "examples")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".js", ".css", ".html"} and ".venv" not in str(path)
    ]
    lengths = {path: path.read_text(encoding="utf-8").count("\n") for path in files}
    assert [path for path, length in lengths.items() if length > 500] == []
    assert len(lengths) > 500

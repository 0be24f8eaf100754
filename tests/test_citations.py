"""What is cited is here: rows of docs/errata.md, pages of docs/, and rows of the benchmarks."""

from __future__ import annotations

import csv
import fnmatch
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = [page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts]
TEXT = {path: path.read_text(encoding="utf-8") for path in SOURCES}


def test_every_row_of_the_errata_that_is_cited_is_there():
    page = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| (\d+) \|", page, flags=re.MULTILINE))
    cited = {row for text in TEXT.values() for row in re.findall(r"errata rows? (\d+)", text)}
    assert len(cited) > 5  # or the pattern has stopped matching
    assert cited <= rows


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_page_that_is_cited_is_in_the_repository(path):
    for page in re.findall(r"[\w./-]+\.md\b", TEXT[path]):
        places = (ROOT, ROOT / "docs", ROOT / "src")
        assert any((place / page).exists() for place in places), page


def test_every_row_of_the_benchmarks_that_is_cited_is_there():
    with (ROOT / "benchmarks" / "results.csv").open(encoding="utf-8") as table:
        cases = {row["case"] for row in csv.DictReader(table)}
    kinds = "|".join(sorted({case.partition("/")[0] for case in cases if "/" in case}))
    found = 0
    for page in (*PAGES, *ROOT.glob("*.md")):
        for cited in re.findall(rf"`((?:{kinds})/[^`\s]+)`", page.read_text(encoding="utf-8")):
            # `streaming/misfit` is a file of the package, `auto/...` all rows that begin so.
            if (ROOT / "src/onlinegcp" / cited).with_suffix(".py").exists():
                continue
            pattern = re.sub(r"\.\.\.|\{[^}]*\}", "*", cited)
            assert any(fnmatch.fnmatchcase(case, pattern) for case in cases), (
                f"{page.name}: {cited}"
            )
            found += 1
    assert found > 40  # or the pattern has stopped matching

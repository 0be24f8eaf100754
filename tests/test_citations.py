"""What the code cites can be read here: rows of docs/errata.md and pages of docs/."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
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

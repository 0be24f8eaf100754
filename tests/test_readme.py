"""The pages a newcomer reads: the code runs, the outputs are true, the links lead somewhere."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "docs/index.md", "docs/quickstart.md", "docs/slices.md"]


def blocks(page):
    """Python code of a page, with the line each block starts at."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for found in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield text.count("\n", 0, found.start()) + 1, found[1]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs_from_top_to_bottom(page):
    names: dict[str, object] = {"__name__": "__main__"}
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    found = list(blocks(page))
    assert found
    for line, code in found:
        if ">>>" not in code:
            exec(compile("\n" * line + code, page, "exec"), names)
            continue
        examples = parser.get_doctest(code, names, page, page, line)
        told: list[str] = []
        failed = runner.run(examples, out=told.append, clear_globs=False).failed
        assert not failed, "".join(told)
        names |= examples.globs


@pytest.mark.parametrize("page", [*PAGES, "docs/design.md", "CONTRIBUTING.md"])
def test_links_to_files_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert ((ROOT / page).parent / target).exists(), target


def test_the_five_lines_are_five_and_the_same_everywhere():
    (_, readme), *_ = blocks("README.md")
    (_, index), *_ = blocks("docs/index.md")
    assert readme == index
    assert len([line for line in readme.splitlines() if line and "import" not in line]) == 5

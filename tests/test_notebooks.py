"""The notebooks of the pages: they run from top to bottom, and show what is stored in them."""

from __future__ import annotations

import re
import sys

import pytest

import pages

NOTEBOOKS = sorted((pages.ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.fixture
def tools(monkeypatch):
    pytest.importorskip("nbclient", reason="needs nbclient and ipykernel: make test installs them")
    monkeypatch.syspath_prepend(str(pages.ROOT / "docs"))
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    import run_notebooks

    yield run_notebooks
    sys.modules.pop("run_notebooks", None)


def shown(notebook):
    """What each cell shows as text, by its number; drawings are left to the eye."""
    found = {}
    for number, cell in enumerate(notebook.cells):
        texts = [
            output.get("text") or output.get("data", {}).get("text/plain", "")
            for output in cell.get("outputs", [])
            if output.get("name") != "stderr"
        ]
        found[number] = "".join(texts)
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_holds(path, tools):
    held = tools.nbformat.read(path, as_version=4)
    again = shown(tools.run(path))
    for number, text in shown(held).items():
        assert again[number] == text, f"cell {number}; python docs/run_notebooks.py writes it anew"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_holds_its_outputs_and_needs_no_internet(path):
    text = path.read_text(encoding="utf-8")
    assert "image/png" in text
    assert "text/html" in text
    assert '"output_type": "error"' not in text
    assert not re.search(r"<script|<iframe|src=.?.?https?:|@import", text)
    assert len(text) < 400_000


def test_there_are_two():
    assert [path.stem for path in NOTEBOOKS] == ["compare-methods", "events-to-patterns"]

"""Run the notebooks from top to bottom, and keep what they show.

    python docs/run_notebooks.py

Needs nbclient and ipykernel (`pip install -e .[test]`).
"""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent / "notebooks").glob("*.ipynb"))


def run(path: Path) -> nbformat.NotebookNode:
    """The notebook with the outputs of a run in a fresh kernel; a cell that fails is an error."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it ran: different each time
    return notebook


if __name__ == "__main__":
    for path in NOTEBOOKS:
        nbformat.write(run(path), path)
        print(f"{path.name}: {path.stat().st_size:,} bytes")

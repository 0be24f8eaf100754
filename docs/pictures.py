"""Pictures of reports for the pages: parts of them as a browser shows them, small enough to commit.

    python docs/pictures.py        # those of the tutorial; the gallery has a script of its own

Needs Chromium, playwright and Pillow (`pip install -e .[test]`, `make chromium`).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

FIGURES = Path(__file__).parent / "figures"
PROGRAM = Path(sys.executable).parent / "onlinegcp"

TUTORIAL = {
    "tutorial-report": (".hero, #summary", 782),
    "tutorial-patterns": ("#patterns", 760),
    "tutorial-activations": ("#time", 700),
}


def take(report: Path, wanted: Mapping[str, tuple[str, int]], *, width: int = 1180) -> None:
    """Take pictures of parts of a report.

    Parameters
    ----------
    report
        The HTML file.
    wanted
        By name of the picture: CSS selectors of the first and the last element in it, with a comma
        between them, and the most pixels it may be high.
    width
        Of the window.
    """
    from PIL import Image
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if found is None:
        raise SystemExit("No Chromium found: make chromium.")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 1000})
        page.goto(report.resolve().as_uri())
        page.add_style_tag(content="header { position: static !important }")
        for section in page.query_selector_all("section"):  # charts are drawn when they are seen
            section.scroll_into_view_if_needed()
            page.wait_for_timeout(150)
        page.evaluate("scrollTo(0, 0)")
        for name, (selectors, most) in wanted.items():
            boxes = [page.locator(part).first.bounding_box() for part in selectors.split(",")]
            top = min(box["y"] for box in boxes)
            bottom = max(box["y"] + box["height"] for box in boxes)
            clip = {"x": 0, "y": top, "width": width, "height": min(bottom - top, most)}
            file = FIGURES / f"{name}.png"
            page.screenshot(path=file, clip=clip, full_page=True)
            # 256 colours are enough for charts and text, and a third of the bytes.
            Image.open(file).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
                file, optimize=True
            )
            print(f"{file.name}: {file.stat().st_size:,} bytes")
        browser.close()


def _tutorial() -> None:
    import polars as pl

    flights = pl.read_parquet(files("onlinegcp") / "data/flights2013.parquet")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        flights.filter(pl.col("date").dt.month() <= 7).write_parquet(place / "flights.parquet")
        words = "--time date --every 1d --modes dest,carrier,hour --loss poisson --rank 8"
        for command in (
            f"fit flights.parquet {words} --warm-start 28 --quiet -o flights.run",
            "report flights.run -o july.html",
        ):
            subprocess.run([PROGRAM, *command.split()], cwd=place, check=True)
        take(place / "july.html", TUTORIAL)


if __name__ == "__main__":
    _tutorial()

"""Pictures of reports for the pages: parts of them as a browser shows them, small enough to commit.

    python docs/pictures.py        # tutorial, report, live page; the gallery has its own script

Needs Chromium, playwright and Pillow (`pip install -e .[test]`, `make chromium`).
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

FIGURES = Path(__file__).parent / "figures"
PROGRAM = Path(sys.executable).parent / "onlinegcp"
PORT = 8917
MARGIN = 16  # pixels above and below
OFTEN = 128  # colours that are kept as they are

TUTORIAL = {
    "tutorial-report": (".opening, #answers", 900),
    "tutorial-patterns": ("#patterns", 760),
    "tutorial-activations": ("#time", 700),
}


# Of the demo: what a window of this size shows, from an element on.
WINDOWS = {
    "report": ((1440, 1000), ""),
    "report-unusual": ((1440, 1000), "#drift"),
    "report-phone": ((390, 844), ""),
}


# What may be left out of a picture, whole: cards, charts, entries of a list.
_PARTS = ".row, figure.chart, .ranking li, .detail, .more"
# Leaves out what would be cut through, and says where the last of the rest ends.
_WHOLE = """([parts, top, bottom, margin]) => {
  let end = top, cut = false;
  for (const part of document.querySelectorAll(parts)) {
    const box = part.getBoundingClientRect(), first = box.top + scrollY, last = first + box.height;
    if (first < bottom && last > bottom) {
      part.style.visibility = "hidden";
      cut = true;
    } else if (first >= top && last <= bottom) end = Math.max(end, last);
  }
  return cut ? Math.min(bottom, end + margin) : bottom;
}"""


def take(
    report: Path,
    wanted: Mapping[str, tuple[str, int]],
    *,
    press: Sequence[str] = (),
    width: int = 1180,
) -> None:
    """Take pictures of parts of a report.

    Parameters
    ----------
    report
        The HTML file.
    wanted
        By name of the picture: CSS selectors of the first and the last element in it, with a comma
        between them, and the most pixels it may be high.
    press
        What stands on the buttons that are pressed before.
    width
        Of the window.
    """
    with _opened(report.resolve().as_uri(), (width, 1000)) as page:
        page.add_style_tag(content="header { position: static !important }")
        for text in press:
            page.get_by_role("button", name=text).click()
        page.evaluate("scrollTo(0, 0)")
        for name, (selectors, most) in wanted.items():
            boxes = [page.locator(part).first.bounding_box() for part in selectors.split(",")]
            top = max(0, min(box["y"] for box in boxes) - MARGIN)
            bottom = max(box["y"] + box["height"] for box in boxes) + MARGIN
            bottom = page.evaluate(_WHOLE, [_PARTS, top, min(bottom, top + most), MARGIN])
            clip = {"x": 0, "y": top, "width": width, "height": bottom - top}
            page.screenshot(path=FIGURES / f"{name}.png", clip=clip, full_page=True)
            _pack(FIGURES / f"{name}.png")


def show(address: str, name: str, window: tuple[int, int], at: str = "") -> None:
    """Take a picture of what a window shows.

    Parameters
    ----------
    address, window
        Of the page, and of the window: width and height.
    name
        Of the picture.
    at
        CSS selector of the element to scroll to; empty for the top.
    """
    with _opened(address, window) as page:
        for _ in range(2 if at else 0):  # what is drawn on the way moves what comes after it
            page.evaluate(
                "at => document.querySelector(at).scrollIntoView({behavior: 'instant'})", at
            )
            page.wait_for_timeout(1000)
        page.screenshot(path=FIGURES / f"{name}.png")
        _pack(FIGURES / f"{name}.png")


@contextlib.contextmanager
def _opened(address: str, window: tuple[int, int]) -> Iterator[Any]:
    """A page with all of its charts drawn."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if found is None:
        raise SystemExit("No Chromium found: make chromium.")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": window[0], "height": window[1]})
        page.goto(address)
        page.wait_for_selector("section")
        for section in page.query_selector_all("section"):  # charts are drawn when they are seen
            section.scroll_into_view_if_needed()
            page.wait_for_timeout(150)
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_timeout(300)
        yield page
        browser.close()


def _pack(file: Path) -> None:
    """256 colours are enough for charts and text, and a third of the bytes."""
    from PIL import Image

    picture, dither = Image.open(file).convert("RGB"), Image.Dither.NONE
    # Backgrounds and text keep their colours, and so do marks of a few pixels: unusual slices.
    often = sorted(picture.getcolors(picture.width * picture.height), reverse=True)[:OFTEN]
    few = picture.quantize(256 - OFTEN, method=Image.Quantize.MAXCOVERAGE, dither=dither)
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for _, colour in often for part in colour] + few.getpalette())
    small = picture.quantize(palette=palette, dither=dither)
    small.save(file, optimize=True)
    print(f"{file.name}: {file.stat().st_size:,} bytes")


def _tutorial() -> None:
    """The commands of the tutorial, in its order: pictures show what its text says."""
    import polars as pl

    flights = pl.read_parquet(files("onlinegcp") / "data/flights2013.parquet")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for month in range(1, 8):
            part = flights.filter(pl.col("date").dt.month() == month)
            part.write_parquet(place / f"2013-{month:02}.parquet")
        words = "--time date --every 1d --modes dest,carrier,hour --loss poisson --rank 8"
        for command in (
            f"fit 2013-0[1-6].parquet {words} --warm-start 28 --quiet -o flights.run",
            "name flights.run 1 'Short hops by ExpressJet'",
            "update flights.run 2013-07.parquet --quiet",
            "report flights.run -o july.html",
        ):
            subprocess.run([PROGRAM, *shlex.split(command)], cwd=place, check=True)
        take(place / "july.html", TUTORIAL)


def _demo() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        subprocess.run([PROGRAM, "demo", "--quiet"], cwd=place, check=True)
        report = (place / "flights.run" / "report.html").resolve().as_uri()
        for name, (window, at) in WINDOWS.items():
            show(report, name, window, at)
        words = [PROGRAM, "watch", "flights.run", "--port", str(PORT)]
        with subprocess.Popen(words, cwd=place) as server:
            try:
                _wait_for(PORT)
                show(f"http://127.0.0.1:{PORT}/", "live", (1440, 1000))
            finally:
                server.terminate()


def _wait_for(port: int) -> None:
    for _ in range(300):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.1)
    raise SystemExit(f"Nobody answers at port {port}.")


if __name__ == "__main__":
    _tutorial()
    _demo()

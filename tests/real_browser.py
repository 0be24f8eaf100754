"""Debian's Chromium for tests of pages, or a skip that says how to get it."""

from __future__ import annotations

import contextlib
import shutil

import pytest

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextlib.contextmanager
def open_browser():
    """A Chromium."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("no Chromium found: apt-get install -y chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def open_page(browser, url, **options):
    """A page, and the list of everything it complained about."""
    page = browser.new_page(**{"viewport": {"width": 1280, "height": 900}, **options})
    problems = []
    page.on(
        "console", lambda m: problems.append(m.text) if m.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("requestfailed", lambda request: problems.append(request.url))
    try:
        page.goto(url)
        yield page, problems
    finally:
        page.close()

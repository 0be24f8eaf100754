"""Labels that are long, alike, or read from the right, in a real browser: all keeps its place."""

from __future__ import annotations

import pytest

import fake_run
import real_browser
from onlinegcp import runlog
from onlinegcp.report import write_report
from run_views import view

pytestmark = pytest.mark.slow

ENDLESS = tuple(f"{'warehouse' * 18}{k}" for k in range(5))
PAGES = tuple(f"https://shop.example/catalogue/{k}/a page with a long title" for k in range(6))
SCRIPTS = ("דבר", "القاهرة الكبرى", "東京", "Łódź")
OUTSIDE = """() => {
  const bad = [];
  for (const box of document.querySelectorAll('.row, .answer, .chart, .detail, .figures > div')) {
    const edge = box.getBoundingClientRect();
    for (const node of box.querySelectorAll('*:not(svg *)')) {
      const own = node.getBoundingClientRect();
      if (own.right > edge.right + 1 && !node.closest('.scroll'))
        bad.push(`${node.tagName}.${node.className}`);
    }
  }
  return [document.documentElement.scrollWidth - innerWidth, bad];
}"""


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    run = view(40, rank=2, shape=(5, 6, 4), labels=(ENDLESS, PAGES, SCRIPTS))
    for factor in run.factors:
        factor[:2] *= 20.0  # labels that are worth naming
    for step in run.steps:
        for name in ("total", "prequential", "local"):
            step[name] = step[name] and step[name] * 1.31e-7
        if step["anomaly"]:
            step["anomaly"]["expected_total"] *= 1.31e-7
            step["anomaly"]["sentence"] = (
                "Total 1.31e-05, -12 % less than expected. דבר +54 % (238, usually 119 to 191)."
            )
    path = tmp_path_factory.mktemp("labels") / "hard.run"
    fake_run.start(path, run.modes, 2)
    (path / runlog.STEPS).write_bytes(b"".join(map(runlog.encode_step, run.steps)))
    fake_run.store(path, run.factors, run.labels, run.steps[-1])
    return write_report(path).as_uri()


@pytest.fixture(scope="module")
def browser():
    with real_browser.open_browser() as found:
        yield found


@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_nothing_leaves_its_frame(browser, url, width):
    size = {"width": width, "height": 900}
    with real_browser.open_page(browser, url, viewport=size) as (page, problems):
        assert page.evaluate(OUTSIDE) == [0, []]
    assert problems == []


def test_labels_are_told_apart_and_numbers_keep_their_place(browser, url):
    with real_browser.open_page(browser, url) as (page, problems):
        for column in page.locator(".bars").all():
            shown = column.locator("span[title]").all_inner_texts()
            assert len({text[:16] for text in shown}) == len(shown), shown
        told = page.locator("#lately .alarms small").first.inner_text()
        assert "\u2068דבר\u2069 +54\u00a0%" in told  # isolated: what follows stays behind it
        assert "1.31·10⁻⁵" in told
        assert "−12\u00a0%" in told
        # The whole of what stands beside the axis can be seen.
        left = page.locator("#overall svg").bounding_box()["x"]
        marks = page.locator("#overall svg > text[text-anchor='end']").all()
        assert any("·10⁻" in mark.text_content() for mark in marks)
        assert all(mark.bounding_box()["x"] >= left for mark in marks)
    assert problems == []

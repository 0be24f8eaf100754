"""The report in a real browser: it draws, answers to the mouse and the keys, and fits a phone."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

import fake_run
import onlinegcp
import real_browser
from onlinegcp import runlog
from onlinegcp.cli import Exit, call
from onlinegcp.evaluate import Comparison, Contender
from onlinegcp.report import write_report
from onlinegcp.report.comparison import render_comparison
from onlinegcp.report.global_loss import CACHE
from onlinegcp.report.ranks import render_ranks
from onlinegcp.run import Run
from run_views import view

HERE = Path(__file__).parent

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser():
    with real_browser.open_browser() as found:
        yield found


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "flights.run"
    # The fourth of July is in it.
    fake_run.write_run(path, n_days=200, rank=3, n_iterations=5)
    # As a report that has read the sources again would leave it.
    losses = [step["local"] * 1.02 for step in runlog.read_run(path).steps]
    digest = hashlib.sha256((path / runlog.CHECKPOINT).read_bytes()).hexdigest()
    (path / CACHE).write_text(json.dumps({"checkpoint": digest, "losses": losses}))
    return write_report(path).as_uri()


@pytest.fixture
def page(browser, url):
    with real_browser.open_page(browser, url) as (page, problems):
        yield page
        assert problems == []


def test_every_view_is_drawn(page):
    assert page.inner_text("h1") == "Flights"
    assert page.locator(".row").count() == 3
    assert page.locator(".row svg.mini").count() >= 6
    assert page.locator("#activations path.series").count() == 3
    assert page.locator("#losses path.series").count() == 3
    legend = page.locator("#losses .legend span").all_inner_texts()
    assert [text.split(",")[0] for text in legend] == ["Prequential", "Local", "Global"]
    assert page.locator("#losses text", has_text="warm start ends").count() == 1
    assert page.locator("#fit-missing").is_hidden()
    assert page.locator("#heat image").count() == 1
    assert page.locator("#timeline .flag").count() >= 1
    assert "200" in page.inner_text("#figures")
    assert page.locator("#overall path.series").count() == 3  # total, expected, forecast
    assert page.locator("#overall .alarm").count() == page.locator("#timeline .flag").count()
    assert page.locator("#inside li").count() == 3
    assert page.inner_text("#lately .newest").startswith("Newest: 19 Jul 2013")
    assert "Next: 20 Jul 2013" in page.inner_text("#lately")
    assert "onlinegcp fit flights2013.parquet" in page.inner_text("#reproduce")
    for path in page.locator("path.series").all():
        assert "NaN" not in path.get_attribute("d")
        assert len(path.get_attribute("d")) > 100


def test_a_report_without_the_global_loss_says_why(browser, tmp_path):
    path = fake_run.write_run(tmp_path / "f.run", n_days=20, rank=2, n_iterations=2)
    with real_browser.open_page(browser, write_report(path).as_uri()) as (page, problems):
        assert page.locator("#losses path.series").count() == 2
        assert page.inner_text("#fit-missing").startswith("There is no global loss: ")
    assert problems == []


@pytest.mark.parametrize("size", [30, 900, 2_000_000])
def test_numbers_beside_an_axis_are_whole_and_of_one_form(browser, url, tmp_path, size):
    text = Path(url.removeprefix("file://")).read_text()
    payload = re.search(r'(?<=id="payload">).*?(?=</script>)', text, flags=re.DOTALL)[0]
    data = json.loads(payload)
    for row in data["steps"]["rows"]:
        row["total"] *= size
        row["w"] = [part * size for part in row["w"]]
    large = tmp_path / "large.html"
    large.write_text(text.replace(payload, json.dumps(data)))
    with real_browser.open_page(browser, large.as_uri()) as (page, problems):
        for chart in ("#overall", "#activations"):
            page.locator(f"{chart} svg").scroll_into_view_if_needed()
            marks = page.evaluate(
                """chart => {
                  const svg = document.querySelector(`${chart} svg`);
                  const edge = svg.getBoundingClientRect().left;
                  return [...svg.querySelectorAll(':scope > text[text-anchor="end"]')].map(
                    (mark) => [mark.textContent, mark.getBoundingClientRect().left - edge]);
                }""",
                chart,
            )
            assert len(marks) >= 2
            assert all(room >= 0 for _, room in marks), marks
            forms = {text[-1].isalpha() for text, _ in marks if text != "0"}
            assert len(forms) == 1, marks
    assert problems == []


def test_hovering_tells_the_numbers(page):
    for chart, word in (("#losses", "Global"), ("#heat", "Drift"), ("#timeline", "Expected")):
        box = page.locator(f"{chart} svg")
        box.scroll_into_view_if_needed()
        box.hover()
        assert word in page.inner_text("#tip")
    page.locator("#grid .row svg.mini").first.hover()
    assert page.inner_text("#tip")
    page.mouse.move(5, 5)
    page.locator("h1").hover()
    assert page.locator("#tip").is_hidden()


def test_clicking_a_slice_shows_its_cells(page):
    names = page.locator("#ranking button span").all_inner_texts()
    assert "4 Jul 2013" in names
    for place in (1, 2):
        button = page.locator("#ranking button").nth(place)
        button.click()
        assert names[place] in page.inner_text("#detail h3")
        assert page.locator("#detail tbody tr").count() > 2
    tables = page.locator("#detail table").all()
    shown = [table.locator("th:visible").all_inner_texts() for table in tables]
    assert {names[0] for names in shown} <= {"dest", "carrier", "hour", "dest, carrier, hour"}
    assert all(names[1:] == ["Observed", "Expected", "Usual", "p"] for names in shown)
    flag = page.locator("#timeline .flag").first
    number = flag.get_attribute("data-number")
    flag.scroll_into_view_if_needed()
    box = flag.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.locator('#ranking [aria-current="true"]').get_attribute("data-number") == number


def test_patterns_are_switched_on_and_off(page):
    page.locator("#chips button").nth(1).click()
    assert page.locator("#activations path.series").count() == 2
    assert page.locator("#chips button").nth(1).get_attribute("aria-pressed") == "false"


def test_dragging_zooms_every_chart_and_escape_returns(page):
    before = page.locator("#losses path.series").first.get_attribute("d")
    chart = page.locator("#activations svg")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 110, steps=5)
    page.mouse.up()
    assert page.locator("#losses path.series").first.get_attribute("d") != before
    assert page.locator(".reset").count() >= 4
    page.locator("#activations svg").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("#losses path.series").first.get_attribute("d") == before


def test_it_fits_a_phone_and_the_dark(browser, url):
    options = {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"}
    with real_browser.open_page(browser, url, **options) as (page, problems):
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        # Nothing has to be pushed sideways to be read.
        wide = "[...document.querySelectorAll('.scroll, .chart')]"
        assert page.evaluate(f"{wide}.filter((n) => n.scrollWidth > n.clientWidth + 1).length") == 0
        assert page.locator("#detail th:visible").nth(1).inner_text() == "Observed"
        assert page.locator("#detail th:visible").nth(2).inner_text() == "Usual"
        assert page.locator("#activations path.series").count() == 3
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 22, 28)"
    assert problems == []


def test_the_keyboard_reaches_everything_and_shows_where_it_is(page):
    script = """() => {
      const node = document.activeElement, style = getComputedStyle(node);
      return [node.tagName, node.closest("section, header, figure")?.id ?? "", style.outlineStyle];
    }"""
    seen = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        name, place, outline = page.evaluate(script)
        if name == "BODY":
            break
        assert outline == "solid", (name, place)
        seen.add(place)
    for place in ("activations", "losses", "heat", "timeline", "volume", "unusual", "settings"):
        assert place in seen


def test_it_prints_on_a_few_pages(page, tmp_path):
    page.pdf(path=tmp_path / "report.pdf", format="A4")
    content = (tmp_path / "report.pdf").read_bytes()
    assert 2 <= content.count(b"/Type /Page\n") + content.count(b"/Type /Page/") <= 9


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lines_can_be_told_from_what_is_behind_them(browser, url, scheme):
    # WCAG AA: 3 to 1 for what is drawn.
    script = """() => {
      const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
        .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
      const probe = document.createElement('i'); document.body.append(probe);
      const of = (name) => { probe.style.color = `var(${name})`;
        return light(getComputedStyle(probe).color.match(/[\\d.]+/g).map(Number)); };
      const names = [...Array(12).keys()].map((k) => `--c${k}`);
      names.push('--alert', '--volume', '--accent', '--total');
      const card = of('--card');
      return names.map((name) => [name, of(name)])
        .map(([name, v]) => [name, (Math.max(v, card) + 0.05) / (Math.min(v, card) + 0.05)])
        .filter(([, ratio]) => ratio < 3);
    }"""
    with real_browser.open_page(browser, url, color_scheme=scheme) as (page, _):
        assert page.evaluate(script) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_enough_contrast(browser, url, scheme):
    # WCAG AA: 4.5 to 1 for the words, against the nearest background behind them.
    script = """() => {
      const parse = (c) => (c.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
      const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
        .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
      const behind = (n) => { for (; n; n = n.parentElement) {
        const c = parse(getComputedStyle(n).backgroundColor); if (c[3] !== 0) return c; }
        return [255, 255, 255]; };
      const bad = [];
      const words = 'p,h1,h2,h3,h4,a,span,dt,dd,td,th,em,small,button,text,b';
      for (const n of document.querySelectorAll(words)) {
        if (!n.textContent.trim() || n.closest('.tip,.skip,.masthead')) continue;
        const style = getComputedStyle(n), svg = n.tagName === 'text';
        const a = light(parse(svg ? style.fill : style.color));
        const b = light(behind(svg ? n.closest('figure,.row') : n));
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) bad.push(`${n.tagName} ${n.textContent.slice(0, 20)} ${ratio.toFixed(2)}`);
      }
      return [...new Set(bad)];
    }"""
    with real_browser.open_page(browser, url, color_scheme=scheme) as (page, _):
        assert page.evaluate(script) == []


def test_a_label_filters_patterns_and_alarms(page):
    total = page.locator("#ranking button").count()
    page.locator("#overall svg").wait_for()
    label = page.locator("#detail td.name").first.inner_text().split(",")[0]
    page.fill("#filter", label)
    kept = page.locator("#ranking button").count()
    assert 1 <= kept <= total
    assert page.locator("#grid .match").count() >= 1
    for name in page.locator("#grid .match").all_inner_texts():
        assert label.lower() in name.lower()
    page.fill("#filter", "no label is called so")
    assert page.locator("#ranking button").count() == 0
    assert "such a label" in page.inner_text("#grid")
    page.fill("#filter", "")
    assert page.locator("#ranking button").count() == total


def test_the_newest_slices_can_be_looked_at_alone(page):
    before = page.locator("#losses path.series").first.get_attribute("d")
    page.click("#spans button:has-text('Last 30')")
    pressed = page.locator("#spans [aria-pressed='true']").all_inner_texts()
    assert pressed == ["Last 30"]
    path = page.locator("#losses path.series").first.get_attribute("d")
    assert 25 <= path.count("L") + path.count("M") <= 33
    page.click("#spans button:has-text('All')")
    assert page.locator("#losses path.series").first.get_attribute("d") == before


@pytest.mark.parametrize("chart", ["#overall", "#activations", "#losses", "#heat"])
def test_a_click_on_a_time_chooses_the_slice(page, chart):
    assert page.locator("#chosen").is_hidden()
    box = page.locator(f"{chart} svg")
    box.scroll_into_view_if_needed()
    box.hover()
    day = page.locator("#tip b").inner_text()
    box.click()
    if page.inner_text("#chosen b") != day:  # an alarm nearby is what was meant
        assert "Unusual" in page.inner_text("#detail .tag")
    assert page.inner_text("#chosen b") == page.inner_text("#detail h3")


def test_an_alarm_of_late_is_explained_by_a_click(page):
    alarm = page.locator("#lately .alarms button").first
    number = alarm.get_attribute("data-number")
    day = alarm.locator("span").inner_text()
    alarm.click()
    assert day in page.inner_text("#detail h3")
    current = page.locator("#ranking [aria-current='true']")
    assert current.count() == 0 or current.get_attribute("data-number") == number


def write_odd_run(path):
    """A run of months whose last slice was cut off, with more patterns than colours."""
    run = view(60, rank=14, shape=(20, 5))
    for t, step in enumerate(run.steps):
        step["time"] = f"{2000 + t // 12}-{t % 12 + 1:02}-01"
        step["partial"] = t == 59
        step["prequential"] = None if t < 5 else 4000.0 if t == 59 else -50.0
        step["anomaly"] = None if t == 59 else step["anomaly"]
    fake_run.start(path, run.modes, 14)
    lines = b"".join(map(runlog.encode_step, run.steps))
    (path / runlog.STEPS).write_bytes(lines)
    fake_run.store(path, run.factors, run.labels, run.steps[-1])
    return path


def test_a_month_that_was_cut_off_is_marked_and_does_not_flatten_the_rest(browser, tmp_path):
    path = write_odd_run(tmp_path / "odd.run")
    with real_browser.open_page(browser, write_report(path).as_uri()) as (page, problems):
        assert page.locator("#overall circle.cut").count() == 1
        assert page.inner_text("#lately .newest").startswith("Newest: Dec 2004")
        assert "cut off" in page.inner_text("#lately .newest")
        assert page.inner_text("#detail h3") == "July 2002"  # and not its first day
        # It lost 40 per event where all others gained a half.
        ticks = page.locator("#losses svg text").all_text_contents()
        heights = [float(text.replace("−", "-")) for text in ticks if text[0] in "−0123456789"]
        assert max(height for height in heights if height < 1000) < 1
        colors = page.evaluate(
            "[...document.querySelectorAll('.row')].map((n) => n.style.getPropertyValue('--c'))"
        )
        assert len(colors) == 14
        assert len(set(colors)) == 12
        scale = page.locator("#heat .legend").inner_text()
        assert "0.0001" in scale
        assert "1, tenfold" in scale
    assert problems == []


def test_a_total_beyond_the_axis_says_how_large_it_is(browser, tmp_path):
    """A flood does not flatten the chart, nor does it look like a little more than usual."""
    slices = [onlinegcp.Slice.dense(np.full((3, 2), 10.0 + t % 3), time=t) for t in range(60)]
    slices[50] = onlinegcp.Slice.dense(np.full((3, 2), 700.0), time=50)
    path = tmp_path / "flood.run"
    with Run.create(path, onlinegcp.OnlineGCP(1, "poisson"), modes=["a", "b"]) as run:
        run.learn(slices)
    with real_browser.open_page(browser, write_report(path).as_uri()) as (page, problems):
        assert "4,200" in page.locator("#overall svg text").all_text_contents()
    assert problems == []


def test_the_pages_of_one_thing_are_drawn(browser, url, tmp_path):
    losses = np.random.default_rng(0).gamma(9, 1, (4, 30))
    text = render_ranks(
        [1, 2, 3, 5], losses, np.array([1, 0.9, 0.8, 0.4]), best=2, recommended=2, stable=0.8,
        advice="Use rank 2: it predicts best.", source="e.csv", command="onlinegcp fit e.csv",
    )  # fmt: skip
    (tmp_path / "rank.html").write_text(text)
    curves = {"one": [1.0, 2.0, 3.0], "two": [1.5, 2.0, 3.5], "lost": [2.0, 900.0, 9e9]}
    raced = [Contender(n, None, c[1], c[1], c[1], 0.9, 1, 1, tuple(c)) for n, c in curves.items()]
    found = Comparison("poisson", 13, 10, (*raced, Contender("four", refusal="too large")))
    text = render_comparison(found.to_dict(), source="e.csv", command="onlinegcp fit e.csv")
    (tmp_path / "compare.html").write_text(text)
    run = Path(url.removeprefix("file://")).parent
    words = ["diff", str(run), "--before", "2013-04-01", "-o", str(tmp_path / "diff.html")]
    assert call(words) is Exit.DONE
    for name, marks in (("rank", "circle"), ("diff", "circle"), ("compare", "path.series")):
        for width, scheme in ((1280, "light"), (360, "dark")):
            options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
            address = (tmp_path / f"{name}.html").as_uri()
            with real_browser.open_page(browser, address, **options) as (page, problems):
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                assert page.locator(f"main svg {marks}").count() >= 3
                assert page.inner_text("h1")
                page.locator("svg").first.hover()
            assert problems == []


def test_slices_that_have_come_are_no_longer_forecast(page):
    script = """(days) => {
      const rows = page.steps.rows, last = rows[rows.length - 1];
      const start = parseTime(last.t);
      for (let d = 1; d <= days; d++)
        rows.push({ ...last, n: last.n + d,
          t: new Date(start + d * 864e5).toISOString().slice(0, 10) });
      renderAll();
      return [document.querySelectorAll("#overall .forecast").length,
        document.querySelector("#lately .next b")?.textContent ?? ""];
    }"""
    assert page.evaluate(script, 3) == [1, "Next: 23 Jul 2013"]
    assert page.evaluate(script, 30) == [0, ""]


def test_an_alarm_within_a_point_of_many_slices_is_explained_all_the_same(
    browser, tmp_path, monkeypatch
):
    monkeypatch.setattr("onlinegcp.digest.digest.MOST_POINTS", 4)
    monkeypatch.setattr("onlinegcp.digest.digest.NEWEST", 3)
    run = view(120, rank=2, shape=(20, 5))
    for t in (52, 54):  # besides the one in the middle
        run.steps[t]["anomaly"] |= {"flagged": True, "p": 1e-6}
    path = tmp_path / "long.run"
    fake_run.start(path, run.modes, 2)
    (path / runlog.STEPS).write_bytes(b"".join(map(runlog.encode_step, run.steps)))
    fake_run.store(path, run.factors, run.labels, run.steps[-1])
    with real_browser.open_page(browser, write_report(path).as_uri()) as (page, problems):
        days = page.locator("#lately .alarms span").all_inner_texts()
        assert days == ["2 Mar 2013", "24 Feb 2013", "22 Feb 2013"]
        assert page.locator("#timeline .flag").count() == 1  # they are in one point
        for place, day in enumerate(days):
            page.locator("#lately .alarms button").nth(place).click()
            assert day in page.inner_text("#detail h3")
            assert page.locator("#detail tbody tr").count() >= 1
    assert problems == []


def test_words_beside_lines_and_wide_forecasts_stay_within_their_chart(
    browser, tmp_path, monkeypatch
):
    make_steps = fake_run.make_steps

    def wild(*args, **options):
        *rest, steps = make_steps(*args, **options)
        rng = np.random.default_rng(0)
        for t, step in enumerate(steps):
            step["regime"] = "new" if t in (11, 13, 25) else ""
            step["weights"] = step["weights"] * (rng.choice([0.01, 9.0]) if t > 40 else 1.0)
        return (*rest, steps)

    monkeypatch.setattr(fake_run, "make_steps", wild)
    path = fake_run.write_run(tmp_path / "f.run", n_days=60, rank=2, n_iterations=2)
    size = {"viewport": {"width": 390, "height": 800}}
    with real_browser.open_page(browser, write_report(path).as_uri(), **size) as (page, problems):
        said = page.locator("#overall svg text.halo")
        boxes = [said.nth(k).bounding_box() for k in range(said.count())]
        assert len(boxes) >= 2  # the warm start, and at least one change
        for k, a in enumerate(boxes):
            for b in boxes[k + 1 :]:
                beside = a["x"] + a["width"] <= b["x"] or b["x"] + b["width"] <= a["x"]
                below = a["y"] + a["height"] <= b["y"] or b["y"] + b["height"] <= a["y"]
                assert beside or below, (a, b)
        inside = page.evaluate(
            """() => {
              const svg = document.querySelector("#overall svg"),
                band = svg.querySelector("path.forecast").previousElementSibling.getBBox(),
                bottom = svg.viewBox.baseVal.height - 26;
              return [band.height > 50, band.y >= 0, band.y + band.height <= bottom + 2];
            }"""
        )
        assert inside == [True, True, True]
        assert problems == []

// The first screen: what is in it, what changed, what happened lately, over a chart of all slices.

import {
  axisLabels,
  byId,
  compact,
  diamond,
  draw,
  known,
  make,
  niceTicks,
  percent,
  prose,
  say,
} from "./charts.js";
import { clock, sayTime } from "./clock.js";
import { color, concerns, filter, matches, page, setFilter, unit } from "./state.js";
import { extent, frame, linePath, swatch } from "./timeline.js";

const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);
const SHOWN_PATTERNS = 6;
const SHOWN_ALARMS = 3;
export const MOST_MARKS = 80;

export function renderHero() {
  const { run, model, steps } = page;
  byId("title").textContent = page.title;
  document.title = `${page.title} · onlinegcp`;
  byId("eyebrow").textContent = `${page.live ? "Live run" : "Run report"} · ${page.name}`;
  byId("lede").textContent = prose(model.about);
  const figures = [
    [compact(steps.events), run.unit || "sum of all values"],
    [compact(steps.count), `${model.interval} slices`.trim()],
    [
      String(model.components.length || run.parameters.rank || "–"),
      model.components.length === 1 ? "pattern" : "patterns",
    ],
    [
      steps.scored ? steps.flagged.toLocaleString("en-US") : "–",
      steps.scored ? `flagged of ${steps.scored.toLocaleString("en-US")} scored` : "flagged",
    ],
    model.fit.figure ? [model.fit.figure, model.fit.caption] : null,
  ];
  byId("figures").replaceChildren(
    ...figures
      .filter(Boolean)
      .map(([value, text]) => make("div", {}, make("dt", {}, text), make("dd", {}, value))),
  );
}

// Total of every slice with what was expected, alarms, and what comes next.
export function renderTotals(holder, { height, ahead }) {
  const rows = page.steps.rows,
    forecast = ahead ? clock.forecast : null;
  if (!clock.x.length) {
    holder.replaceChildren(make("p", { class: "empty" }, "Nothing to draw yet."));
    return;
  }
  const whole = rows.map((row) => (row.partial && !row.k ? null : row.total)),
    expected = rows.map((row) => row.expected),
    low = rows.map((row) => row.low ?? row.total),
    high = rows.map((row) => row.high ?? row.total),
    thinned = rows.some((row) => row.k);
  // From zero, unless all there is would be a line at the top.
  const open = extent([whole, expected, ...(thinned ? [low, high] : [])]),
    zero = open[0] < 0.6 * open[1] || open[0] <= 0,
    y = extent([whole, expected, ...(thinned ? [low, high] : [])], { zero });
  if (forecast && !clock.domain) {
    const reach = y[1] - y[0];
    y[1] = Math.min(Math.max(y[1], ...forecast.high), y[1] + reach);
    y[0] = Math.max(Math.min(y[0], ...forecast.low), y[0] - reach);
  }
  const what = capital(unit());
  frame(holder, {
    height,
    y,
    ahead,
    yTicks: axisLabels(niceTicks(y[0], y[1], 4)),
    label: `${what} in each slice, and how many were expected`,
    legend: [
      swatch("var(--total)", `${what} per slice`),
      swatch("var(--volume)", "Expected", "dash"),
      swatch("var(--alert)", "Unusual pattern", "dot"),
      swatch("var(--volume)", "Unusual volume", "square"),
      forecast ? swatch("var(--accent)", `Forecast, ${percent(forecast.level)} interval`) : null,
      rows.some((row) => row.partial)
        ? swatch("var(--faint)", "Cut off, not scored", "ring")
        : null,
    ].filter(Boolean),
    lines: (i) => [
      [rows[i].k ? `Mean of ${rows[i].k} slices` : what, say(rows[i].total)],
      ["Expected", say(expected[i])],
      ...(rows[i].k ? [["Lowest, highest", `${say(low[i])} to ${say(high[i])}`]] : []),
      ...(rows[i].partial ? [["Cut off", "not scored"]] : []),
      ...(rows[i].a?.flagged ? [["Unusual", rows[i].a.severity ?? ""]] : []),
    ],
    paint(group, X, Y) {
      if (thinned) {
        const back = linePath(low, X, Y),
          forth = linePath(high, X, Y);
        for (const d of [back, forth])
          group.append(
            draw("path", { d, style: "fill:none;stroke:var(--total);stroke-width:1;opacity:.3" }),
          );
      }
      group.append(
        draw("path", {
          d: linePath(expected, X, Y),
          class: "series",
          style: "fill:none;stroke:var(--volume);stroke-width:1.2;stroke-dasharray:2 2.5",
        }),
        draw("path", {
          d: linePath(whole, X, Y),
          class: "series",
          style: "fill:none;stroke:var(--total);stroke-width:1.5;stroke-linejoin:round",
        }),
      );
      if (forecast) paintForecast(group, X, Y, forecast);
      paintChanges(group, X, Y);
      paintBeyond(group, X, Y, whole, y[1]);
      paintMarks(group, X, Y);
    },
  });
}

// Totals above the end of the axis: the largest of them say how large they are.
function paintBeyond(group, X, Y, totals, end) {
  const [first, last] = clock.visible(),
    [top] = Y.edges,
    beyond = totals
      .map((total, i) => ({ total, i }))
      .filter(({ total, i }) => known(total) && total > end && i >= first && i <= last)
      .sort((a, b) => b.total - a.total)
      .slice(0, 3);
  for (const { total, i } of beyond) {
    const x = X(clock.x[i]),
      early = x < X(clock.range()[0]) + 80;
    group.append(
      draw("path", { d: `M${x - 4},${top + 7}h8l-4,-7z`, style: "fill:var(--total)" }),
      draw(
        "text",
        {
          x: x + (early ? 8 : -8),
          y: top + 9,
          "font-size": 11,
          class: "halo",
          "text-anchor": early ? "start" : "end",
        },
        say(total),
      ),
    );
  }
}

function paintForecast(group, X, Y, { x, total, low, high }) {
  const [top, bottom] = Y.edges,
    // An interval may be wider than all there was; it ends where the axis does.
    inside = (v) => Math.max(top, Math.min(bottom, Y(v))),
    path = (values) => values.map((v, i) => `${X(x[i]).toFixed(1)},${inside(v).toFixed(1)}`);
  group.append(
    draw("path", {
      d: `M${[...path(high), ...path(low).reverse()].join("L")}Z`,
      style: "fill:var(--accent);opacity:.16",
    }),
    draw("path", {
      d: `M${path(total).join("L")}`,
      class: "series forecast",
      style: "fill:none;stroke:var(--accent);stroke-width:2",
    }),
  );
}

// When many patterns changed at once.
function paintChanges(group, X, Y) {
  const room = 110; // that the words take
  let told = -Infinity;
  clock.rows.forEach((row, i) => {
    if (!row.regime) return;
    const [top, bottom] = Y.edges,
      x = X(clock.x[i]),
      late = x > X(clock.range()[1]) - room, // there is none behind it
      said = x - told > room + (late ? room : 0);
    if (said) told = x;
    group.append(
      draw("line", {
        x1: x,
        x2: x,
        y1: top,
        y2: bottom,
        style: "stroke:var(--ink);stroke-dasharray:1 3",
      }),
    );
    if (!said) return;
    group.append(
      draw(
        "text",
        {
          x: x + (late ? -4 : 4),
          y: top + 33, // below what is said of the warm start
          "font-size": 11,
          class: "halo",
          "text-anchor": late ? "end" : "start",
        },
        "patterns changed",
      ),
    );
  });
}

function paintMarks(group, X, Y) {
  const [first, last] = clock.visible(),
    [top, bottom] = Y.edges,
    // Of very many alarms the oddest are marked, the others hinted at.
    limit = clock.rows
      .slice(first, last + 1)
      .filter((row) => row.a?.flagged)
      .map((row) => row.a.p)
      .sort((a, b) => a - b)[MOST_MARKS];
  for (let i = first; i <= last; i++) {
    const row = clock.rows[i],
      odd = row.a?.flagged;
    if (!odd && !(row.partial && !row.k)) continue;
    const total = odd ? row.a.total : row.total;
    if (!known(total)) continue;
    const cx = X(clock.x[i]),
      cy = Math.max(top + 4, Math.min(bottom - 4, Y(total))),
      volume = odd && row.a.kind === "volume",
      r = odd ? (row.a.p >= limit ? 1.5 : 4.5) : 4,
      // Told apart by form as well as by colour.
      mark = volume ? diamond(cx, cy, r) : draw("circle", { cx, cy, r });
    mark.setAttribute("class", odd ? "alarm" : "cut");
    mark.style.cssText = odd
      ? `fill:var(--${volume ? "volume" : "alert"});stroke:var(--card)`
      : "fill:var(--card);stroke:var(--faint);stroke-width:1.5";
    if (odd && filter && !tells(row)) mark.style.opacity = 0.2;
    if (odd && row.a.p >= limit) mark.style.cssText += ";stroke:none;opacity:.4";
    group.append(mark);
  }
}

// Whether a slice is about a label the reader asked for.
export function tells(row) {
  if (!filter) return true;
  const { a } = row;
  return (
    (a?.modes ?? []).some((entries) => entries.some(([label]) => matches(label))) ||
    (a?.cells ?? []).some(([labels]) => labels.some((label) => label && matches(label))) ||
    matches(a?.said ?? "")
  );
}

export function renderAnswers() {
  const cards = [inside(), changed(), lately()],
    box = byId("answers"),
    parts = () => [...box.querySelectorAll("a, button")],
    focused = parts().indexOf(document.activeElement);
  box.replaceChildren(...(page.live ? cards.reverse() : cards));
  // A reader who came here by keys stays where they are.
  if (focused >= 0) parts()[focused]?.focus({ preventScroll: true });
}

// The strongest of a pattern's labels that the reader asked for, with its share.
function part(component) {
  if (!filter) return null;
  const found = component.modes.flatMap((column) =>
    (column.labels ?? []).map((label, i) => [label, column.values[i]]),
  );
  const fit = found.filter(([label]) => matches(label));
  return fit.sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]))[0] ?? null;
}

const card = (id, title, ...content) =>
  make("div", { class: "answer", id }, make("h2", {}, title), ...content);

function inside() {
  const found = page.model.components.filter(concerns).map((c) => ({ ...c, part: part(c) })),
    // With a label asked for, the patterns that hold most of it come first.
    size = (c) => c.share * (c.part ? Math.abs(c.part[1]) : filter ? 0 : 1),
    components = filter ? found.sort((a, b) => size(b) - size(a)) : found,
    most = Math.max(...components.map(size), 1e-12);
  if (!components.length)
    return card(
      "inside",
      "What is in it",
      make("p", { class: "note" }, filter ? "No pattern has such a label." : "No patterns yet."),
    );
  const rest = components.slice(SHOWN_PATTERNS);
  return card(
    "inside",
    "What is in it",
    make(
      "ol",
      { class: "overview" },
      ...components
        .slice(0, SHOWN_PATTERNS)
        .map((component) =>
          make(
            "li",
            { style: `--c:${color(component.id)}` },
            make(
              "a",
              { href: `#pattern-${component.id + 1}`, title: component.headline },
              `${component.id + 1} · ${component.headline}`,
            ),
            make(
              "em",
              {},
              component.part
                ? `${component.part[0]} ${percent(component.part[1])}`
                : percent(component.share),
            ),
            make("i", { style: `width:${((size(component) / most) * 100).toFixed(1)}%` }),
          ),
        ),
    ),
    rest.length
      ? make(
          "p",
          { class: "note" },
          `${rest.length} more: ${percent(rest.reduce((sum, c) => sum + c.share, 0))}`,
        )
      : null,
  );
}

const SIGNS = { up: "▲", down: "▼", regime: "◆", labels: "⇄", born: "✚", moved: "↻" };

function changed() {
  const found = page.model.changes.filter((change) => !filter || matches(change.text));
  return card(
    "changed",
    "What changed",
    found.length
      ? make(
          "ul",
          { class: "changes" },
          ...found.map((change) =>
            make(
              "li",
              {
                class: change.kind,
                style: change.component === null ? null : `--c:${color(change.component)}`,
              },
              make("b", { "aria-hidden": "true" }, SIGNS[change.kind]),
              make("span", {}, prose(change.text)),
            ),
          ),
        )
      : make(
          "p",
          { class: "note" },
          filter && page.model.changes.length
            ? "Nothing that changed names such a label."
            : "Nothing beyond the usual ups and downs.",
        ),
  );
}

function lately() {
  const rows = page.steps.rows,
    newest = rows[rows.length - 1],
    alarms = filter ? named() : page.steps.lately,
    forecast = clock.forecast;
  if (!newest) return card("lately", "What happened lately", make("p", { class: "note" }, "–"));
  const parts = [
    make(
      "button",
      { type: "button", class: "newest", onclick: () => clock.pick(rows.length - 1) },
      make("span", {}, `Newest: ${sayTime(newest)}`),
      make("small", {}, prose(said(newest))),
    ),
  ];
  if (alarms.length)
    parts.push(
      make(
        "ol",
        { class: "alarms" },
        ...alarms.slice(0, SHOWN_ALARMS).map((alarm) =>
          make(
            "li",
            {},
            make(
              "button",
              { type: "button", "data-number": alarm.n, onclick: () => clock.pick(null, alarm.n) },
              make("i", {
                class: `swatch ${alarm.a.kind === "volume" ? "square" : "dot"}`,
                style: `--c:var(--${alarm.a.kind === "volume" ? "volume" : "alert"})`,
              }),
              make("span", {}, sayTime(alarm)),
              make("small", {}, prose(alarm.a.said)),
            ),
          ),
        ),
      ),
    );
  else
    parts.push(
      make(
        "p",
        { class: "note" },
        filter
          ? "No alarm that is kept here names such a label."
          : !page.steps.scored
            ? "No slice has been scored yet."
            : page.steps.rows.some((row) => row.a && row.a.p < 1)
              ? "No slice was unusual."
              : "None is flagged yet: ten slices, or two seasons, show what is usual.",
      ),
    );
  if (forecast)
    parts.push(
      make(
        "p",
        { class: "next" },
        make(
          "b",
          {},
          forecast.t[0] === newest.t
            ? `${sayTime(newest)} in full:`
            : `Next: ${sayTime({ t: forecast.t[0], n: newest.n + 1 })}`,
        ),
        ` about ${say(forecast.total[0])} ${page.run.unit} (${say(forecast.low[0])} to ${say(forecast.high[0])})`,
      ),
    );
  return card("lately", "What happened lately", ...parts);
}

// The newest alarms that name the label asked for.
function named() {
  const found = page.steps.rows.filter((row) => row.a?.flagged && row.a.said && tells(row));
  return found.slice(-SHOWN_ALARMS).reverse();
}

function said(row) {
  if (row.partial) return `${say(row.total)} ${page.run.unit} so far: cut off, not scored.`;
  if (row.a?.said) return row.a.said;
  const usual = known(row.a?.expected_low)
    ? `, usually ${say(row.a.expected_low, 3)} to ${say(row.a.expected_high, 3)}`
    : "";
  return `${say(row.total)} ${page.run.unit}${usual}.`;
}

// Which slices, and which labels, are shown.
export function renderTools(redraw) {
  const n = page.steps.count,
    box = byId("spans"),
    spans = [0, ...[30, 100, 365, 1000, 10000].filter((span) => span < n)];
  if (box.dataset.spans !== spans.join()) {
    box.dataset.spans = spans.join();
    box.replaceChildren(
      ...spans.map((span) =>
        make(
          "button",
          {
            type: "button",
            "data-span": span,
            onclick: () => {
              clock.newest(span);
              press();
            },
          },
          span ? `Last ${span.toLocaleString("en-US")}` : "All slices",
        ),
      ),
    );
  }
  const press = () => {
    for (const button of box.children)
      button.setAttribute("aria-pressed", String(+button.dataset.span === clock.last));
  };
  press();
  const input = byId("filter");
  input.oninput = () => {
    setFilter(input.value);
    redraw();
  };
  const labels = new Set(
    page.model.components.flatMap((c) => c.modes.flatMap((column) => column.labels ?? [])),
  );
  const list = byId("labels"),
    key = [...labels].sort().slice(0, 500);
  if (list.dataset.key !== key.join()) {
    list.dataset.key = key.join();
    list.replaceChildren(...key.map((value) => make("option", { value })));
  }
}

// The views of a run: words, patterns, activations, losses, drift, odd slices, settings.

const SECTIONS = [["summary", "In short"], ["patterns", "Patterns"], ["time", "Over time"], ["fit", "Fit"], ["drift", "Drift"], ["unusual", "Unusual"], ["settings", "Settings"]];
const SHOWN_ROWS = 12;
// Settings most readers ask for; the others are one click away.
const MAIN = ["method", "rank", "loss", "solver", "forget", "init_slices", "random_state", "lower", "n_jobs"];
const WEEK = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const YEAR = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];

let page = null;            // the payload
let shown = null;           // components drawn over time; null until the reader chooses
let picked = null;          // number of the slice explained

const color = (place) => `var(--c${place < 7 ? place : 7})`;
const active = (r) => page.steps.rows.map((row) => (known(row.w?.[r]) ? row.w[r] * (page.model.scale[r] ?? 1) : null));

function renderHero() {
  const { run, model, steps } = page;
  const rows = steps.rows;
  byId("title").textContent = page.name.replace(/\.run$/, "");
  document.title = `${page.name} · onlinegcp`;
  byId("eyebrow").textContent = page.live ? "Live run" : "Run report";
  const span = rows.length && rows[0].t !== null ? `${sayTime(rows[0])} – ${sayTime(rows[rows.length - 1])}` : "";
  const sized = model.modes.filter((mode) => mode.length), names = sized.map((mode) => mode.name).join(" × ");
  const shape = names && `${names}, ${sized.map((mode) => mode.length.toLocaleString("en-US")).join(" × ")}`;
  byId("lede").textContent = [span, shape].filter(Boolean).join(" · ") || "Waiting for the first slices.";
  const counts = /poisson|binomial/.test(run.loss);
  const figures = [
    [steps.count.toLocaleString("en-US"), "slices learned"],
    [compact(steps.events), counts ? "events" : "sum of all values"],
    [String(model.components.length || run.parameters.rank || "–"), "patterns (rank)"],
    model.fit.figure ? [model.fit.figure, model.fit.caption] : null,
    [steps.scored ? String(steps.flagged) : "–", steps.scored ? `flagged of ${steps.scored.toLocaleString("en-US")} scored` : "flagged"],
    steps.seconds > 0 ? [`${say(steps.seconds / steps.count * 1000, 2)} ms`, "to learn a slice"] : null,
  ];
  byId("figures").replaceChildren(...figures.filter(Boolean).map(([value, text]) => make("div", {}, make("dt", {}, text), make("dd", {}, value))));
  byId("prose").replaceChildren(...model.summary.map(([head, text]) => make("div", {}, make("b", {}, head), make("p", {}, prose(text)))));
}

// All patterns at a glance, beside the summary.
function renderOverview() {
  const { components } = page.model, most = components[0]?.share || 1;
  byId("overview").hidden = !components.length;
  byId("overview").replaceChildren(make("h3", {}, "Share of each pattern"), make("ol", {}, ...components.slice(0, 10).map((component, place) =>
    make("li", { style: `--c:${color(place)}` }, make("a", { href: `#pattern-${place + 1}`, title: component.headline }, component.headline), make("em", {}, percent(component.share)),
      make("i", { style: `width:${(component.share / most * 100).toFixed(1)}%` })))));
  if (components.length > 10) {
    const rest = components.slice(10).reduce((sum, c) => sum + c.share, 0);
    byId("overview").append(make("p", { class: "note" }, `${components.length - 10} more: ${percent(rest)}`));
  }
}

function renderGrid() {
  const { model } = page;
  const grid = byId("grid"), key = JSON.stringify([model.components, model.calendar]);
  // Left alone while nothing changed, so that a reader's focus stays where it is.
  if (grid.dataset.key === key) return;
  grid.dataset.key = key;
  const calendar = ["hour", "weekday", "month"].filter((name) => model.calendar[name]).slice(-2);
  if (!model.components.length) { grid.replaceChildren(make("p", { class: "empty chart" }, "Patterns appear when the warm start is over.")); return; }
  const widths = [...model.modes.map((mode) => (mode.kind === "category" ? 1.55 : 1)), ...calendar.map(() => 1)];
  grid.style.setProperty("--columns", widths.map((width) => `minmax(0, ${width}fr)`).join(" "));
  grid.replaceChildren(...model.components.map((component, place) => {
    const cells = component.modes.map((column, k) => {
      const mode = model.modes[k];
      const chart = mode.kind === "category" ? bars(column.labels, column.values, column)
        : mode.kind === "weekday" || mode.kind === "month" ? miniLine(mode.labels, column.values, mode.name)
          : miniLine(mode.labels, column.values, mode.name, { suffix: mode.kind === "hour" ? " h" : "" });
      return make("div", { class: mode.kind === "category" ? "cell wide" : "cell" }, make("h4", {}, mode.name), chart);
    });
    for (const name of calendar) {
      const labels = { weekday: WEEK, month: YEAR, hour: [...Array(24).keys()].map(String) }[name];
      const title = { weekday: "By weekday", month: "By month", hour: "By hour" }[name];
      cells.push(make("div", { class: "cell" }, make("h4", {}, title), miniColumns(labels, model.calendar[name][component.id], title)));
    }
    return make("article", { id: `pattern-${place + 1}`, class: `row${place >= SHOWN_ROWS ? " extra" : ""}`, style: `--c:${color(place)}`, "data-component": component.id },
      make("div", { class: "who" },
        make("span", { class: "share" }, `Pattern ${place + 1} · ${percent(component.share)} of everything`),
        make("h3", {}, component.headline), make("p", {}, prose(`${component.sentence}.`))),
      ...cells);
  }));
  const more = byId("more"), hidden = model.components.length - SHOWN_ROWS;
  more.hidden = hidden <= 0 || grid.classList.contains("all");
  more.textContent = `Show ${hidden} more`;
  more.onclick = () => { grid.classList.add("all"); more.hidden = true; };
}

function renderActivations() {
  const { components } = page.model;
  const chosen = shown ?? new Set(components.slice(0, 4).map((c) => c.id));
  const span = trendWindow();
  byId("time-note").textContent = "How much each pattern adds to a slice. Drag over any chart to zoom all of them, double-click to return."
    + (span > 1 ? ` Bold lines are means over ${span} slices.` : "")
    + (page.steps.stride > 1 ? ` Each point stands for ${page.steps.stride} slices.` : "");
  const chips = byId("chips");
  if (chips.childElementCount !== components.length || chips.dataset.names !== components.map((c) => c.headline).join()) {
    chips.dataset.names = components.map((c) => c.headline).join();
    chips.replaceChildren(...components.map((component, place) => make("button", {
      type: "button", style: `--c:${color(place)}`, "aria-pressed": String(chosen.has(component.id)),
      onclick(event) {
        shown = new Set(shown ?? chosen);
        if (!shown.delete(component.id)) shown.add(component.id);
        event.currentTarget.setAttribute("aria-pressed", String(shown.has(component.id)));
        renderActivations();
      },
    }, components.length > 12 ? `${place + 1} · ${shorten(component.headline, 20)}` : shorten(component.headline, 44))));
  }
  const holder = byId("activations");
  if (!components.length || !clock.x.length) { holder.replaceChildren(make("p", { class: "empty" }, "Nothing to draw yet.")); return; }
  const drawn = components.map((c, place) => ({ ...c, place, values: active(c.id) })).filter((c) => chosen.has(c.id));
  const y = extent(drawn.map((c) => c.values), { zero: true });
  frame(holder, {
    height: 300, y, yTicks: niceTicks(y[0], y[1], 5).map((v) => [v, compact(v)]), label: "What each pattern adds to each slice",
    lines: (i) => drawn.map((c) => [c.headline, say(c.values[i])]).slice(0, 10),
    paint(group, X, Y) {
      // Days of many years are a fog; their means tell the story.
      const fog = Math.min(0.28, 120 / (clock.visible()[1] - clock.visible()[0] + 1) / Math.sqrt(drawn.length || 1));
      for (const c of [...drawn].reverse()) {
        if (span > 1) group.append(draw("path", { d: linePath(c.values, X, Y), style: `fill:none;stroke:${color(c.place)};stroke-width:1;opacity:${fog.toFixed(3)};stroke-linejoin:round` }));
        const path = draw("path", { d: linePath(smooth(c.values, span), X, Y), style: `fill:none;stroke:${color(c.place)};stroke-width:2;stroke-linejoin:round`, class: "series" });
        if (c.place >= 7) path.setAttribute("stroke-dasharray", `${2 + c.place % 5} ${2 + c.place % 3}`);
        group.append(path);
      }
    },
  });
}

// One entry per curve; dashes tell them apart without colour.
const LOSSES = [
  { field: "global", name: "Global", long: "Global, under the final patterns", color: "var(--c2)", style: "long", dash: "7 3.5" },
  { field: "local", name: "Local", long: "Local, right after learning", color: "var(--c1)", style: "dash", dash: "2 2.5" },
  { field: "pre", name: "Prequential", long: "Prequential, before learning", color: "var(--c0)", style: "", dash: "none" },
];

function renderLosses() {
  const rows = page.steps.rows, unit = page.model.fit.unit, holder = byId("losses");
  const curves = LOSSES.map((curve) => ({ ...curve, values: rows.map((row) => row[curve.field]) })).filter((curve) => curve.field !== "global" || curve.values.some(known));
  const all = curves.length === LOSSES.length;
  byId("fit-note").textContent = "Prequential loss scores a slice before it is learned and is the honest measure; local loss scores it right afterwards"
    + (all ? "; global loss scores it under the patterns the run ended with, so it rises where they have moved on" : "")
    + `. ${unit === "event" ? "Per event" : "Over the slice's squared norm"}; lower is better.`;
  byId("fit-missing").textContent = page.run.no_global ? `There is no global loss: ${page.run.no_global}.` : "";
  if (!clock.x.length) { holder.replaceChildren(make("p", { class: "empty" }, "Nothing to draw yet.")); return; }
  const y = extent(curves.map((curve) => curve.values)), span = trendWindow();
  const told = [...curves].reverse();
  frame(holder, {
    height: 260, y, yTicks: niceTicks(y[0], y[1], 5).map((v) => [v, say(v)]), label: "Loss of each slice before and after learning it",
    legend: told.map((curve) => swatch(curve.color, curve.long, curve.style)),
    lines: (i) => [...told.map((curve) => [curve.name, say(curve.values[i], 4)]), ["Total", say(rows[i].total)]],
    paint(group, X, Y) {
      if (span > 1) for (const curve of curves) group.append(draw("path", { d: linePath(curve.values, X, Y), style: `fill:none;stroke:${curve.color};stroke-width:1;opacity:.2` }));
      for (const curve of curves) group.append(draw("path", { d: linePath(smooth(curve.values, span), X, Y), class: "series", style: `fill:none;stroke:${curve.color};stroke-width:2;stroke-dasharray:${curve.dash};stroke-linejoin:round` }));
    },
  });
}

const RAMPS = {
  light: [[244, 242, 236], [247, 205, 128], [222, 120, 40], [150, 45, 12], [70, 12, 20]],
  dark: [[31, 40, 49], [88, 56, 40], [176, 84, 34], [240, 160, 80], [255, 232, 190]],
};
function ramp(v) {
  const stops = RAMPS[matchMedia("(prefers-color-scheme: dark)").matches && !matchMedia("print").matches ? "dark" : "light"];
  const at = Math.max(0, Math.min(0.9999, v)) * (stops.length - 1), i = Math.floor(at);
  return `rgb(${stops[i].map((c, k) => Math.round(c + (stops[i + 1][k] - c) * (at - i))).join()})`;
}

function renderHeat() {
  const { components } = page.model, rows = page.steps.rows, holder = byId("heat");
  if (!components.length || !rows.some((row) => row.drift?.some((v) => v > 0))) { holder.replaceChildren(make("p", { class: "empty" }, "No pattern has moved yet.")); return; }
  const all = rows.flatMap((row) => row.drift ?? []).filter(known).sort((a, b) => a - b);
  const top = Math.max(all[Math.floor(all.length * 0.995)] ?? 0, 1e-6);
  const shade = (v) => Math.sqrt(Math.min(v / top, 1));
  const each = Math.max(8, Math.min(22, 440 / components.length));
  const height = Math.round(components.length * each + 38);
  const n = components.length;
  const every = Math.ceil(14 / each);
  const marks = rows.some((row) => row.births || row.deaths || row.merges);
  const gradient = [0, 0.25, 0.5, 0.75, 1].map(ramp).join(",");
  frame(holder, {
    height, y: [n, 0], label: "Drift of each pattern over time", left: 84, band: false,
    yTicks: [],
    legend: [make("span", {}, "0", make("i", { class: "ramp", style: `background:linear-gradient(90deg,${gradient})` }), `${say(top, 2)} and more`), marks ? make("span", {}, "▲ appeared  ▼ went") : null].filter(Boolean),
    lines(i, event) {
      const box = holder.querySelector("svg").getBoundingClientRect();
      const place = Math.floor(((event.clientY - box.top) / box.height * height - 12) / (height - 38) * n);
      const named = components[Math.max(0, Math.min(n - 1, place))];
      return [[`Pattern ${components.indexOf(named) + 1}: ${named.headline}`, ""], ["Drift", say(rows[i].drift?.[named.id], 2)],
        ...["births", "deaths", "merges"].filter((name) => rows[i][name]).map((name) => [name, String(rows[i][name])])];
    },
    paint(group, X, Y, { left, right, top: ceiling, bottom, width }) {
      const ratio = Math.min(devicePixelRatio || 1, 2), canvas = make("canvas");
      canvas.width = (right - left) * ratio; canvas.height = (bottom - ceiling) * ratio;
      const context = canvas.getContext("2d");
      context.fillStyle = ramp(0); context.fillRect(0, 0, canvas.width, canvas.height);
      const [first, last] = clock.visible(), size = canvas.height / n;
      // Several slices can share a pixel: the largest drift wins.
      components.forEach((component, place) => {
        const columns = new Map();
        for (let i = first; i <= last; i++) {
          const v = rows[i].drift?.[component.id];
          if (!known(v)) continue;
          const a = i > 0 ? (clock.x[i - 1] + clock.x[i]) / 2 : clock.x[i], b = i < clock.x.length - 1 ? (clock.x[i] + clock.x[i + 1]) / 2 : clock.x[i];
          const from = Math.floor((X(a) - left) * ratio), to = Math.max(from + 1, Math.ceil((X(b) - left) * ratio));
          const old = columns.get(from);
          if (!old || old[0] < v) columns.set(from, [v, to]);
        }
        for (const [from, [v, to]] of columns) { context.fillStyle = ramp(shade(v)); context.fillRect(from, place * size, to - from, Math.ceil(size) - ratio * 0.5); }
      });
      group.append(draw("image", { href: canvas.toDataURL(), x: left, y: ceiling, width: right - left, height: bottom - ceiling, preserveAspectRatio: "none" }));
      components.forEach((component, place) => {
        if (place % every === 0) group.parentNode.append(draw("text", { x: left - 8, y: Y(place + 0.5) + 4, "text-anchor": "end", "font-size": 12 }, `Pattern ${place + 1}`));
      });
      rows.forEach((row, i) => {
        const sign = row.births ? "▲" : row.deaths || row.merges ? "▼" : "";
        if (sign) group.append(draw("text", { x: X(clock.x[i]), y: ceiling - 1, "text-anchor": "middle", "font-size": 10, style: "fill:var(--ink)" }, sign));
      });
    },
  });
}

const surprise = (p) => (known(p) ? Math.min(-Math.log10(Math.max(p, 1e-320)), 16) : 0);
const worst = (row) => (row.a ? Math.min(row.a.p ?? 1, row.a.volume_p ?? 1) : 1);

function renderUnusual() {
  const rows = page.steps.rows, holder = byId("timeline");
  const scored = rows.some((row) => row.a);
  if (!scored) { holder.replaceChildren(make("p", { class: "empty" }, "No slice has been scored yet.")); byId("volume").hidden = true; byId("ranking").replaceChildren(); return; }
  byId("volume").hidden = false;
  const high = Math.max(4, ...rows.map((row) => surprise(worst(row)))) * 1.08;
  frame(holder, {
    height: 240, y: [0, high], yTicks: niceTicks(0, high, 5).map((v) => [v, v === 0 ? "1" : `10${superscript(-Math.round(v * 10) / 10)}`]).filter(([v]) => Number.isInteger(v)), label: "How unlikely each slice was",
    legend: [swatch("var(--alert)", "Pattern", "dot"), swatch("var(--volume)", "Volume", "square"), swatch("var(--faint)", "Not flagged", "dot"), make("span", {}, "Height: p-value, the chance of a slice this odd")],
    lines: (i) => (rows[i].a ? [["Pattern p", saySmall(rows[i].a.p)], ["Volume p", saySmall(rows[i].a.volume_p)], ["Total", say(rows[i].a.total)], ["Expected", say(rows[i].a.expected_total)]] : [["Warm start", "not scored"]]),
    onpick: (i) => nearbyPick(i),
    paint(group, X, Y, { left, right }) {
      const level = Y(surprise(page.run.level));
      group.append(draw("line", { x1: left, x2: right, y1: level, y2: level, style: "stroke:var(--soft);stroke-dasharray:4 3" }),
        draw("text", { x: right - 4, y: level - 5, "text-anchor": "end", "font-size": 11.5 }, `level ${percent(page.run.level)}`));
      const [first, last] = clock.visible(), flagged = [];
      let grey = "";
      for (let i = first; i <= last; i++) {
        const row = rows[i];
        if (!row.a) continue;
        if (row.a.flagged) flagged.push(i);
        else grey += `M${X(clock.x[i]).toFixed(1)},${Y(surprise(worst(row))).toFixed(1)}h0`;
      }
      group.append(draw("path", { d: grey, style: "stroke:var(--faint);stroke-width:4;stroke-linecap:round;opacity:.65" }));
      for (const i of flagged) {
        const row = rows[i], x = X(clock.x[i]), y = Y(surprise(worst(row)));
        const volume = row.a.kind === "volume";
        const mark = volume ? draw("rect", { x: x - 4, y: y - 4, width: 8, height: 8, transform: `rotate(45 ${x} ${y})` }) : draw("circle", { cx: x, cy: y, r: 5 });
        mark.setAttribute("class", "flag");
        mark.setAttribute("data-number", row.n);
        mark.style.cssText = `fill:${volume ? "var(--volume)" : "var(--alert)"};stroke:var(--card);stroke-width:1.2;cursor:pointer`;
        group.append(mark);
        if (row.n === picked) group.append(draw("circle", { cx: x, cy: y, r: 9, style: "fill:none;stroke:var(--ink);stroke-width:1.5" }));
      }
    },
  });
  const total = rows.map((row) => row.total), expected = rows.map((row) => row.a?.expected_total);
  const y = extent([total, expected], { zero: true });
  frame(byId("volume"), {
    height: 170, y, yTicks: niceTicks(y[0], y[1], 3).map((v) => [v, compact(v)]), label: "Total of each slice and the total expected",
    legend: [swatch("var(--c7)", "Total of the slice"), swatch("var(--volume)", "Expected", "dash")],
    lines: (i) => [["Total", say(total[i])], ["Expected", say(expected[i])]],
    onpick: (i) => nearbyPick(i),
    paint(group, X, Y) {
      group.append(draw("path", { d: linePath(total, X, Y), class: "series", style: "fill:none;stroke:var(--c7);stroke-width:1.4" }),
        draw("path", { d: linePath(expected, X, Y), class: "series", style: "fill:none;stroke:var(--volume);stroke-width:1.4;stroke-dasharray:2 2.5" }));
    },
  });
  const order = rows.filter((row) => row.a).sort((a, b) => (b.a.flagged - a.a.flagged) || worst(a) - worst(b)).slice(0, 10);
  const focused = document.activeElement?.closest("#ranking button")?.dataset.number;
  byId("ranking").replaceChildren(...order.map((row) => make("li", {}, make("button", { type: "button", "data-number": row.n, "aria-current": String(row.n === picked), onclick: () => pick(row.n, true) },
    make("i", { class: `swatch ${row.a.kind === "volume" ? "square" : "dot"}`, style: `--c:${!row.a.flagged ? "var(--faint)" : row.a.kind === "volume" ? "var(--volume)" : "var(--alert)"}` }),
    make("span", {}, sayTime(row)), make("em", {}, `p ${saySmall(worst(row))}`), make("small", {}, reason(row))))));
  if (focused) byId("ranking").querySelector(`[data-number="${focused}"]`)?.focus({ preventScroll: true });
  renderDetail();
}

// A click near a flagged slice means that one.
function nearbyPick(i) {
  const [low, high] = clock.range(), reach = (high - low) * 0.012;
  let best = i;
  page.steps.rows.forEach((row, j) => {
    if (row.a?.flagged && Math.abs(clock.x[j] - clock.x[i]) <= reach && (!page.steps.rows[best].a?.flagged || Math.abs(clock.x[j] - clock.x[i]) < Math.abs(clock.x[best] - clock.x[i]))) best = j;
  });
  pick(page.steps.rows[best].n);
}

function pick(number, scroll = false) {
  picked = number;
  renderUnusual();
  if (scroll) byId("detail").scrollIntoView({ block: "nearest" });
}

function reason(row) {
  const { a } = row;
  const volume = a.kind ? a.kind === "volume" : (a.volume_p ?? 1) <= (a.p ?? 1);
  if (volume || !a.cells?.length) {
    const gap = a.expected_total ? a.total / a.expected_total - 1 : null;
    return `${say(a.total)}, expected ${say(Math.round(a.expected_total))}${gap === null ? "" : ` (${gap > 0 ? "+" : "−"}${percent(Math.abs(gap))})`}`;
  }
  const [labels, observed, wanted] = a.cells[0];
  return `${labels.join(", ")}: ${say(observed)}, expected ${say(wanted, 2)}`;
}

function renderDetail() {
  const box = byId("detail");
  const row = page.steps.rows.find((r) => r.n === picked);
  if (!row) { box.replaceChildren(); return; }
  const parts = [make("header", {}, make("h3", {}, sayTime(row, { long: true })),
    row.a?.flagged ? make("span", { class: `tag ${row.a.kind ?? ""}` }, row.a.kind === "volume" ? "Unusual volume" : "Unusual pattern") : make("span", { class: "tag" }, row.a ? "Not flagged" : "Not scored"),
    row.held ? make("span", { class: "tag" }, "Not learned") : null)];
  if (row.a) {
    parts.push(make("p", { class: "note" }, `Total ${say(row.a.total)}, expected ${say(row.a.expected_total)}. Volume p ${saySmall(row.a.volume_p)} (z ${say(row.a.volume_z, 2)}), pattern p ${saySmall(row.a.p)} (z ${say(row.a.z, 2)}).`));
    if (row.a.cells?.length) {
      const modes = page.model.modes;
      // On a phone the labels of a cell share one column.
      const head = [make("th", { class: "small", scope: "col" }, modes.map((mode) => mode.name).join(", ")), ...modes.map((mode) => make("th", { class: "large", scope: "col" }, mode.name)), ...["Observed", "Expected", "Ratio", "p"].map((text) => make("th", { class: text === "Ratio" ? "num large" : "num", scope: "col" }, text))];
      parts.push(make("h4", {}, "Cells that stand out"), make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Cells that stand out" }, make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...row.a.cells.map(([labels, observed, wanted, p]) =>
        make("tr", {}, make("td", { class: "small" }, labels.join(", ")), ...labels.map((label) => make("td", { class: "large" }, label)), make("td", { class: "num" }, say(observed)), make("td", { class: "num" }, say(wanted, 2)),
          make("td", { class: "num large" }, wanted > 0 ? `${say(observed / wanted, 2)}×` : "–"), make("td", { class: "num" }, saySmall(p))))))));
    } else if (!row.a.cells) parts.push(make("p", { class: "note" }, "The cells of this slice are not in this report, which keeps those of the oddest slices; the run directory has them all."));
    const why = (row.a.modes ?? []).map((mode, k) => make("div", { class: "cell", style: "--c:var(--c7)" }, make("h4", {}, `Where it differs: ${page.model.modes[k]?.name ?? k + 1}`), bars(mode.map((entry) => entry[0]), mode.map((entry) => entry[1]))));
    if (row.a.components?.some((change) => change)) {
      const ranked = row.a.components.map((change, r) => [change, page.model.components.findIndex((c) => c.id === r)]).filter(([change, place]) => known(change) && change !== 0 && place >= 0).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0])).slice(0, 5);
      why.push(make("div", { class: "cell", style: "--c:var(--c7)" }, make("h4", {}, "Patterns against their recent mean, in standard deviations"),
        bars(ranked.map(([, place]) => `Pattern ${place + 1}`), ranked.map(([change]) => change), { format: (change) => (change > 0 ? "+" : "") + say(change, 2) })));
    }
    if (why.length) parts.push(make("div", { class: "why" }, ...why));
  } else parts.push(make("p", { class: "note" }, "Slices of the warm start are learned together and not scored."));
  box.replaceChildren(...parts);
}

function facts(id, entries) {
  const told = Object.entries(entries).map(([name, value]) => [name, plainly(value)]).filter(([, text]) => text !== "");
  byId(id).replaceChildren(...(told.length ? told : [["–", "not recorded"]]).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

// Settings as people write them: lists with commas, groups with equals signs.
function plainly(value) {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return value.map((item) => (Array.isArray(item) ? item.join(" = ") : plainly(item))).join(", ");
  if (typeof value === "object") return Object.entries(value).map(([name, item]) => `${name} ${plainly(item)}`).join(", ");
  return String(value);
}

const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

function renderSettings() {
  const { run, model, steps } = page;
  const all = Object.entries({ method: run.method, ...run.parameters });
  const main = all.filter(([name]) => MAIN.includes(name)).sort((a, b) => MAIN.indexOf(a[0]) - MAIN.indexOf(b[0]));
  facts("parameters", Object.fromEntries(main.length > 1 ? main : all));
  facts("further", Object.fromEntries(main.length > 1 ? all.filter(([name]) => !MAIN.includes(name)) : []));
  byId("further").parentNode.hidden = main.length < 2 || main.length === all.length;
  facts("events", { ...run.events, modes: model.modes.map((mode) => `${mode.name} (${mode.length})`).join(", ") });
  const created = typeof run.created === "string" ? parseTime(run.created) : NaN;
  const started = Number.isNaN(created) ? run.created : `${sayTime({ t: run.created })}${/(Z|\+00:00)$/.test(run.created) ? " UTC" : ""}`;
  facts("environment", { onlinegcp: run.version, ...run.environment, started, slices: steps.count.toLocaleString("en-US") });
  const box = byId("reproduce");
  const command = Array.isArray(run.command) ? run.command.map(quoted).join(" ") : run.command;
  box.replaceChildren(make("h3", {}, command ? "The same run again" : "This run was started from Python"));
  if (command) {
    box.append(make("div", { class: "code" }, make("code", {}, command), make("button", { type: "button", onclick: async (event) => { await navigator.clipboard?.writeText(command); event.target.textContent = "Copied"; } }, "Copy")));
  }
  byId("footer").textContent = `Written by onlinegcp ${run.version ?? ""}. This page needs no network and sends nothing.`;
}

const VIEWS = { grid: renderGrid, activations: renderActivations, losses: renderLosses, heat: renderHeat, unusual: renderUnusual };
const waitingViews = new Set();

function renderAll() {
  clock.load(page.steps.rows);
  renderHero(); renderOverview(); renderViews(Object.keys(VIEWS)); renderSettings();
}
function renderCharts() { renderViews(Object.keys(VIEWS).slice(1)); }

// A live page draws what is in sight, or will be soon; the rest when the reader comes there.
function renderViews(names) {
  for (const name of names) {
    const box = byId(name).getBoundingClientRect();
    if (page.live && !clock.paper && (box.bottom < -innerHeight / 2 || box.top > innerHeight * 1.5)) waitingViews.add(name);
    else { waitingViews.delete(name); VIEWS[name](); }
  }
}
addEventListener("scroll", () => { if (page && waitingViews.size) requestAnimationFrame(() => renderViews([...waitingViews])); }, { passive: true });

clock.charts.add(renderCharts);
byId("nav").append(...SECTIONS.map(([id, name]) => make("a", { href: `#${id}` }, name)));
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; if (page) renderCharts(); } });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => page && renderHeat());
// On paper charts are as wide as the page, so that their letters keep their size.
const sheet = (paper) => { clock.paper = paper; if (page) renderCharts(); };
addEventListener("beforeprint", () => sheet(820));
addEventListener("afterprint", () => sheet(0));

function show(payload) {
  page = payload;
  const flagged = page.steps.rows.filter((row) => row.a?.flagged).sort((a, b) => worst(a) - worst(b));
  picked ??= flagged[0]?.n ?? null;
  renderAll();
}

const given = JSON.parse(byId("payload").textContent);
if (given) show(given);

// Two runs, or two periods of one, side by side: matched patterns, what grew, what is new, what is gone.

import { bars, byId, compact, draw, make, miniLine, percent, prose, say } from "./charts.js";

const both = JSON.parse(byId("payload").textContent);

const KINDS = { both: "In both", new: "New", gone: "Gone" };
const sizes = both.pairs.flatMap((pair) => [pair.held, pair.holds]);
const largest = Math.max(...sizes, 1e-12);

function change({ held, holds }) {
  if (!held || !holds) return "";
  const ratio = holds / held;
  if (ratio > 3) return `${say(ratio, 2)} times`;
  return `${ratio >= 1 ? "+" : "−"}${percent(Math.abs(ratio - 1))}`;
}

function hero() {
  const { pairs, first, second } = both;
  const count = (kind) => pairs.filter((pair) => pair.kind === kind).length;
  const figures = [
    [count("both"), "patterns in both"],
    [count("new"), "new"],
    [count("gone"), "gone"],
    [`${compact(first.mean)} → ${compact(second.mean)}`, `${both.unit || "in all"} a slice`],
  ];
  return make(
    "section",
    { class: "hero" },
    make(
      "div",
      { class: "opening" },
      make(
        "div",
        {},
        make("p", { class: "eyebrow" }, "Difference"),
        make("h1", {}, both.title),
        make("p", { class: "lede" }, both.lede),
      ),
      make(
        "dl",
        { class: "figures" },
        ...figures.map(([value, text]) =>
          make("div", {}, make("dt", {}, text), make("dd", {}, String(value))),
        ),
      ),
    ),
    make("figure", { class: "chart", id: "slopes" }),
  );
}

// One line per pattern, from what a slice held to what it holds.
function slopes() {
  const holder = byId("slopes"),
    width = Math.max(holder.clientWidth - 24, 280),
    each = 34,
    names = width > 700 ? Math.min(420, width * 0.4) : 0,
    top = 30,
    height = top + both.pairs.length * (names ? each : each + 18) + 24,
    left = names + 12,
    right = width - 76;
  const X = (v) => left + (v / largest) * (right - left);
  const svg = draw("svg", {
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "What a slice holds of each pattern, before and after",
  });
  both.pairs.forEach((pair, i) => {
    const y = top + (i + 0.5) * (names ? each : each + 18) + (names ? 0 : 9),
      color =
        pair.kind === "new"
          ? "var(--c2)"
          : pair.kind === "gone"
            ? "var(--alert)"
            : pair.holds >= pair.held
              ? "var(--c0)"
              : "var(--c1)";
    const name = `${numbers(pair)} · ${pair.name}`;
    svg.append(
      draw("line", { x1: left, x2: right, y1: y, y2: y, style: "stroke:var(--line)" }),
      draw(
        "text",
        names
          ? { x: names, y: y + 4, "text-anchor": "end", "font-size": 13, style: "fill:var(--ink)" }
          : { x: left, y: y - 12, "font-size": 12, style: "fill:var(--ink)" },
        name.length > 54 ? `${name.slice(0, 53)}…` : name,
      ),
    );
    if (pair.kind === "both")
      svg.append(
        draw("line", {
          x1: X(pair.held),
          x2: X(pair.holds),
          y1: y,
          y2: y,
          style: `stroke:${color};stroke-width:3`,
        }),
        draw("circle", {
          cx: X(pair.held),
          cy: y,
          r: 4.5,
          style: `fill:var(--card);stroke:${color};stroke-width:2`,
        }),
      );
    if (pair.kind !== "new" && pair.kind !== "both")
      svg.append(
        draw("circle", {
          cx: X(pair.held),
          cy: y,
          r: 5,
          style: `fill:var(--card);stroke:${color};stroke-width:2`,
        }),
      );
    if (pair.kind !== "gone")
      svg.append(
        draw("circle", {
          cx: X(pair.holds),
          cy: y,
          r: 5.5,
          class: "series",
          style: `fill:${color}`,
        }),
      );
    svg.append(
      draw(
        "text",
        { x: right + 12, y: y + 4, "font-size": 12.5, style: `fill:${color};font-weight:600` },
        pair.kind === "both" ? change(pair) : KINDS[pair.kind].toLowerCase(),
      ),
    );
  });
  holder.replaceChildren(
    make(
      "div",
      { class: "legend" },
      make(
        "span",
        {},
        make("i", { class: "swatch ring", style: "--c:var(--soft)" }),
        both.first.name,
      ),
      make(
        "span",
        {},
        make("i", { class: "swatch dot", style: "--c:var(--soft)" }),
        both.second.name,
      ),
      make(
        "span",
        {},
        `${both.unit || "Size"} of each pattern in a slice on average, from 0 to ${compact(largest)}`,
      ),
    ),
    svg,
  );
}

// Its number in the first and in the second run, once where they are the same.
function numbers({ before, after }) {
  if (before === null || after === null || before === after) return `${after ?? before}`;
  return `${before} → ${after}`;
}

function side(title, columns) {
  return make(
    "div",
    { class: "side" },
    make("h4", {}, title),
    ...(columns
      ? [
          make(
            "div",
            { class: "sides" },
            ...columns.map((column, k) => {
              const mode = both.modes[k];
              return make(
                "div",
                { class: "cell" },
                make("h4", {}, mode.name),
                column.labels
                  ? bars(column.labels, column.values, column)
                  : miniLine(column.names, column.values, mode.name),
              );
            }),
          ),
        ]
      : [make("p", { class: "note" }, "It is not there.")]),
  );
}

function cards() {
  return make(
    "section",
    {},
    make(
      "div",
      { class: "head" },
      make("h2", {}, "Pattern by pattern"),
      make("p", { class: "note" }, both.note),
    ),
    make(
      "div",
      { class: "grid" },
      ...both.pairs.map((pair, i) =>
        make(
          "article",
          {
            class: "row twin",
            style: `--c:var(--c${(both.same ? (pair.after ?? pair.before) - 1 : i) % 12})`,
          },
          make(
            "div",
            { class: "who" },
            make(
              "span",
              { class: "share" },
              `${KINDS[pair.kind]}${both.same || pair.similarity === null ? "" : ` · similarity ${pair.similarity.toFixed(2)}`}`,
            ),
            make("h3", {}, pair.name),
            make(
              "p",
              {},
              `${say(pair.held)} → ${say(pair.holds)} a slice${change(pair) ? ` (${change(pair)})` : ""}`,
            ),
            pair.told ? make("p", {}, prose(pair.told)) : null,
          ),
          ...(both.same
            ? [side("", pair.columns[1])]
            : [side(both.first.name, pair.columns[0]), side(both.second.name, pair.columns[1])]),
        ),
      ),
    ),
  );
}

// Labels that hold more or less than before, whatever patterns make of them.
function labels() {
  if (!both.labels.length) return null;
  return make(
    "section",
    {},
    make(
      "div",
      { class: "head" },
      make("h2", {}, "Labels"),
      make("p", { class: "note" }, both.labelled),
    ),
    make("ul", {}, ...both.labels.map((text) => make("li", {}, prose(text)))),
  );
}

function drawDifference() {
  byId("main").replaceChildren(...[hero(), labels(), cards()].filter(Boolean));
  slopes();
}

let drawnFor = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === drawnFor) return;
  drawnFor = innerWidth;
  drawDifference();
});
drawDifference();

// Odd slices: their chart, the list, and why one is odd.

import {
  byId,
  diamond,
  draw,
  known,
  make,
  niceTicks,
  percent,
  prose,
  say,
  superscript,
} from "./charts.js";
import { clock, sayTime } from "./clock.js";
import { MOST_MARKS, renderTotals, tells } from "./first.js";
import { page, picked, saySmall, setPicked } from "./state.js";
import { frame, swatch } from "./timeline.js";

// The chart ends where one more power of ten says nothing more.
const HIGHEST = 16;
const surprise = (p) =>
  known(p) ? Math.min(-Math.log10(Math.max(p, page.run.smallest_p)), HIGHEST) : 0;
export const worst = (row) => row.a?.p ?? 1;

export function renderUnusual() {
  const rows = page.steps.rows,
    holder = byId("timeline");
  const scored = rows.some((row) => row.a);
  if (!scored) {
    holder.replaceChildren(make("p", { class: "empty" }, "No slice has been scored yet."));
    byId("volume").hidden = true;
    byId("ranking").replaceChildren();
    return;
  }
  byId("volume").hidden = false;
  const high = Math.max(4, ...rows.map((row) => surprise(worst(row)))) * 1.08;
  frame(holder, {
    height: 240,
    y: [0, high],
    yTicks: niceTicks(0, high, 5)
      .map((v) => [v, v === 0 ? "1" : `10${superscript(-Math.round(v * 10) / 10)}`])
      .filter(([v]) => Number.isInteger(v)),
    label: "How unlikely each slice was",
    legend: [
      swatch("var(--alert)", "Pattern", "dot"),
      swatch("var(--volume)", "Volume", "square"),
      swatch("var(--faint)", "Not flagged", "dot"),
      make("span", {}, "Height: p-value, the chance of a slice this odd"),
    ],
    lines: (i) =>
      rows[i].a
        ? [
            ["p", saySmall(rows[i].a.p)],
            ["Total", say(rows[i].a.total)],
            ["Expected", say(rows[i].a.expected_total)],
            ...(rows[i].flags ? [["Flagged here", String(rows[i].flags)]] : []),
          ]
        : [[rows[i].partial ? "Cut off" : "Warm start", "not scored"]],
    paint(group, X, Y, { left, right }) {
      const level = Y(surprise(page.run.level));
      group.append(
        draw("line", {
          x1: left,
          x2: right,
          y1: level,
          y2: level,
          style: "stroke:var(--soft);stroke-dasharray:4 3",
        }),
        draw(
          "text",
          { x: right - 4, y: level - 5, "text-anchor": "end", "font-size": 11.5 },
          `level ${percent(page.run.level)}`,
        ),
      );
      const [first, last] = clock.visible(),
        flagged = [];
      let grey = "";
      for (let i = first; i <= last; i++) {
        const row = rows[i];
        if (!row.a) continue;
        if (row.a.flagged) flagged.push(i);
        else grey += `M${X(clock.x[i]).toFixed(1)},${Y(surprise(worst(row))).toFixed(1)}h0`;
      }
      group.append(
        draw("path", {
          d: grey,
          style: "stroke:var(--faint);stroke-width:4;stroke-linecap:round;opacity:.65",
        }),
      );
      const size = flagged.length > MOST_MARKS ? 2.5 : 5;
      for (const i of flagged) {
        const row = rows[i],
          x = X(clock.x[i]),
          y = Y(surprise(worst(row)));
        const volume = row.a.kind === "volume";
        const mark = volume ? diamond(x, y, size) : draw("circle", { cx: x, cy: y, r: size });
        mark.setAttribute("class", "flag");
        if (!tells(row)) mark.setAttribute("opacity", 0.2);
        mark.setAttribute("data-number", row.n);
        const fill = volume ? "var(--volume)" : "var(--alert)";
        mark.style.cssText = `fill:${fill};stroke:var(--card);stroke-width:1.2;cursor:pointer`;
        group.append(mark);
        if (row.n === picked)
          group.append(
            draw("circle", {
              cx: x,
              cy: y,
              r: 9,
              style: "fill:none;stroke:var(--ink);stroke-width:1.5",
            }),
          );
      }
    },
  });
  renderTotals(byId("volume"), { height: 170, ahead: false });
  const order = rows
    .filter((row) => row.a && tells(row))
    .sort((a, b) => b.a.flagged - a.a.flagged || worst(a) - worst(b))
    .slice(0, 10);
  const focused = document.activeElement?.closest("#ranking button")?.dataset.number;
  byId("ranking").replaceChildren(
    ...order.map((row) =>
      make(
        "li",
        {},
        make(
          "button",
          {
            type: "button",
            "data-number": row.n,
            "aria-current": String(row.n === picked),
            onclick: () => pick(row.n, true),
          },
          make("i", {
            class: `swatch ${row.a.kind === "volume" ? "square" : "dot"}`,
            style: `--c:var(--${!row.a.flagged ? "faint" : row.a.kind === "volume" ? "volume" : "alert"})`,
          }),
          make("span", {}, sayTime(row)),
          make("em", {}, `p ${saySmall(worst(row))}`),
          make("small", {}, prose(reason(row))),
        ),
      ),
    ),
  );
  if (!order.length)
    byId("ranking").append(
      make("li", { class: "note" }, "None of the slices kept here names such a label."),
    );
  if (focused)
    byId("ranking").querySelector(`[data-number="${focused}"]`)?.focus({ preventScroll: true });
  renderDetail();
}

// An alarm of late need not be a row of its own where rows stand for many slices.
const chosenRow = () =>
  page.steps.rows.find((row) => row.n === picked) ??
  page.steps.lately.find((row) => row.n === picked);

// A click near a flagged slice means that one.
function nearbyPick(i) {
  const [low, high] = clock.range(),
    reach = (high - low) * 0.012;
  let best = i;
  page.steps.rows.forEach((row, j) => {
    if (
      row.a?.flagged &&
      Math.abs(clock.x[j] - clock.x[i]) <= reach &&
      (!page.steps.rows[best].a?.flagged ||
        Math.abs(clock.x[j] - clock.x[i]) < Math.abs(clock.x[best] - clock.x[i]))
    )
      best = j;
  });
  pick(page.steps.rows[best].n);
}

let asked = false; // whether the reader has chosen a slice
function pick(number, scroll = false) {
  asked = true;
  setPicked(number);
  renderUnusual();
  renderChosen();
  if (scroll) byId("detail").scrollIntoView({ block: "nearest" });
}

// A click on a time, in any chart, chooses the slice.
clock.pick = (i, number = null) => (number === null ? nearbyPick(i) : pick(number, true));

// The slice chosen, in a line below the first chart.
export function renderChosen() {
  const box = byId("chosen"),
    row = chosenRow();
  box.hidden = !row || !asked;
  if (box.hidden) return;
  const told = row.a
    ? reason(row)
    : `${say(row.total)} ${page.run.unit}, ${row.partial ? "cut off and not scored" : "in the warm start and not scored"}.`;
  box.replaceChildren(
    make("b", {}, sayTime(row, { long: true })),
    make("span", {}, prose(told)),
    make("a", { href: "#detail" }, "Why"),
  );
}

const span = (low, high, digits = 2) => `${say(low, digits)} to ${say(high, digits)}`;

function reason(row) {
  const { a } = row;
  if (a.said) return a.said;
  const gap = a.expected_total ? a.total / a.expected_total - 1 : null;
  const change = gap === null ? "" : ` (${gap > 0 ? "+" : "−"}${percent(Math.abs(gap))})`;
  return `${say(a.total)} ${page.run.unit}, expected ${say(Math.round(a.expected_total))}${change}.`;
}

// Rows, or pairs of rows, that stand out: names, what was there, and what is usual.
function standingOut(title, names, entries) {
  const head = [
    make("th", { class: "name", scope: "col" }, names.join(", ")),
    ...["Observed", "Expected", "Usual", "p"].map((text) =>
      make("th", { class: text === "Expected" ? "num large" : "num", scope: "col" }, text),
    ),
  ];
  const line = ([labels, observed, expected, low, high, p]) =>
    make(
      "tr",
      {},
      make("td", { class: "name" }, labels.filter(Boolean).join(", ")),
      make("td", { class: "num" }, say(observed)),
      make("td", { class: "num large" }, say(expected, 2)),
      make("td", { class: "num" }, known(low) ? span(low, high) : "–"),
      make("td", { class: "num" }, saySmall(p)),
    );
  const table = make(
    "table",
    {},
    make("thead", {}, make("tr", {}, ...head)),
    make("tbody", {}, ...entries.map(line)),
  );
  const around = { class: "scroll", tabindex: 0, role: "group", "aria-label": title };
  return [make("h4", {}, title), make("div", around, table)];
}

function renderDetail() {
  const box = byId("detail");
  const row = chosenRow();
  if (!row) {
    box.replaceChildren();
    return;
  }
  const parts = [
    make(
      "header",
      {},
      make("h3", {}, sayTime(row, { long: true })),
      row.a?.flagged
        ? make(
            "span",
            { class: `tag ${row.a.kind ?? ""}` },
            row.a.kind === "volume" ? "Unusual volume" : "Unusual pattern",
          )
        : make("span", { class: "tag" }, row.a ? "Not flagged" : "Not scored"),
      row.held ? make("span", { class: "tag" }, "Odd rows held") : null,
      row.partial ? make("span", { class: "tag" }, "Cut off") : null,
    ),
  ];
  if (row.a) {
    const usual = known(row.a.expected_low)
      ? ` (usually ${span(row.a.expected_low, row.a.expected_high, 3)})`
      : "";
    const severity = row.a.severity ? `, severity ${row.a.severity}` : "";
    parts.push(
      make("p", { class: "note" }, reason(row)),
      make(
        "p",
        { class: "note" },
        `Total ${say(row.a.total)}, expected ${say(row.a.expected_total)}${usual}. ` +
          `p ${saySmall(row.a.p)}${severity}.`,
      ),
    );
    const modes = page.model.modes;
    (row.a.modes ?? []).forEach((entries, k) => {
      const name = modes[k]?.name ?? String(k + 1);
      const lines = entries.map(([label, ...rest]) => [[label], ...rest]);
      if (lines.length) parts.push(...standingOut(`Where it differs: ${name}`, [name], lines));
    });
    if (row.a.cells?.length) {
      const names = modes.map((mode) => mode.name);
      parts.push(...standingOut("What occurs together", names, row.a.cells));
    } else if (!row.a.cells)
      parts.push(
        make(
          "p",
          { class: "note" },
          "The rows of this slice are not in this report, which keeps those of the oddest " +
            "slices; the run directory has them all.",
        ),
      );
  } else
    parts.push(
      make(
        "p",
        { class: "note" },
        row.partial
          ? "The data ended within this time bin: it was learned, but half a bin is no collapse, so it was not scored."
          : "Slices of the warm start are learned together and not scored.",
      ),
    );
  box.replaceChildren(...parts);
}

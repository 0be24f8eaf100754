// Several methods on the same slices: the mean of what each has lost so far, and a table.

import { byId, draw, known, make, niceTicks, say, section, shorten, table, tip } from "./charts.js";

const race = JSON.parse(byId("payload").textContent);
const ran = race.contenders.filter((entry) => entry.means.length);
const refused = race.contenders.filter((entry) => entry.refusal !== null);
const color = (i) => `var(--c${i % 12})`;
const dashes = (i) => (i < 12 ? "" : "stroke-dasharray:5 3");

// Slices differ more from each other than methods do: what is drawn is the distance to the best.
const behind = ran.map((entry) => entry.means.map((v, k) => v - ran[0].means[k]));

// A method that diverged may lose a thousand times as much as the others.
function range() {
  const all = behind.flat().sort((a, b) => a - b),
    most = all[Math.floor(0.75 * (all.length - 1))],
    low = Math.max(all[0], -most || all[0]),
    high = Math.min(all.at(-1), 2 * most || all.at(-1)),
    room = 0.05 * (high - low) || 1e-3;
  return [low - room, high + room];
}

// Names at the right end, moved apart where they would overlap.
function placed(Y, top, bottom) {
  const marks = ran.map((_, i) => ({ i, y: Math.max(Y(behind[i].at(-1)), top) }));
  marks.sort((a, b) => a.y - b.y);
  const gap = Math.min(15, (bottom - top) / marks.length);
  marks.forEach((mark, k) => {
    if (k) mark.y = Math.max(mark.y, marks[k - 1].y + gap);
  });
  for (let k = marks.length - 1, most = bottom; k >= 0; k--, most -= gap)
    marks[k].y = Math.min(marks[k].y, most);
  return marks;
}

function drawCurves() {
  const holder = make("figure", { class: "chart" });
  byId("main").append(
    section(
      "How well they predict",
      `How much more than ${ran[0].name} each has lost per cell in the mean of the slices so far (${race.loss} loss, predicted before they were learned). Lower is better; lines that leave the chart lose more than it shows.`,
      holder,
    ),
  );
  const width = Math.max(holder.clientWidth - 24, 280),
    names = width > 520,
    height = names ? Math.max(320, 17 * ran.length + 60) : 280,
    [left, right, top, bottom] = [64, width - (names ? 150 : 12), 12, height - 40],
    n = Math.max(...ran.map((entry) => entry.means.length)),
    y = range();
  const X = (i) => left + (n > 1 ? i / (n - 1) : 0.5) * (right - left),
    Y = (v) => bottom - ((v - y[0]) / (y[1] - y[0] || 1)) * (bottom - top);
  const svg = draw("svg", {
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "Loss behind the best method so far",
  });
  for (const v of niceTicks(y[0], y[1], 5))
    svg.append(
      draw("line", { x1: left, x2: right, y1: Y(v), y2: Y(v), style: "stroke:var(--line)" }),
      draw("text", { x: left - 8, y: Y(v) + 4, "text-anchor": "end", "font-size": 12 }, say(v, 4)),
    );
  for (const v of niceTicks(race.first, race.first + n - 1, names ? 8 : 4))
    if (Number.isInteger(v))
      svg.append(
        draw(
          "text",
          { x: X(v - race.first), y: height - 20, "text-anchor": "middle", "font-size": 12 },
          say(v, 6),
        ),
      );
  svg.append(
    draw(
      "text",
      { x: (left + right) / 2, y: height - 4, "text-anchor": "middle", "font-size": 12 },
      "slice",
    ),
  );
  behind.forEach((values, i) => {
    // A line ends where it leaves the chart, and goes on where it comes back.
    let d = "";
    values.forEach((v, k) => {
      const inside = v >= y[0] && v <= y[1],
        after = k && values[k - 1] <= y[1];
      if (inside || after)
        d += `${d && after ? "L" : "M"}${X(k).toFixed(1)},${Math.max(Y(v), top - 8).toFixed(1)}`;
    });
    svg.append(
      draw("path", {
        d: d || "M0,0",
        class: "series",
        style: `fill:none;stroke:${color(i)};stroke-width:${i ? 1.6 : 2.6};${dashes(i)}`,
      }),
    );
  });
  if (names)
    for (const { i, y: at } of placed(Y, top, bottom))
      svg.append(
        draw(
          "text",
          {
            x: right + 8,
            y: at + 4,
            "font-size": 12,
            style: `fill:${color(i)};${i ? "" : "font-weight:700"}`,
          },
          shorten(ran[i].name, 20) + (behind[i].at(-1) > y[1] ? " ↑" : ""),
        ),
      );
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(),
      at = (((event.clientX - box.left) / box.width) * width - left) / (right - left),
      k = Math.max(0, Math.min(n - 1, Math.round(at * (n - 1))));
    tip.show(
      event,
      `Slices ${race.first} to ${race.first + k}`,
      ran.slice(0, 8).map((entry) => [entry.name, say(entry.means[k] ?? Number.NaN, 5)]),
    );
  });
  svg.addEventListener("pointerleave", tip.hide);
  holder.append(svg);
  if (!names)
    holder.append(
      make(
        "p",
        { class: "note" },
        ...ran.flatMap((entry, i) => [
          make("span", { style: `color:${color(i)}` }, `● ${entry.name}`),
          " ",
        ]),
      ),
    );
}

function drawTable() {
  const truth = ran.some((entry) => known(entry.score));
  const columns = [
    ["Method", false, (entry) => entry.name],
    ["Predicted", true, (entry) => say(entry.prequential, 5)],
    ["Learned", true, (entry) => say(entry.local, 5)],
    ["Final model", true, (entry) => say(entry.global, 5)],
    ...(truth ? [["Agreement with the truth", true, (entry) => say(entry.score, 3)]] : []),
    ["ms a slice", true, (entry) => say(entry.milliseconds, 3)],
    ["MB", true, (entry) => say(entry.megabytes, 3)],
  ];
  byId("main").append(
    section(
      "In numbers",
      "Loss per cell: before a slice was learned, after it, and of all slices under the final model.",
      table(
        columns,
        race.contenders.filter((entry) => known(entry.prequential)),
      ),
    ),
  );
  if (refused.length)
    byId("main").append(
      make(
        "section",
        {},
        make("h2", {}, "Not to the end"),
        make(
          "ul",
          {},
          ...refused.map((entry) =>
            make("li", {}, make("b", {}, entry.name), `: ${entry.refusal}`),
          ),
        ),
      ),
    );
}

function drawRace() {
  byId("main").replaceChildren(
    make(
      "section",
      { class: "hero" },
      make("p", { class: "eyebrow" }, `Comparison of methods · ${race.source}`),
      make(
        "h1",
        {},
        ran.length ? `${ran[0].name} predicts best` : "No method could take the stream",
      ),
      make("p", { class: "lede" }, race.lede),
      race.next ? make("div", { class: "code" }, make("code", {}, race.next)) : "",
    ),
  );
  if (ran.length) drawCurves();
  drawTable();
}

let drawnAt = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === drawnAt) return;
  drawnAt = innerWidth;
  drawRace();
});
drawRace();

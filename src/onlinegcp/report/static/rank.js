// How many patterns: held-out loss and agreement of two starts, by rank.

import { byId, draw, make, niceTicks, say, section, table, tip } from "./charts.js";

const study = JSON.parse(byId("payload").textContent);

// A chart over the ranks; `paint` adds the marks, `lines` tells about one rank.
function overRanks(title, { y, height = 260, paint, lines }) {
  const holder = make("figure", { class: "chart" });
  byId("main").append(section(title[0], title[1], holder));
  const width = Math.max(holder.clientWidth - 24, 280),
    [left, right, top, bottom] = [64, width - 16, 12, height - 40],
    n = study.ranks.length;
  const X = (i) => left + ((i + 0.5) / n) * (right - left),
    Y = (v) => bottom - ((v - y[0]) / (y[1] - y[0] || 1)) * (bottom - top);
  const svg = draw("svg", {
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": title[0],
  });
  for (const v of niceTicks(y[0], y[1], 5))
    svg.append(
      draw("line", { x1: left, x2: right, y1: Y(v), y2: Y(v), style: "stroke:var(--line)" }),
      draw("text", { x: left - 8, y: Y(v) + 4, "text-anchor": "end", "font-size": 12 }, say(v, 4)),
    );
  study.ranks.forEach((rank, i) => {
    const chosen = rank === study.recommended;
    if (chosen)
      svg.prepend(
        draw("rect", {
          x: X(i) - (right - left) / n / 2,
          width: (right - left) / n,
          y: top - 6,
          height: bottom - top + 6,
          style: "fill:var(--accent-wash)",
        }),
      );
    svg.append(
      draw(
        "text",
        {
          x: X(i),
          y: height - 20,
          "text-anchor": "middle",
          "font-size": 12,
          style: chosen ? "font-weight:700;fill:var(--accent)" : "",
        },
        String(rank),
      ),
    );
  });
  svg.append(
    draw(
      "text",
      { x: (left + right) / 2, y: height - 4, "text-anchor": "middle", "font-size": 12 },
      "number of patterns (rank)",
    ),
  );
  paint(svg, X, Y);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(),
      at = (((event.clientX - box.left) / box.width) * width - left) / (right - left),
      i = Math.max(0, Math.min(n - 1, Math.floor(at * n)));
    tip.show(event, `Rank ${study.ranks[i]}`, lines(i));
  });
  svg.addEventListener("pointerleave", tip.hide);
  holder.append(svg);
}

const line = (values, X, Y) =>
  `M${values.map((v, i) => `${X(i).toFixed(1)},${Y(v).toFixed(1)}`).join("L")}`;

function drawStudy() {
  const { ranks, losses, errors, stability } = study;
  byId("main").replaceChildren(
    make(
      "section",
      { class: "hero" },
      make("p", { class: "eyebrow" }, `Rank study · ${study.source}`),
      make(
        "h1",
        {},
        `Use ${study.recommended} ${study.recommended === 1 ? "pattern" : "patterns"}`,
      ),
      make("p", { class: "lede" }, study.advice),
      make("div", { class: "code" }, make("code", {}, study.next)),
    ),
  );
  const low = Math.min(...losses.map((v, i) => v - errors[i])),
    // The smallest ranks may lose far more than all others: what matters is near the best.
    seen = [...losses].sort((a, b) => a - b),
    high = Math.min(
      Math.max(...losses.map((v, i) => v + errors[i])),
      seen[Math.floor(seen.length / 2)] + 4 * (seen[Math.floor(seen.length / 2)] - low || 1),
    ),
    room = 0.06 * (high - low) || 1;
  overRanks(
    [
      "How well it predicts",
      `Held-out loss per cell: half of each slice predicted from the other half, before it is learned. Lower is better; bars reach one standard error of the difference from rank ${study.best}, the best.`,
    ],
    {
      y: [low - room, high + room],
      lines: (i) => [
        ["Held-out loss", say(losses[i], 6)],
        [`Worse than rank ${study.best} by`, say(losses[i] - Math.min(...losses), 3)],
        ["Standard error of that", say(errors[i], 3)],
      ],
      paint(svg, X, Y) {
        svg.append(
          draw("path", {
            d: line(losses, X, Y),
            class: "series",
            style: "fill:none;stroke:var(--c0);stroke-width:2",
          }),
        );
        losses.forEach((v, i) => {
          svg.append(
            draw("line", {
              x1: X(i),
              x2: X(i),
              y1: Y(v - errors[i]),
              y2: Y(v + errors[i]),
              style: "stroke:var(--c0);stroke-width:1.5;opacity:.6",
            }),
            draw("circle", {
              cx: X(i),
              cy: Y(v),
              r: 4,
              style: "fill:var(--c0);stroke:var(--card)",
            }),
          );
        });
      },
    },
  );
  overRanks(
    [
      "Whether the patterns are the same again",
      `Agreement of the patterns that two starts end with: 1 is the same, from ${study.stable} on they may be read as such.`,
    ],
    {
      y: [0, 1.05],
      height: 220,
      lines: (i) => [["Agreement", stability[i].toFixed(2)]],
      paint(svg, X, Y) {
        const half = ranks.length > 1 ? (X(1) - X(0)) / 2 : 60,
          [a, b] = [X(0) - half, X(ranks.length - 1) + half];
        svg.append(
          draw("line", {
            x1: a,
            x2: b,
            y1: Y(study.stable),
            y2: Y(study.stable),
            style: "stroke:var(--soft);stroke-dasharray:4 3",
          }),
          draw("path", {
            d: line(stability, X, Y),
            class: "series",
            style: "fill:none;stroke:var(--c1);stroke-width:2",
          }),
          ...stability.map((v, i) =>
            draw("circle", {
              cx: X(i),
              cy: Y(v),
              r: 4,
              style: "fill:var(--c1);stroke:var(--card)",
            }),
          ),
        );
      },
    },
  );
  const verdict = (rank) =>
    rank === study.recommended ? "use this" : rank === study.best ? "predicts best" : "";
  const columns = [
    ["Rank", true, (i) => String(ranks[i])],
    ["Held-out loss per cell", true, (i) => say(losses[i], 6)],
    ["Agreement of two starts", true, (i) => stability[i].toFixed(2)],
    ["", false, (i) => verdict(ranks[i])],
  ];
  byId("main").append(section("In numbers", "", table(columns, [...ranks.keys()])));
}

let drawnAt = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === drawnAt) return;
  drawnAt = innerWidth;
  drawStudy();
});
drawStudy();

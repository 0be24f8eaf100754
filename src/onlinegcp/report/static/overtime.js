// Over time: activations, losses and drift.

import { axisLabels, byId, draw, known, make, niceTicks, say, shorten } from "./charts.js";
import { clock } from "./clock.js";
import { active, color, concerns, dash, page, setShown, shown } from "./state.js";
import { extent, frame, linePath, smooth, swatch, trendWindow } from "./timeline.js";

const LINE = "fill:none;stroke-linejoin:round";

export function renderActivations() {
  const components = page.model.components.filter(concerns);
  const chosen = shown ?? new Set(components.slice(0, 4).map((c) => c.id));
  const span = trendWindow();
  byId("time-note").textContent =
    "How much each pattern adds to a slice. Drag over any chart to zoom all of them, double-click to return." +
    (span > 1 ? ` Bold lines are means over ${span} slices.` : "") +
    (page.steps.stride > 1
      ? ` Each point stands for ${page.steps.stride} slices, the newest for one each.`
      : "");
  const chips = byId("chips");
  if (
    chips.childElementCount !== components.length ||
    chips.dataset.names !== components.map((c) => c.headline).join()
  ) {
    chips.dataset.names = components.map((c) => c.headline).join();
    chips.replaceChildren(
      ...components.map((component) =>
        make(
          "button",
          {
            type: "button",
            style: `--c:${color(component.id)}`,
            "aria-pressed": String(chosen.has(component.id)),
            onclick(event) {
              setShown(new Set(shown ?? chosen));
              if (!shown.delete(component.id)) shown.add(component.id);
              event.currentTarget.setAttribute("aria-pressed", String(shown.has(component.id)));
              renderActivations();
            },
          },
          `${component.id + 1} · ${shorten(component.headline, components.length > 12 ? 20 : 44)}`,
        ),
      ),
    );
  }
  const holder = byId("activations");
  if (!components.length || !clock.x.length) {
    holder.replaceChildren(make("p", { class: "empty" }, "Nothing to draw yet."));
    return;
  }
  const drawn = components
    .map((c) => ({ ...c, values: active(c.id) }))
    .filter((c) => chosen.has(c.id));
  const y = extent(
    drawn.map((c) => c.values),
    { zero: true },
  );
  frame(holder, {
    height: 300,
    y,
    yTicks: axisLabels(niceTicks(y[0], y[1], 5)),
    label: "What each pattern adds to each slice",
    lines: (i) => drawn.map((c) => [`${c.id + 1} · ${c.headline}`, say(c.values[i])]).slice(0, 10),
    paint(group, X, Y) {
      // Days of many years are a fog; their means tell the story.
      const fog = Math.min(
        0.28,
        120 / (clock.visible()[1] - clock.visible()[0] + 1) / Math.sqrt(drawn.length || 1),
      );
      for (const c of [...drawn].reverse()) {
        if (span > 1)
          group.append(
            draw("path", {
              d: linePath(c.values, X, Y),
              style: `${LINE};stroke:${color(c.id)};stroke-width:1;opacity:${fog.toFixed(3)}`,
            }),
          );
        const path = draw("path", {
          d: linePath(smooth(c.values, span), X, Y),
          style: `fill:none;stroke:${color(c.id)};stroke-width:2;stroke-linejoin:round`,
          class: "series",
        });
        path.setAttribute("stroke-dasharray", dash(c.id));
        group.append(path);
      }
    },
  });
}

// One entry per curve; dashes tell them apart without colour.
const LOSSES = [
  {
    field: "global",
    name: "Global",
    long: "Global, under the final patterns",
    color: "var(--c2)",
    style: "long",
    dash: "7 3.5",
  },
  {
    field: "local",
    name: "Local",
    long: "Local, right after learning",
    color: "var(--c1)",
    style: "dash",
    dash: "2 2.5",
  },
  {
    field: "pre",
    name: "Prequential",
    long: "Prequential, before learning",
    color: "var(--c0)",
    style: "",
    dash: "none",
  },
];

export function renderLosses() {
  const rows = page.steps.rows,
    unit = page.model.fit.unit,
    holder = byId("losses");
  const curves = LOSSES.map((curve) => ({
    ...curve,
    values: rows.map((row) => row[curve.field]),
  })).filter((curve) => curve.field !== "global" || curve.values.some(known));
  const all = curves.length === LOSSES.length;
  byId("fit-note").textContent =
    "Prequential loss scores a slice before it is learned and is the honest measure; " +
    "local loss scores it right afterwards" +
    (all
      ? "; global loss scores it under the patterns the run ended with, so it rises where they have moved on"
      : "") +
    `. ${unit === "event" ? "Per event" : "Over the slice's squared norm"}; lower is better.`;
  byId("fit-missing").textContent = page.run.no_global
    ? `There is no global loss: ${page.run.no_global}.`
    : "";
  if (!clock.x.length) {
    holder.replaceChildren(make("p", { class: "empty" }, "Nothing to draw yet."));
    return;
  }
  const y = extent(curves.map((curve) => curve.values)),
    span = trendWindow();
  const told = [...curves].reverse();
  frame(holder, {
    height: 260,
    y,
    yTicks: axisLabels(niceTicks(y[0], y[1], 5)),
    label: "Loss of each slice before and after learning it",
    legend: told.map((curve) => swatch(curve.color, curve.long, curve.style)),
    lines: (i) => [
      ...told.map((curve) => [curve.name, say(curve.values[i], 4)]),
      ["Total", say(rows[i].total)],
    ],
    paint(group, X, Y) {
      if (span > 1)
        for (const curve of curves)
          group.append(
            draw("path", {
              d: linePath(curve.values, X, Y),
              style: `fill:none;stroke:${curve.color};stroke-width:1;opacity:.2`,
            }),
          );
      for (const curve of curves)
        group.append(
          draw("path", {
            d: linePath(smooth(curve.values, span), X, Y),
            class: "series",
            style: `${LINE};stroke:${curve.color};stroke-width:2;stroke-dasharray:${curve.dash}`,
          }),
        );
    },
  });
}

const RAMPS = {
  light: [
    [244, 242, 236],
    [247, 205, 128],
    [222, 120, 40],
    [150, 45, 12],
    [70, 12, 20],
  ],
  dark: [
    [31, 40, 49],
    [88, 56, 40],
    [176, 84, 34],
    [240, 160, 80],
    [255, 232, 190],
  ],
};
function ramp(v) {
  const stops =
    RAMPS[
      matchMedia("(prefers-color-scheme: dark)").matches && !matchMedia("print").matches
        ? "dark"
        : "light"
    ];
  const at = Math.max(0, Math.min(0.9999, v)) * (stops.length - 1),
    i = Math.floor(at);
  return `rgb(${stops[i].map((c, k) => Math.round(c + (stops[i + 1][k] - c) * (at - i))).join()})`;
}

export function renderHeat() {
  const { components } = page.model,
    rows = page.steps.rows,
    holder = byId("heat");
  if (!components.length || !rows.some((row) => row.drift?.some((v) => v > 0))) {
    holder.replaceChildren(make("p", { class: "empty" }, "No pattern has moved yet."));
    return;
  }
  // Each colour is ten times the one before, from a ten-thousandth to all there is: 1.
  const shade = (v) => (v > 0 ? Math.max(0, Math.min(1, 1 + Math.log10(v) / 4)) : 0);
  const each = Math.max(8, Math.min(22, 440 / components.length));
  const height = Math.round(components.length * each + 38);
  const n = components.length;
  const every = Math.ceil(14 / each);
  const marks = rows.some((row) => row.births || row.deaths || row.merges || row.regime);
  const gradient = [0, 0.25, 0.5, 0.75, 1].map(ramp).join(",");
  frame(holder, {
    height,
    y: [n, 0],
    label: "Drift of each pattern over time",
    left: 84,
    band: false,
    yTicks: [],
    legend: [
      make(
        "span",
        {},
        "0.0001 or less",
        make("i", { class: "ramp", style: `background:linear-gradient(90deg,${gradient})` }),
        "1, tenfold from colour to colour",
      ),
      marks ? make("span", {}, "▲ appeared  ▼ went  ◆ many at once") : null,
    ].filter(Boolean),
    lines(i, event) {
      const box = holder.querySelector("svg").getBoundingClientRect();
      const place = Math.floor(
        ((((event.clientY - box.top) / box.height) * height - 12) / (height - 38)) * n,
      );
      const named = components[Math.max(0, Math.min(n - 1, place))];
      return [
        [`Pattern ${named.id + 1}: ${named.headline}`, ""],
        ["Drift", say(rows[i].drift?.[named.id], 2)],
        ...["births", "deaths", "merges"]
          .filter((name) => rows[i][name])
          .map((name) => [name, String(rows[i][name])]),
        ...(rows[i].regime === "changed" ? [["regime changed", ""]] : []),
        ...(rows[i].regime === "returned" ? [["an earlier regime came back", ""]] : []),
      ];
    },
    paint(group, X, Y, { left, right, top: ceiling, bottom }) {
      const ratio = Math.min(devicePixelRatio || 1, 2),
        canvas = make("canvas");
      canvas.width = (right - left) * ratio;
      canvas.height = (bottom - ceiling) * ratio;
      const context = canvas.getContext("2d");
      context.fillStyle = ramp(0);
      context.fillRect(0, 0, canvas.width, canvas.height);
      const [first, last] = clock.visible(),
        size = canvas.height / n;
      // Several slices can share a pixel: the largest drift wins.
      components.forEach((component, place) => {
        const columns = new Map();
        for (let i = first; i <= last; i++) {
          const v = rows[i].drift?.[component.id];
          if (!known(v)) continue;
          const a = i > 0 ? (clock.x[i - 1] + clock.x[i]) / 2 : clock.x[i],
            b = i < clock.x.length - 1 ? (clock.x[i] + clock.x[i + 1]) / 2 : clock.x[i];
          const from = Math.floor((X(a) - left) * ratio),
            to = Math.max(from + 1, Math.ceil((X(b) - left) * ratio));
          const old = columns.get(from);
          if (!old || old[0] < v) columns.set(from, [v, to]);
        }
        for (const [from, [v, to]] of columns) {
          context.fillStyle = ramp(shade(v));
          context.fillRect(from, place * size, to - from, Math.ceil(size) - ratio * 0.5);
        }
      });
      group.append(
        draw("image", {
          href: canvas.toDataURL(),
          x: left,
          y: ceiling,
          width: right - left,
          height: bottom - ceiling,
          preserveAspectRatio: "none",
        }),
      );
      components.forEach((component, place) => {
        if (place % every === 0)
          group.parentNode.append(
            draw(
              "text",
              { x: left - 8, y: Y(place + 0.5) + 4, "text-anchor": "end", "font-size": 12 },
              `Pattern ${component.id + 1}`,
            ),
          );
      });
      rows.forEach((row, i) => {
        const sign = row.regime ? "◆" : row.births ? "▲" : row.deaths || row.merges ? "▼" : "";
        if (sign)
          group.append(
            draw(
              "text",
              {
                x: X(clock.x[i]),
                y: ceiling - 1,
                "text-anchor": "middle",
                "font-size": 10,
                style: "fill:var(--ink)",
              },
              sign,
            ),
          );
      });
    },
  });
}

// Charts along time. All of them share one clock: dragging over one zooms them all, and the one
// slice under the pointer is marked in every chart.

import { draw, known, make, tip } from "./charts.js";
import { clock, sayTime, timeTicks } from "./clock.js";

/* A frame with axes, a warm-start band, hover and zoom. `paint` adds the marks.
   y: [low, high]; yTicks: [[value, text]]; lines(i): what the tooltip says about row i. */
export function frame(
  holder,
  {
    height = 220,
    y,
    yTicks,
    label,
    legend,
    paint,
    lines,
    onpick = clock.pick,
    left = 52,
    band = true,
    ahead = false,
  },
) {
  const width = clock.paper || Math.max(holder.clientWidth - 24, 280);
  // What stands beside the axis is not cut off.
  left = Math.max(left, 14 + 6.2 * Math.max(...yTicks.map(([, text]) => text.length), 0));
  const small = width < 520;
  const top = 12,
    bottom = height - 26,
    right = width - 8;
  const low = clock.range()[0];
  // What comes next is drawn where the newest slice is in sight.
  const high =
    ahead && clock.ahead !== null && !clock.domain
      ? clock.ahead + clock.step() / 2
      : clock.range()[1];
  const X = (v) => left + ((v - low) / (high - low || 1)) * (right - left);
  const Y = (v) => bottom - ((v - y[0]) / (y[1] - y[0] || 1)) * (bottom - top);
  Y.edges = [top - 6, bottom + 1];
  const svg = draw("svg", {
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": label,
    tabindex: 0,
  });
  const id = `clip-${holder.id}`;
  svg.append(
    draw("clipPath", { id }, draw("rect", { x: left, y: 0, width: right - left + 7, height })),
  );
  for (const [value, text] of yTicks) {
    svg.append(
      draw("line", {
        x1: left,
        x2: right,
        y1: Y(value),
        y2: Y(value),
        style: "stroke:var(--line)",
      }),
      draw("text", { x: left - 8, y: Y(value) + 4, "text-anchor": "end", "font-size": 12 }, text),
    );
  }
  const inner = draw("g", { "clip-path": `url(#${id})` });
  const warm = clock.rows.findIndex((row) => !row.warm);
  const end = warm < 0 ? clock.rows.length : warm;
  let mark = null;
  if (end > 0 && band) {
    const edge = end < clock.x.length ? (clock.x[end - 1] + clock.x[end]) / 2 : high;
    if (X(edge) > left) {
      inner.append(
        draw("rect", {
          x: left,
          y: top - 6,
          width: Math.max(X(edge) - left, 0),
          height: bottom - top + 6,
          style: "fill:var(--wash)",
        }),
        draw("line", {
          x1: X(edge),
          x2: X(edge),
          y1: top - 6,
          y2: bottom,
          style: "stroke:var(--faint);stroke-dasharray:3 3",
        }),
      );
      const late = X(edge) > right - 110;
      mark = draw(
        "text",
        {
          x: X(edge) + (late ? -6 : 6),
          y: top + 5,
          "font-size": 11.5,
          "text-anchor": late ? "end" : "start",
          class: "halo",
        },
        "warm start ends",
      );
    }
  }
  svg.append(inner);
  for (const [value, text] of timeTicks(low, high, small ? 4 : 9)) {
    if (X(value) < left || X(value) > right) continue;
    svg.append(
      draw("line", {
        x1: X(value),
        x2: X(value),
        y1: bottom,
        y2: bottom + 4,
        style: "stroke:var(--faint)",
      }),
      draw(
        "text",
        {
          x: Math.min(X(value), width - 2 - 3.3 * text.length), // whole, at the end too
          y: height - 8,
          "text-anchor": "middle",
          "font-size": 12,
        },
        text,
      ),
    );
  }
  svg.append(
    draw("line", { x1: left, x2: right, y1: bottom, y2: bottom, style: "stroke:var(--faint)" }),
  );
  paint(inner, X, Y, { left, right, top, bottom, width });
  if (mark) svg.append(mark);
  const cross = draw("line", {
    y1: top - 6,
    y2: bottom,
    style: "stroke:var(--ink);opacity:.45;display:none",
  });
  const brush = draw("rect", {
    y: top - 6,
    height: bottom - top + 6,
    style: "fill:var(--accent);opacity:.15;display:none",
  });
  svg.append(brush, cross);

  const at = (event) => {
    const box = svg.getBoundingClientRect();
    return ((event.clientX - box.left) / box.width) * width;
  };
  const invert = (px) =>
    low + ((Math.max(left, Math.min(right, px)) - left) / (right - left)) * (high - low);
  const point = (i, event) => {
    cross.setAttribute("x1", X(clock.x[i]));
    cross.setAttribute("x2", X(clock.x[i]));
    cross.style.display = "";
    const text = lines(i, event);
    tip.show(event, sayTime(clock.rows[i], { long: true }), text);
  };
  let from = null,
    cursor = null;
  svg.addEventListener("pointerdown", (event) => {
    if (event.button === 0 && event.pointerType !== "touch") from = at(event);
  });
  svg.addEventListener("pointermove", (event) => {
    if (!clock.x.length) return;
    const px = at(event);
    if (from !== null && Math.abs(px - from) > 6) {
      brush.setAttribute("x", Math.max(left, Math.min(px, from)));
      brush.setAttribute("width", Math.abs(px - from));
      brush.style.display = "";
    }
    cursor = clock.nearest(invert(px));
    point(cursor, event);
  });
  svg.addEventListener("pointerup", (event) => {
    const start = from;
    from = null;
    const px = at(event);
    if (start !== null && Math.abs(px - start) > 6) {
      tip.hide();
      clock.zoom([invert(Math.min(px, start)), invert(Math.max(px, start))]);
    } else if (onpick && clock.x.length) onpick(clock.nearest(invert(px)));
  });
  svg.addEventListener("pointerleave", () => {
    from = null;
    cross.style.display = brush.style.display = "none";
    tip.hide();
  });
  svg.addEventListener("dblclick", () => clock.zoom(null));
  svg.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return clock.zoom(null);
    if (event.key === "Enter" && onpick && cursor !== null) return onpick(cursor);
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move || !clock.x.length) return;
    event.preventDefault();
    cursor = Math.max(0, Math.min(clock.x.length - 1, (cursor ?? 0) + move));
    const box = svg.getBoundingClientRect();
    point(cursor, {
      clientX: box.left + (X(clock.x[cursor]) / width) * box.width,
      clientY: box.top + box.height / 3,
    });
  });
  const parts = [];
  if (legend) parts.push(make("div", { class: "legend" }, ...legend));
  parts.push(svg);
  if (clock.domain)
    parts.push(
      make(
        "button",
        { type: "button", class: "reset", onclick: () => clock.zoom(null) },
        "Show all",
      ),
    );
  holder.replaceChildren(...parts);
  return svg;
}

const within = (y, [top, bottom]) => Math.max(top, Math.min(bottom, y)).toFixed(1);

// A path through the values in view, with gaps where they are unknown.
const GAP = 5;

export function linePath(values, X, Y) {
  const [first, last] = clock.visible();
  // A line goes on over a few slices that nobody observed, as weekends of a market are.
  let path = "",
    before = -Infinity;
  for (let i = first; i <= last; i++) {
    if (!known(values[i])) continue;
    const pen = i - before <= GAP ? "L" : "M";
    path += `${pen}${X(clock.x[i]).toFixed(1)},${within(Y(values[i]), Y.edges)}`;
    before = i;
  }
  return path;
}

// The mean over a week of days, a day of hours, or about a fiftieth of the run, in slices.
export function trendWindow() {
  const n = clock.count[clock.count.length - 1] ?? 0;
  const hours = clock.kind === "date" ? clock.step() / 36e5 : 0;
  if (n < 40) return 1;
  const cycle = Math.abs(hours - 24) < 1 ? 7 : Math.abs(hours - 1) < 0.1 ? 24 : 1;
  return Math.max(cycle, cycle * Math.round(n / 60 / cycle));
}

// A centred running mean over so many slices; it stays inside what is known, and a row that stands
// for many slices counts as many.
export function smooth(values, window) {
  if (window <= 1) return values;
  const sums = [0],
    weights = [0],
    each = clock.rows.map((row) => row.k ?? 1);
  values.forEach((v, i) => {
    sums.push(sums[i] + (known(v) ? v * each[i] : 0));
    weights.push(weights[i] + (known(v) ? each[i] : 0));
  });
  const middle = clock.count.map((slices, i) => slices - each[i] / 2);
  let a = 0,
    b = 0;
  return values.map((v, i) => {
    while (middle[a] < middle[i] - window / 2) a++;
    while (b < middle.length && middle[b] <= middle[i] + window / 2) b++;
    return known(v) ? (sums[b] - sums[a]) / (weights[b] - weights[a]) : null;
  });
}

/* The span of the values in view. One that lies far outside all others, as a day that was cut off
   or a storm may, does not flatten the rest: it is drawn at the edge. */
export function extent(lists, { zero = false } = {}) {
  const [first, last] = clock.visible(),
    seen = [];
  for (const values of lists)
    for (let i = first; i <= last; i++)
      if (known(values[i]) && !clock.rows[i].partial) seen.push(values[i]);
  if (!seen.length) return [0, 1];
  seen.sort((p, q) => p - q);
  const at = (share) => seen[Math.round(share * (seen.length - 1))];
  let low = seen[0],
    high = seen[seen.length - 1];
  if (seen.length >= 20) {
    const reach = 3 * (at(0.98) - at(0.02)) || Infinity;
    low = Math.max(low, at(0.02) - reach);
    high = Math.min(high, at(0.98) + reach);
  }
  if (zero) {
    low = Math.min(low, 0);
    high = Math.max(high, 0);
  }
  const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  return [zero && low === 0 ? 0 : low - room, high + room];
}

export const swatch = (color, name, style = "") =>
  make("span", {}, make("i", { class: `swatch ${style}`, style: `--c:${color}` }), name);

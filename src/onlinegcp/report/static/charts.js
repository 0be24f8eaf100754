// Small parts: elements, numbers, scales, tooltips, bars and little lines. Data only ever enters
// the page as text nodes and attributes, so a label cannot become markup.

const SVG = "http://www.w3.org/2000/svg";

// Words of a script that is read from right to left stay together, and leave what is around them
// in its place: without this, the numbers behind such a label would stand before it.
const LEFTWARD =
  /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]+(?:[\s'"/_-]+[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]+)*/g;
const isolated = (text) =>
  typeof text === "string" ? text.replace(LEFTWARD, "\u2068$&\u2069") : text;

export function make(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style") node.style.cssText = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  const there = children.filter((child) => child !== null && child !== undefined);
  node.append(...there.map(isolated));
  return node;
}

export function draw(name, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// A square on its corner, about as large as a circle of that radius.
export const diamond = (x, y, radius) =>
  draw("rect", {
    x: x - 0.8 * radius,
    y: y - 0.8 * radius,
    width: 1.6 * radius,
    height: 1.6 * radius,
    transform: `rotate(45 ${x} ${y})`,
  });

export const byId = (id) => document.getElementById(id);
export const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

export function say(value, digits = 3) {
  if (!known(value)) return "–";
  if (value < 0) return `−${say(-value, digits)}`;
  const size = value;
  if (size !== 0 && (size < 1e-3 || size >= 1e12)) {
    const [mantissa, power] = value.toExponential(1).split("e");
    return `${mantissa.replace(/\.0$/, "")}·10${superscript(+power)}`;
  }
  if (size >= 1000) return Math.round(value).toLocaleString("en-US");
  return String(+value.toPrecision(digits));
}

export function superscript(number) {
  const marks = {
    "-": "⁻",
    0: "⁰",
    1: "¹",
    2: "²",
    3: "³",
    4: "⁴",
    5: "⁵",
    6: "⁶",
    7: "⁷",
    8: "⁸",
    9: "⁹",
  };
  return String(number)
    .split("")
    .map((mark) => marks[mark])
    .join("");
}

export function compact(value) {
  if (!known(value)) return "–";
  return Math.abs(value) < 1e6
    ? say(value)
    : value.toLocaleString("en-US", { notation: "compact", maximumFractionDigits: 1 });
}

// What stands beside an axis: large numbers short enough for its margin, all of them in one form.
export function axisLabels(ticks) {
  const most = Math.max(...ticks.map(Math.abs));
  const short = { notation: "compact", maximumFractionDigits: 3 };
  const write = (v) => (v < 0 ? `−${write(-v)}` : v.toLocaleString("en-US", short));
  return ticks.map((v) => [v, most >= 1e5 && most < 1e15 ? write(v) : say(v)]);
}

export function percent(share, digits = 0) {
  if (!known(share)) return "–";
  if (share < 0) return `−${percent(-share, digits)}`;
  const value = 100 * share;
  if (value > 0 && value < 0.1) return "< 0.1\u00a0%";
  return value !== 0 && value < 0.95
    ? `${value.toFixed(1)}\u00a0%`
    : `${value.toFixed(digits)}\u00a0%`;
}

// Sentences as the page writes numbers: with a minus, powers of ten, and their sign on one line.
export const prose = (text) =>
  text
    .replace(/(\d) %/g, "$1\u00a0%")
    .replace(/(\d) h\b/g, "$1\u00a0h")
    .replace(/(\d)e([+-]\d+)\b/g, (_, digit, power) => `${digit}·10${superscript(+power)}`)
    .replace(/(^|[\s(])-(?=\d)/g, "$1−");

// Ticks at 1, 2 or 5 times a power of ten.
export function niceTicks(low, high, count) {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++)
    ticks.push(+(i * step).toPrecision(12));
  return ticks;
}

export const tip = {
  show(event, title, lines) {
    const node = byId("tip");
    node.replaceChildren(
      make("b", {}, title),
      ...lines.map(([name, value]) =>
        make("div", {}, make("span", {}, name), make("span", {}, value)),
      ),
    );
    node.hidden = false;
    const box = node.getBoundingClientRect();
    const left =
      event.clientX + 16 + box.width > innerWidth
        ? event.clientX - box.width - 16
        : event.clientX + 16;
    node.style.left = `${Math.max(8, left)}px`;
    node.style.top = `${Math.max(8, Math.min(event.clientY - box.height / 2, innerHeight - box.height - 8))}px`;
  },
  hide() {
    byId("tip").hidden = true;
  },
};
addEventListener("scroll", tip.hide, { passive: true });

// How much all labels have in common at their beginning, in whole words, where it is long: paths
// and addresses differ at their end.
const LONG_BEGINNING = 10;
function beginning(labels) {
  if (labels.length < 2) return 0;
  let same = 0;
  while (same < labels[0].length && labels.every((label) => label[same] === labels[0][same]))
    same++;
  let whole = same;
  while (whole > 0 && !/[\s/._:?&=-]/.test(labels[0][whole - 1])) whole--;
  if (same - whole > LONG_BEGINNING) whole = same - 3; // one endless word
  return whole < LONG_BEGINNING || labels.some((label) => label.length === whole) ? 0 : whole;
}

// Horizontal bars of the strongest labels.
// `also` picks further labels that are shown wherever they stand, and marks them.
export function bars(
  labels,
  values,
  { rest = 0, others = 0, top = 6, format = percent, also = null } = {},
) {
  const count = values.filter((v, i) => i < top && (i === 0 || Math.abs(v) >= 0.005)).length,
    common = beginning(labels),
    brief = (label) => (common ? `…${label.slice(common)}` : label);
  const shown = labels.slice(0, count);
  const most = Math.max(...values.map(Math.abs), 1e-12);
  const box = make("div", { class: "bars" });
  shown.forEach((label, i) => {
    const size = (Math.abs(values[i]) / most) * 100;
    box.append(
      make("span", { title: label, class: also?.(label) ? "match" : null }, brief(label)),
      make("i", { style: `width:${size.toFixed(1)}%`, class: values[i] < 0 ? "minus" : null }),
      make("em", {}, format(values[i])),
    );
  });
  labels.slice(count).forEach((label, i) => {
    if (!also?.(label)) return;
    const value = values[count + i];
    box.append(
      make("span", { title: label, class: "match" }, brief(label)),
      make("i", { style: `width:${((Math.abs(value) / most) * 100).toFixed(1)}%` }),
      make("em", {}, format(value)),
    );
  });
  const hidden = others + labels.length - shown.length;
  const more = rest + values.slice(count).reduce((sum, v) => sum + Math.abs(v), 0);
  if (hidden > 0 && more >= 0.005)
    box.append(
      make("span", { class: "rest" }, `${hidden.toLocaleString("en-US")} more: ${percent(more)}`),
    );
  if (!shown.length) box.append(make("span", { class: "rest" }, "nothing"));
  return box;
}

// A little line along an ordered mode, with a tooltip per position.
export function miniLine(labels, values, name, { suffix = "" } = {}) {
  const width = 160,
    height = 86,
    base = 68,
    left = 2;
  const high = Math.max(...values.map((v) => v ?? 0), 1e-12),
    low = Math.min(0, ...values.map((v) => v ?? 0));
  const n = values.length;
  const x = (i) => left + (n === 1 ? 0.5 : i / (n - 1)) * (width - 2 * left);
  const y = (v) => base - ((v - low) / (high - low)) * (base - 6);
  const points = values.map((v, i) => `${x(i).toFixed(1)},${y(v ?? 0).toFixed(1)}`);
  const svg = draw("svg", {
    class: "mini",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `${name}: highest at ${labels[values.indexOf(Math.max(...values))]}${suffix}`,
  });
  svg.append(
    draw("path", {
      d: `M${x(0)},${y(0)} L${points.join(" L")} L${x(n - 1)},${y(0)} Z`,
      style: "fill:var(--c);opacity:.16",
    }),
    draw("path", {
      d: `M${points.join(" L")}`,
      style: "fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round",
    }),
    draw("line", { x1: 0, x2: width, y1: y(0), y2: y(0), style: "stroke:var(--line)" }),
  );
  const marks =
    n <= 8 ? [...Array(n).keys()] : n === 24 ? [0, 6, 12, 18] : [0, Math.floor((n - 1) / 2), n - 1];
  for (const i of marks) {
    const anchor = i === 0 ? "start" : i === n - 1 ? "end" : "middle";
    svg.append(
      draw(
        "text",
        { x: x(i), y: height - 4, "text-anchor": anchor, "font-size": 11 },
        marks.length > 5 ? labels[i].slice(0, 2) : shorten(labels[i], marks.length <= 3 ? 12 : 5),
      ),
    );
  }
  const dot = draw("circle", { r: 3.5, style: "fill:var(--c);display:none" });
  svg.append(dot);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const i = Math.max(
      0,
      Math.min(n - 1, Math.round(((event.clientX - box.left) / box.width) * (n - 1))),
    );
    dot.setAttribute("cx", x(i));
    dot.setAttribute("cy", y(values[i] ?? 0));
    dot.style.display = "";
    tip.show(event, `${labels[i]}${suffix}`, [[name, percent(values[i], 1)]]);
  });
  svg.addEventListener("pointerleave", () => {
    dot.style.display = "none";
    tip.hide();
  });
  return svg;
}

// A little column chart around 1 = usual, for weekdays and months.
export function miniColumns(labels, values, name) {
  const width = 160,
    height = 86,
    base = 68;
  const high = Math.max(...values.map((v) => v ?? 0), 1.05);
  const step = width / values.length;
  const y = (v) => base - (v / high) * (base - 6);
  const svg = draw("svg", {
    class: "mini",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `${name}: strongest on ${labels[values.indexOf(Math.max(...values.map((v) => v ?? 0)))]}`,
  });
  values.forEach((v, i) => {
    if (v === null) return;
    const bar = draw("rect", {
      x: i * step + step * 0.14,
      width: step * 0.72,
      y: y(v),
      height: Math.max(base - y(v), 0.5),
      rx: 1.5,
      style: `fill:var(--c);opacity:${v >= 1.05 ? 0.95 : 0.45}`,
    });
    bar.addEventListener("pointermove", (event) =>
      tip.show(event, labels[i], [["of its mean", percent(v)]]),
    );
    bar.addEventListener("pointerleave", tip.hide);
    svg.append(
      bar,
      draw(
        "text",
        { x: (i + 0.5) * step, y: height - 4, "text-anchor": "middle", "font-size": 11 },
        labels[i].slice(0, values.length > 7 ? 1 : 2),
      ),
    );
  });
  svg.append(
    draw("line", {
      x1: 0,
      x2: width,
      y1: y(1),
      y2: y(1),
      style: "stroke:var(--ink);stroke-dasharray:2 3;opacity:.55",
    }),
  );
  return svg;
}

export function shorten(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

// A section of a sheet: heading, a note under it, and what it shows.
export function section(title, note, ...content) {
  return make(
    "section",
    {},
    make(
      "div",
      { class: "head" },
      make("h2", {}, title),
      note ? make("p", { class: "note" }, note) : "",
    ),
    ...content,
  );
}

// A table; a column is its heading, whether it holds numbers, and what an entry shows in it.
export function table(columns, entries) {
  const kind = (numbers) => ({ class: numbers ? "num" : null });
  return make(
    "div",
    { class: "scroll" },
    make(
      "table",
      {},
      make(
        "thead",
        {},
        make(
          "tr",
          {},
          ...columns.map(([text, numbers]) => make("th", { ...kind(numbers), scope: "col" }, text)),
        ),
      ),
      make(
        "tbody",
        {},
        ...entries.map((entry) =>
          make(
            "tr",
            {},
            ...columns.map(([, numbers, cell]) => make("td", kind(numbers), cell(entry))),
          ),
        ),
      ),
    ),
  );
}

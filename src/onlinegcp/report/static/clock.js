// The clock that all charts along time share, and how its times are said.

import { niceTicks, say } from "./charts.js";

export const clock = {
  rows: [],
  x: [],
  count: [], // slices up to and with each row
  kind: "number",
  interval: "",
  domain: null,
  last: 0, // show that many of the newest slices; 0 for all
  forecast: null, // of slices that are still to come
  ahead: null, // the end of what is forecast
  charts: new Set(),
  paper: 0,
  pick: null, // what a click on a time does
  load(rows, { interval = "", forecast = null } = {}) {
    this.rows = rows;
    this.interval = interval;
    let slices = 0;
    this.count = rows.map((row) => {
      slices += row.k ?? 1;
      return slices;
    });
    const parsed = rows.map((row) => (typeof row.t === "string" ? parseTime(row.t) : NaN));
    if (rows.length && parsed.every((v) => !Number.isNaN(v))) {
      this.kind = "date";
      this.x = parsed;
    } else if (rows.length && rows.every((row) => typeof row.t === "number")) {
      this.kind = "number";
      this.x = rows.map((row) => row.t);
    } else {
      this.kind = "order";
      this.x = rows.map((row) => row.n);
    }
    this.foresee(forecast);
  },
  // A page that follows a run may have slices that were still to come when they were forecast.
  foresee(forecast) {
    const end = this.x[this.x.length - 1],
      open = this.rows[this.rows.length - 1]?.partial,
      places = forecast?.t.map((time, i) => this.place(time, i + 1)) ?? [],
      from = places.findIndex((x) => (open ? x >= end : x > end));
    this.forecast = null;
    this.ahead = null;
    if (from < 0) return;
    this.ahead = places[places.length - 1];
    this.forecast = { level: forecast.level, x: places.slice(from) };
    for (const name of ["t", "total", "low", "high"])
      this.forecast[name] = forecast[name].slice(from);
  },
  // Where a time that is no row's lies; `after` slices after the last where only their order is known.
  place(time, after) {
    if (this.kind === "date") return typeof time === "string" ? parseTime(time) : NaN;
    if (this.kind === "number" && typeof time === "number") return time;
    return (this.x[this.x.length - 1] ?? 0) + after;
  },
  // Time from one slice to the next.
  step() {
    const n = this.count[this.count.length - 1] ?? 0;
    return n > 1 ? (this.x[this.x.length - 1] - this.x[0]) / (n - 1) : 1;
  },
  full() {
    const first = this.x[this.first()] ?? 0,
      end = this.x[this.x.length - 1] ?? 1,
      half = this.step() / 2;
    return [first - half, end + half];
  },
  // The first row of the newest slices that are to be shown.
  first() {
    const n = this.count[this.count.length - 1] ?? 0;
    if (!this.last || this.last >= n) return 0;
    return Math.max(
      0,
      this.count.findIndex((slices) => slices > n - this.last),
    );
  },
  range() {
    return this.domain ?? this.full();
  },
  zoom(domain) {
    this.domain = domain;
    this.redraw();
  },
  newest(slices) {
    this.last = slices;
    this.zoom(null);
  },
  redraw() {
    for (const chart of this.charts) chart();
  },
  nearest(value) {
    let low = 0,
      high = this.x.length - 1;
    while (high - low > 1) {
      const mid = (low + high) >> 1;
      if (this.x[mid] < value) low = mid;
      else high = mid;
    }
    return value - this.x[low] < this.x[high] - value ? low : high;
  },
  // The rows in view, with one more on either side so that lines leave the frame.
  visible() {
    const [low, high] = this.range();
    let first = this.x.findIndex((v) => v >= low),
      last = this.x.length - 1;
    if (first < 0) first = this.x.length;
    while (last > first && this.x[last] > high) last--;
    return [Math.max(0, first - 1), Math.min(this.x.length - 1, last + 1)];
  },
};

// ISO text read as it stands: the calendar of the data is shown, not that of the reader.
export function parseTime(text) {
  const found = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d(?:\.\d+)?))?)?/.exec(text);
  if (!found) return NaN;
  const [, year, month, day, hour = 0, minute = 0, second = 0] = found;
  return Date.UTC(+year, +month - 1, +day, +hour, +minute) + Math.round(+second * 1000);
}

export const MONTHS = [
  "Jan",
  "Feb",
  "Mar",
  "Apr",
  "May",
  "Jun",
  "Jul",
  "Aug",
  "Sep",
  "Oct",
  "Nov",
  "Dec",
];
export const YEAR = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
];
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

export function sayTime(row, { long = false, interval = clock.interval } = {}) {
  if (row.t === null || row.t === undefined) return `slice ${row.n}`;
  const ms = typeof row.t === "string" ? parseTime(row.t) : NaN;
  if (Number.isNaN(ms)) return String(row.t);
  const date = new Date(ms),
    year = date.getUTCFullYear(),
    month = MONTHS[date.getUTCMonth()];
  if (interval === "yearly") return String(year);
  const [, several, unit] = /^(\d+)-(year|month)$/.exec(interval) || [];
  if (unit === "year") return `${year}–${year + +several - 1}`;
  if (interval === "quarterly") return `Q${Math.floor(date.getUTCMonth() / 3) + 1} ${year}`;
  if (interval === "monthly" || unit === "month")
    return `${long ? YEAR[date.getUTCMonth()] : month} ${year}`;
  if (interval === "weekly")
    return `${long ? "Week of" : "Wk of"} ${date.getUTCDate()} ${month} ${year}`;
  // Where others have a time of day, midnight is one, too.
  const timed = ms % 864e5 || (row.t.length > 10 && interval !== "daily");
  const time = timed ? `, ${clockOf(ms)}` : "";
  const day = `${date.getUTCDate()} ${month} ${year}${time}`;
  return long ? `${DAYS[date.getUTCDay()]}, ${day}` : day;
}

// As finely as it has to be: 17:00, 17:00:05, 17:00:05.250.
function clockOf(ms) {
  const end = ms % 1000 ? 23 : ms % 6e4 ? 19 : 16;
  return new Date(ms).toISOString().slice(11, end);
}

export function timeTicks(low, high, count) {
  if (clock.kind !== "date")
    return niceTicks(low, high, count)
      .filter((v) => clock.kind === "number" || Number.isInteger(v))
      .map((v) => [v, say(v)]);
  const day = 864e5,
    span = high - low,
    ticks = [];
  const months = span / (30.44 * day);
  if (months / count > 0.7) {
    const step = [1, 2, 3, 6, 12, 24, 60, 120].find((s) => months / s <= count) ?? 240;
    const start = new Date(low);
    for (let m = start.getUTCFullYear() * 12 + start.getUTCMonth(); ; m++) {
      const ms = Date.UTC(Math.floor(m / 12), m % 12, 1);
      if (ms > high) break;
      if (ms < low || m % step) continue;
      ticks.push([ms, step >= 12 || m % 12 === 0 ? String(Math.floor(m / 12)) : MONTHS[m % 12]]);
    }
    return ticks;
  }
  const hour = 36e5;
  const step =
    [
      ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
      ...[1000, 2000, 5000, 10000, 15000, 30000],
      hour / 60,
      hour / 12,
      hour / 4,
      hour,
      3 * hour,
      6 * hour,
      12 * hour,
      day,
      2 * day,
      7 * day,
      14 * day,
    ].find((s) => span / s <= count) ?? 14 * day;
  for (let ms = Math.ceil(low / step) * step; ms <= high; ms += step) {
    const date = new Date(ms);
    ticks.push([
      ms,
      step < day && ms % day ? clockOf(ms) : `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`,
    ]);
  }
  return ticks;
}

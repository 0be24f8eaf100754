// What all views share: the payload, and what the reader has chosen.

import { known, say } from "./charts.js";

export const SECTIONS = [
  ["top", "In short"],
  ["patterns", "Patterns"],
  ["time", "Over time"],
  ["fit", "Fit"],
  ["drift", "Drift"],
  ["unusual", "Unusual"],
  ["settings", "Settings"],
];
export const SHOWN_ROWS = 12;
// Settings most readers ask for; the others are one click away.
export const MAIN = [
  "method",
  "rank",
  "loss",
  "solver",
  "forget",
  "init_slices",
  "random_state",
  "lower",
  "n_jobs",
];
export const WEEK = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
export let page = null; // the payload
export let shown = null; // components drawn over time; null until the reader chooses
export let picked = null; // number of the slice explained

export let filter = ""; // what a label must contain

// A pattern keeps its colour; from the thirteenth on lines are dashed as well.
export const COLORS = 12;
export const color = (id) => `var(--c${id % COLORS})`;
export const dash = (id) =>
  id < COLORS ? "none" : `${2 + ((id / COLORS) | 0) * 3} ${2 + ((id / COLORS) | 0)}`;
export const matches = (label) => String(label).toLowerCase().includes(filter);
export const concerns = (component) =>
  !filter ||
  matches(component.headline) ||
  component.modes.some((column) =>
    column.labels?.some((label, i) => Math.abs(column.values[i]) >= 0.005 && matches(label)),
  );
export const unit = () => page.run.unit || "total";
export function saySmall(p) {
  if (!known(p)) return "–";
  return p <= page.run.smallest_p ? `under ${say(page.run.smallest_p)}` : say(p, 2);
}
export const active = (r) =>
  page.steps.rows.map((row) => (known(row.w?.[r]) ? row.w[r] * (page.model.scale[r] ?? 1) : null));

export function setPage(payload) {
  page = payload;
}

export function setFilter(text) {
  filter = text.trim().toLowerCase();
}

export function setShown(components) {
  shown = components;
}

export function setPicked(number) {
  picked = number;
}

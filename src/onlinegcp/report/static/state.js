// What all views share: the payload, and what the reader has chosen.

import { known } from "./charts.js";

export const SECTIONS = [
  ["summary", "In short"],
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

export let page = null; // the payload
export let shown = null; // components drawn over time; null until the reader chooses
export let picked = null; // number of the slice explained

export const color = (place) => `var(--c${Math.min(place, 7)})`;
export const active = (r) =>
  page.steps.rows.map((row) => (known(row.w?.[r]) ? row.w[r] * (page.model.scale[r] ?? 1) : null));

export function setPage(payload) {
  page = payload;
}

export function setShown(components) {
  shown = components;
}

export function setPicked(number) {
  picked = number;
}

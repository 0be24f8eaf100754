// The views of a run: words, patterns, activations, losses, drift, odd slices, settings.

import { byId, make } from "./charts.js";
import { clock } from "./clock.js";
import { renderAnswers, renderHero, renderTools, renderTotals } from "./first.js";
import { renderActivations, renderHeat, renderLosses } from "./overtime.js";
import { renderGrid } from "./patterns.js";
import { renderSettings } from "./settings.js";
import { page, picked, SECTIONS, setPage, setPicked } from "./state.js";
import { renderChosen, renderUnusual, worst } from "./unusual.js";

const VIEWS = {
  grid: renderGrid,
  overall: () => renderTotals(byId("overall"), { height: 224, ahead: true }),
  activations: renderActivations,
  losses: renderLosses,
  heat: renderHeat,
  unusual: renderUnusual,
};
const CHARTS = Object.keys(VIEWS).slice(1);
const waitingViews = new Set();
let drawnLast = 0;
const LATER = 1500; // milliseconds between two drawings of what is out of sight

export function renderAll() {
  const { steps, model } = page;
  clock.load(steps.rows, { interval: model.interval, forecast: model.forecast });
  renderHero();
  renderTools(renderAll);
  renderAnswers();
  renderChosen();
  renderViews(Object.keys(VIEWS));
  renderSettings();
}
function renderCharts() {
  renderViews(CHARTS);
}

// A page that follows a run draws at once what is in sight, or will be soon; all else a little
// later, so that it is there when the page is printed or captured whole.
function renderViews(names) {
  for (const name of names) {
    const box = byId(name).getBoundingClientRect();
    const far = box.bottom < -innerHeight / 2 || box.top > innerHeight * 1.5;
    if (far && page.live && !clock.paper && drawnLast) waitingViews.add(name);
    else {
      waitingViews.delete(name);
      VIEWS[name]();
    }
  }
  if (!drawnLast) drawnLast = performance.now();
  if (waitingViews.size) setTimeout(renderWaiting, LATER);
}
function renderWaiting() {
  if (!waitingViews.size || performance.now() - drawnLast < LATER) return;
  drawnLast = performance.now();
  for (const name of waitingViews) VIEWS[name]();
  waitingViews.clear();
}
addEventListener(
  "scroll",
  () => {
    if (page && waitingViews.size) requestAnimationFrame(() => renderViews([...waitingViews]));
  },
  { passive: true },
);

clock.charts.add(renderCharts);
byId("nav").append(...SECTIONS.map(([id, name]) => make("a", { href: `#${id}` }, name)));
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth !== width) {
    width = innerWidth;
    if (page) renderCharts();
  }
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => page && renderHeat());
// On paper charts are as wide as the page, so that their letters keep their size.
const sheet = (paper) => {
  clock.paper = paper;
  if (page) renderCharts();
};
addEventListener("beforeprint", () => sheet(820));
addEventListener("afterprint", () => sheet(0));

export function show(payload) {
  setPage(payload);
  const flagged = page.steps.rows
    .filter((row) => row.a?.flagged)
    .sort((a, b) => worst(a) - worst(b));
  setPicked(picked ?? flagged[0]?.n ?? null);
  drawnLast = 0;
  renderAll();
}

const given = JSON.parse(byId("payload").textContent);
if (given) show(given);

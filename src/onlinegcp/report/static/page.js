// The views of a run: words, patterns, activations, losses, drift, odd slices, settings.

import { byId, make } from "./charts.js";
import { renderActivations, renderHeat, renderLosses } from "./overtime.js";
import { renderGrid, renderHero, renderOverview } from "./patterns.js";
import { renderSettings } from "./settings.js";
import { page, picked, SECTIONS, setPage, setPicked } from "./state.js";
import { clock } from "./timeline.js";
import { renderUnusual, worst } from "./unusual.js";

const VIEWS = {
  grid: renderGrid,
  activations: renderActivations,
  losses: renderLosses,
  heat: renderHeat,
  unusual: renderUnusual,
};
const waitingViews = new Set();

export function renderAll() {
  clock.load(page.steps.rows);
  renderHero();
  renderOverview();
  renderViews(Object.keys(VIEWS));
  renderSettings();
}
function renderCharts() {
  renderViews(Object.keys(VIEWS).slice(1));
}

// A live page draws what is in sight, or will be soon; the rest when the reader comes there.
function renderViews(names) {
  for (const name of names) {
    const box = byId(name).getBoundingClientRect();
    if (page.live && !clock.paper && (box.bottom < -innerHeight / 2 || box.top > innerHeight * 1.5))
      waitingViews.add(name);
    else {
      waitingViews.delete(name);
      VIEWS[name]();
    }
  }
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
  renderAll();
}

const given = JSON.parse(byId("payload").textContent);
if (given) show(given);

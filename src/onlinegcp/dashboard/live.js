// Follows a run: the whole of it once, then what is new, as the server sends it.

import { byId, percent, say } from "../report/static/charts.js";
import { renderAll, show } from "../report/static/page.js";
import { page } from "../report/static/state.js";

const pulse = {
  running: false,
  times: [],
  connected: false,
  before: false,
  share: 0,
  filling: false,
};

function renderStatus() {
  const node = byId("status");
  node.hidden = false;
  const now = performance.now();
  pulse.times = pulse.times.filter(([at]) => now - at < 5000);
  const rate = pulse.times.reduce((sum, [, n]) => sum + n, 0) / 5;
  if (!pulse.connected) {
    node.className = pulse.before ? "status lost" : "status";
    node.textContent = pulse.before ? "Connection lost, trying again" : "Connecting";
  } else if (pulse.problem) {
    node.className = "status lost";
    node.textContent = pulse.problem;
  } else if (!page) {
    node.className = "status running";
    node.textContent = pulse.share ? `Reading the run: ${percent(pulse.share)}` : "Reading the run";
  } else if (pulse.filling) {
    const shown = page.steps.count.toLocaleString("en-US");
    node.className = "status running";
    node.textContent = `The newest ${shown} slices · reading all before: ${percent(pulse.share)}`;
  } else if (pulse.running) {
    node.className = "status running";
    node.textContent = rate > 0 ? `Learning · ${say(rate, 2)} slices/s` : "Learning";
  } else {
    node.className = "status";
    node.textContent = "Nobody is writing";
  }
}

function follow() {
  const source = new EventSource("events");
  source.onopen = () => {
    pulse.connected = pulse.before = true;
    renderStatus();
  };
  const on = (name, act) =>
    source.addEventListener(name, (event) => {
      pulse.connected = true;
      act(JSON.parse(event.data));
      renderStatus();
    });
  on("snapshot", (payload) => {
    document.body.classList.remove("waiting");
    // Of a long run the newest slices come first, and all of them when they have been read.
    pulse.filling = Boolean(payload.reading);
    pulse.share = payload.reading?.share ?? 1;
    show(payload);
  });
  on("update", ({ all, rows, steps, fresh, model }) => {
    if (!page) return;
    if (all) page.steps = all;
    else {
      page.steps.rows.push(...rows);
      Object.assign(page.steps, steps);
    }
    if (model) page.model = model;
    pulse.times.push([performance.now(), fresh]);
    renderSoon();
  });
  on("reading", ({ share }) => {
    pulse.share = share;
  });
  on("status", ({ running, problem }) => {
    pulse.running = running;
    pulse.problem = problem;
  });
  // The browser connects again by itself, and the server then sends the whole run. Only where the
  // server had no room for one more reader it gives up: then this asks again, not all at once.
  source.onerror = () => {
    pulse.connected = false;
    renderStatus();
    if (source.readyState === EventSource.CLOSED) setTimeout(follow, 2000 + 3000 * Math.random());
  };
}

let waiting = false;
function renderSoon() {
  if (waiting) return;
  waiting = true;
  // A reader who is zooming must not have the chart taken from under the pointer.
  setTimeout(
    () =>
      requestAnimationFrame(() => {
        waiting = false;
        renderAll();
      }),
    60,
  );
}

// Empty frames tell nothing: until the run has been read there is a title, and the state of affairs.
document.body.classList.add("waiting");
byId("title").textContent = "Reading the run";
setInterval(renderStatus, 1000);
follow();

// Who and what: title, figures, summary and the patterns.

import { bars, byId, compact, make, miniColumns, miniLine, percent, prose, say } from "./charts.js";
import { color, page, SHOWN_ROWS, WEEK, YEAR } from "./state.js";
import { sayTime } from "./timeline.js";

export function renderHero() {
  const { run, model, steps } = page;
  const rows = steps.rows;
  byId("title").textContent = page.name.replace(/\.run$/, "");
  document.title = `${page.name} · onlinegcp`;
  byId("eyebrow").textContent = page.live ? "Live run" : "Run report";
  const span =
    rows.length && rows[0].t !== null
      ? `${sayTime(rows[0])} – ${sayTime(rows[rows.length - 1])}`
      : "";
  const sized = model.modes.filter((mode) => mode.length),
    names = sized.map((mode) => mode.name).join(" × ");
  const shape =
    names && `${names}, ${sized.map((mode) => mode.length.toLocaleString("en-US")).join(" × ")}`;
  byId("lede").textContent =
    [span, shape].filter(Boolean).join(" · ") || "Waiting for the first slices.";
  const counts = /poisson|binomial/.test(run.loss);
  const figures = [
    [steps.count.toLocaleString("en-US"), "slices learned"],
    [compact(steps.events), counts ? "events" : "sum of all values"],
    [String(model.components.length || run.parameters.rank || "–"), "patterns (rank)"],
    model.fit.figure ? [model.fit.figure, model.fit.caption] : null,
    [
      steps.scored ? String(steps.flagged) : "–",
      steps.scored ? `flagged of ${steps.scored.toLocaleString("en-US")} scored` : "flagged",
    ],
    steps.seconds > 0
      ? [`${say((steps.seconds / steps.count) * 1000, 2)} ms`, "to learn a slice"]
      : null,
  ];
  byId("figures").replaceChildren(
    ...figures
      .filter(Boolean)
      .map(([value, text]) => make("div", {}, make("dt", {}, text), make("dd", {}, value))),
  );
  byId("prose").replaceChildren(
    ...model.summary.map(([head, text]) =>
      make("div", {}, make("b", {}, head), make("p", {}, prose(text))),
    ),
  );
}

// All patterns at a glance, beside the summary.
export function renderOverview() {
  const { components } = page.model,
    most = components[0]?.share || 1;
  byId("overview").hidden = !components.length;
  byId("overview").replaceChildren(
    make("h3", {}, "Share of each pattern"),
    make(
      "ol",
      {},
      ...components
        .slice(0, 10)
        .map((component, place) =>
          make(
            "li",
            { style: `--c:${color(place)}` },
            make(
              "a",
              { href: `#pattern-${component.id + 1}`, title: component.headline },
              component.headline,
            ),
            make("em", {}, percent(component.share)),
            make("i", { style: `width:${((component.share / most) * 100).toFixed(1)}%` }),
          ),
        ),
    ),
  );
  if (components.length > 10) {
    const rest = components.slice(10).reduce((sum, c) => sum + c.share, 0);
    byId("overview").append(
      make("p", { class: "note" }, `${components.length - 10} more: ${percent(rest)}`),
    );
  }
}

export function renderGrid() {
  const { model } = page;
  const grid = byId("grid"),
    key = JSON.stringify([model.components, model.calendar]);
  // Left alone while nothing changed, so that a reader's focus stays where it is.
  if (grid.dataset.key === key) return;
  grid.dataset.key = key;
  const calendar = ["hour", "weekday", "month"].filter((name) => model.calendar[name]).slice(-2);
  if (!model.components.length) {
    grid.replaceChildren(
      make("p", { class: "empty chart" }, "Patterns appear when the warm start is over."),
    );
    return;
  }
  const widths = [
    ...model.modes.map((mode) => (mode.kind === "category" ? 1.55 : 1)),
    ...calendar.map(() => 1),
  ];
  grid.style.setProperty("--columns", widths.map((width) => `minmax(0, ${width}fr)`).join(" "));
  grid.replaceChildren(
    ...model.components.map((component, place) => {
      const cells = component.modes.map((column, k) => {
        const mode = model.modes[k];
        const chart =
          mode.kind === "category"
            ? bars(column.labels, column.values, column)
            : mode.kind === "weekday" || mode.kind === "month"
              ? miniLine(mode.labels, column.values, mode.name)
              : miniLine(mode.labels, column.values, mode.name, {
                  suffix: mode.kind === "hour" ? " h" : "",
                });
        return make(
          "div",
          { class: mode.kind === "category" ? "cell wide" : "cell" },
          make("h4", {}, mode.name),
          chart,
        );
      });
      for (const name of calendar) {
        const labels = { weekday: WEEK, month: YEAR, hour: [...Array(24).keys()].map(String) }[
          name
        ];
        const title = { weekday: "By weekday", month: "By month", hour: "By hour" }[name];
        cells.push(
          make(
            "div",
            { class: "cell" },
            make("h4", {}, title),
            miniColumns(labels, model.calendar[name][component.id], title),
          ),
        );
      }
      return make(
        "article",
        {
          id: `pattern-${component.id + 1}`,
          class: `row${place >= SHOWN_ROWS ? " extra" : ""}`,
          style: `--c:${color(place)}`,
          "data-component": component.id,
        },
        make(
          "div",
          { class: "who" },
          make(
            "span",
            { class: "share" },
            `Pattern ${component.id + 1} · ${percent(component.share)} of everything`,
          ),
          make("h3", {}, component.headline),
          make("p", {}, prose(`${component.sentence}.`)),
        ),
        ...cells,
      );
    }),
  );
  const more = byId("more"),
    hidden = model.components.length - SHOWN_ROWS;
  more.hidden = hidden <= 0 || grid.classList.contains("all");
  more.textContent = `Show ${hidden} more`;
  more.onclick = () => {
    grid.classList.add("all");
    more.hidden = true;
  };
}

// The patterns, one row each.

import { bars, byId, make, miniColumns, miniLine, percent, prose } from "./charts.js";
import { YEAR } from "./clock.js";
import { color, concerns, filter, matches, page, SHOWN_ROWS, WEEK } from "./state.js";

export function renderGrid() {
  const { model } = page;
  const grid = byId("grid"),
    key = JSON.stringify([filter, model.components, model.calendar]);
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
  const components = model.components.filter(concerns);
  if (!components.length) {
    grid.replaceChildren(make("p", { class: "empty chart" }, "No pattern has such a label."));
    byId("more").hidden = true;
    return;
  }
  grid.replaceChildren(
    ...components.map((component, place) => {
      const cells = component.modes.map((column, k) => {
        const mode = model.modes[k];
        const chart =
          mode.kind === "category"
            ? bars(column.labels, column.values, { ...column, also: filter ? matches : null })
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
          style: `--c:${color(component.id)}`,
          "data-component": component.id,
        },
        make(
          "div",
          { class: "who" },
          make(
            "span",
            { class: "share" },
            `Pattern ${component.id + 1} · ${percent(component.share)} of ${page.run.unit ? `all ${page.run.unit}` : "everything"}`,
          ),
          make("h3", {}, component.headline),
          make("p", {}, prose(`${component.sentence}.`)),
        ),
        ...cells,
      );
    }),
  );
  const more = byId("more"),
    hidden = components.length - SHOWN_ROWS;
  more.hidden = hidden <= 0 || grid.classList.contains("all");
  more.textContent = `Show ${hidden} more`;
  more.onclick = () => {
    grid.classList.add("all");
    more.hidden = true;
  };
}

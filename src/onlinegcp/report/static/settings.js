// What made the run.

import { byId, make } from "./charts.js";
import { parseTime, sayTime } from "./clock.js";
import { MAIN, page } from "./state.js";

function facts(id, entries) {
  const told = Object.entries(entries)
    .map(([name, value]) => [name, plainly(value)])
    .filter(([, text]) => text !== "");
  byId(id).replaceChildren(
    ...(told.length ? told : [["–", "not recorded"]]).flatMap(([name, value]) => [
      make("dt", {}, name),
      make("dd", {}, value),
    ]),
  );
}

// Settings as people write them: lists with commas, groups with equals signs.
function plainly(value) {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value))
    return value.map((item) => (Array.isArray(item) ? item.join(" = ") : plainly(item))).join(", ");
  if (typeof value === "object")
    return Object.entries(value)
      .map(([name, item]) => `${name} ${plainly(item)}`)
      .join(", ");
  return String(value);
}

export function renderSettings() {
  const { run, model, steps } = page;
  const all = Object.entries({ method: run.method, ...run.parameters });
  const main = all
    .filter(([name]) => MAIN.includes(name))
    .sort((a, b) => MAIN.indexOf(a[0]) - MAIN.indexOf(b[0]));
  facts("parameters", Object.fromEntries(main.length > 1 ? main : all));
  facts(
    "further",
    Object.fromEntries(main.length > 1 ? all.filter(([name]) => !MAIN.includes(name)) : []),
  );
  byId("further").parentNode.hidden = main.length < 2 || main.length === all.length;
  facts("events", {
    ...run.events,
    modes: model.modes.map((mode) => `${mode.name} (${mode.length})`).join(", "),
  });
  const created = typeof run.created === "string" ? parseTime(run.created) : NaN;
  const started = Number.isNaN(created)
    ? run.created
    : `${sayTime({ t: run.created }, { interval: "" })}${/(Z|\+00:00)$/.test(run.created) ? " UTC" : ""}`;
  facts("environment", {
    onlinegcp: run.version,
    ...run.environment,
    started,
    slices: steps.count.toLocaleString("en-US"),
  });
  const box = byId("reproduce");
  const command = run.commands.join("\n");
  box.replaceChildren(
    make("h3", {}, command ? "The same run again" : "This run was started from Python"),
  );
  if (command) {
    box.append(
      make(
        "div",
        { class: "code" },
        make("code", {}, command),
        make(
          "button",
          {
            type: "button",
            onclick: async (event) => {
              await navigator.clipboard?.writeText(command);
              event.target.textContent = "Copied";
            },
          },
          "Copy",
        ),
      ),
    );
  }
  byId("footer").textContent =
    `Written by onlinegcp ${run.version ?? ""}. This page needs no network and sends nothing.`;
}

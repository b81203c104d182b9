/** The state of the service: whether it is ready, and its statistics. */

import { client } from "./client.js";
import { html } from "./html.js";
import { ApiError, messageOf } from "./requests.js";
import { state, update } from "./state.js";

const LOOK_SECONDS = 5;

/** The metrics that the page shows, and their names on it. */
const METRICS = [
  ["plantstore_changes_total", "Changes"],
  ["plantstore_refused_total", "Refused"],
  ["plantstore_queue_waiting", "Waiting"],
];

client.onoutage = ({ message }) => update({ health: { look: "away", text: message } });

/** Check the service repeatedly while the page is visible. @param {() => void} onready */
export async function watchHealth(onready) {
  for (;;) {
    try {
      await client.probe();
      forgetOutages();
      onready();
    } catch (error) {
      update({ health: { look: "away", text: messageOf(error) } });
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_SECONDS * 1000));
    await untilVisible();
  }
}

/** Wait while the tab is hidden. */
export async function untilVisible() {
  while (document.hidden) {
    const { promise, resolve } = Promise.withResolvers();
    document.addEventListener("visibilitychange", resolve, { once: true });
    await promise;
  }
}

/** Show that the service is ready, and no error any more whose cause was that it was not. */
function forgetOutages() {
  const { dialog, statistics, exportProblem } = state;
  if (dialog?.error?.isOutage) dialog.error = null;
  update({
    health: { look: "ready", text: "Ready" },
    statistics: { ...statistics, problem: keep(statistics.problem) },
    exportProblem: keep(exportProblem),
  });
}

/** @param {?import("./requests.js").ApiError} error */
function keep(error) {
  return error?.isOutage ? null : error;
}

export function Health() {
  const { look, text } = state.health;
  return html`<p id="health" role="status" class=${look}>${text}</p>`;
}

/** The statistics. They are loaded each time that they are opened. */
export function Statistics() {
  const { entries, problem } = state.statistics;
  return html`
    <details id="counts" ontoggle=${loadStatistics}>
      <summary>Statistics</summary>
      <p class="error" role="alert">${problem?.message}</p>
      <dl>${entries.map(([name, count]) => html`<dt>${name}</dt><dd>${count}</dd>`)}</dl>
    </details>
  `;
}

/** @param {Event & {currentTarget: HTMLDetailsElement}} event */
async function loadStatistics({ currentTarget }) {
  if (!currentTarget.open) return;
  try {
    update({ statistics: { entries: readMetrics(await client.readMetrics()), problem: null } });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    update({ statistics: { entries: [], problem: error } });
  }
}

/** Return the metrics that are shown: those that are not 0. @param {string} text */
function readMetrics(text) {
  const samples = [...text.matchAll(/^(\w+){\w+="([^"]+)"} (\S+)$/gm)];
  return METRICS.flatMap(([metric, name]) => {
    const shown = samples.filter(([, each, , value]) => each === metric && Number(value) !== 0);
    return shown.map(([, , label, value]) => [
      `${name}: ${label.replaceAll("_", " ")}`,
      Number(value).toLocaleString("en"),
    ]);
  });
}

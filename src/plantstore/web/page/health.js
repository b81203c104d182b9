/** The state of the service: whether it is ready, and its statistics. */

import { probe } from "./client.js";

const LOOK_SECONDS = 5;

/** The metrics that the page shows, and their names on it. */
const COUNTS = [
  ["plantstore_changes_total", "Changes"],
  ["plantstore_refused_total", "Refused"],
  ["plantstore_queue_waiting", "Waiting"],
];

const element = (id) => document.getElementById(id);

/** Check the service now, and repeatedly while the page is visible. */
export async function watchHealth() {
  const health = element("health");
  for (;;) {
    try {
      await probe();
      say(health, "ready", "Ready");
    } catch (error) {
      say(health, "away", error.message);
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_SECONDS * 1000));
    if (document.hidden) {
      await new Promise((resolve) =>
        document.addEventListener("visibilitychange", resolve, { once: true }),
      );
    }
  }
}

/** Show a text, and change it only if it differs: screen readers announce each change. */
function say(place, state, text) {
  place.className = state;
  if (place.textContent !== text) place.textContent = text;
}

/**
 * Load and show the statistics each time that they are opened.
 *
 * @param {import("./client.js").Client} client
 */
export function showCounts(client) {
  element("counts").open = false;
  element("counts").ontoggle = async ({ target }) => {
    if (!target.open) return;
    try {
      const metrics = await client.metrics();
      target.querySelector("dl").replaceChildren(...readCounts(metrics).flatMap(makeEntry));
      element("counts-error").textContent = "";
    } catch (error) {
      target.querySelector("dl").replaceChildren();
      element("counts-error").textContent = error.message;
    }
  };
}

/** Return names and values of the metrics that are shown: those that are not 0. */
function readCounts(metrics) {
  return COUNTS.flatMap(([metric, name]) =>
    [...metrics.matchAll(new RegExp(`^${metric}{\\w+="([^"]+)"} (\\S+)$`, "gm"))].map(
      ([, label, value]) => [`${name}: ${label.replaceAll("_", " ")}`, Number(value)],
    ),
  ).filter(([, value]) => value !== 0);
}

function makeEntry([name, value]) {
  const [term, description] = [document.createElement("dt"), document.createElement("dd")];
  term.textContent = name;
  description.textContent = value.toLocaleString("en");
  return [term, description];
}

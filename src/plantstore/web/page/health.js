/** The state of the service: whether it is ready, and its statistics. */

import { probe } from "./client.js";
import { element, within } from "./elements.js";
import { messageOf } from "./requests.js";

const LOOK_SECONDS = 5;

/** The metrics that the page shows, and their names on it. */
const COUNTS = [
  ["plantstore_changes_total", "Changes"],
  ["plantstore_refused_total", "Refused"],
  ["plantstore_queue_waiting", "Waiting"],
];

/**
 * Check the service now, and repeatedly while the page is visible.
 *
 * @param {() => void} onready is called each time that it is ready
 */
export async function watchHealth(onready) {
  const health = element("health");
  for (;;) {
    try {
      await probe();
      say(health, "ready", "Ready");
      onready();
    } catch (error) {
      say(health, "away", messageOf(error));
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_SECONDS * 1000));
    if (document.hidden) {
      await new Promise((resolve) =>
        document.addEventListener("visibilitychange", resolve, { once: true }),
      );
    }
  }
}

/**
 * Show a text, and change it only if it differs: screen readers announce each change.
 *
 * @param {HTMLElement} place
 * @param {string} state
 * @param {string} text
 */
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
  const counts = element("counts", HTMLDetailsElement);
  counts.open = false;
  counts.ontoggle = async () => {
    if (!counts.open) return;
    try {
      const metrics = await client.metrics();
      within(counts, "dl").replaceChildren(...readCounts(metrics).flatMap(makeEntry));
      element("counts-error").textContent = "";
    } catch (error) {
      within(counts, "dl").replaceChildren();
      element("counts-error").textContent = messageOf(error);
    }
  };
}

/**
 * Return names and values of the metrics that are shown: those that are not 0.
 *
 * @param {string} metrics
 * @returns {[string, number][]}
 */
function readCounts(metrics) {
  return COUNTS.flatMap(([metric, name]) =>
    [...metrics.matchAll(new RegExp(`^${metric}{\\w+="([^"]+)"} (\\S+)$`, "gm"))].map(
      /** @returns {[string, number]} */
      ([, label, value]) => [`${name}: ${label.replaceAll("_", " ")}`, Number(value)],
    ),
  ).filter(([, value]) => value !== 0);
}

/** @param {[string, number]} count */
function makeEntry([name, value]) {
  const [term, description] = [document.createElement("dt"), document.createElement("dd")];
  term.textContent = name;
  description.textContent = value.toLocaleString("en");
  return [term, description];
}

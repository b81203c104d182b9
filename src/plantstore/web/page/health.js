/** The state of the service: whether it takes plants, and what it counted. */

import { probe } from "./client.js";

const LOOK_SECONDS = 5;

/** What of the metrics is shown, and under which name. */
const COUNTS = [
  ["plantstore_changes_total", "Changes"],
  ["plantstore_refused_total", "Refused"],
  ["plantstore_queue_waiting", "Waiting"],
];

const element = (id) => document.getElementById(id);

/** Look at the service now, and again and again while the page is seen. */
export async function watchHealth() {
  const health = element("health");
  for (;;) {
    try {
      await probe();
      say(health, "ready", "Ready: plants are stored");
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

/** Say something once: a reader of the screen reads each change aloud. */
function say(place, state, text) {
  place.className = state;
  if (place.textContent !== text) place.textContent = text;
}

/**
 * Show what the service counted, each time that it is asked for.
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

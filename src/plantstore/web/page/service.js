/** The state of the service: whether it is ready. */

import { client } from "./client.js";
import { html } from "./html.js";
import { messageOf } from "./requests.js";
import { state, update } from "./state.js";

const LOOK_SECONDS = 5;

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
  const { dialog, exportProblem } = state;
  if (dialog?.error?.isOutage) dialog.error = null;
  update({
    health: { look: "ready", text: "Ready" },
    exportProblem: exportProblem?.isOutage ? null : exportProblem,
  });
}

export function Health() {
  const { look, text } = state.health;
  return html`<p id="health" role="status" class=${look}>${text}</p>`;
}

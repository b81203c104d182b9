/** Whether the service responds. */

import { client } from "./client.js";
import { forgetError } from "./dialogs.js";
import { html } from "./html.js";
import { messageOf } from "./requests.js";
import { state, update } from "./state.js";

const LOOK_SECONDS = 5;

client.onoutage = ({ message }) => update({ outage: message });

/**
 * Check the service repeatedly while the page is visible.
 *
 * @param {() => Promise<void>} onready is called when it is ready
 */
export async function watchService(onready) {
  try {
    if (!document.hidden) {
      await client.probe();
      if (state.outage) update({ outage: "" });
      forgetError(0);
      await onready();
    }
  } catch (error) {
    update({ outage: messageOf(error) });
  }
  setTimeout(watchService, LOOK_SECONDS * 1000, onready);
}

/** Says why the service cannot respond, as long as it cannot. */
export function Health() {
  return html`<p id="health" role="status">${state.outage}</p>`;
}

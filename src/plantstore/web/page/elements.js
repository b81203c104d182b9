/** Small elements of the page, texts, and the focus. */

import { html } from "./html.js";
import { state, update } from "./state.js";

/**
 * A text of a plant, in its own direction; or other words for an empty or a missing one.
 *
 * @param {{text: string|undefined, missing?: string}} props
 */
export function PlantText({ text, missing = "" }) {
  const shown = text || (text === undefined ? missing : "(empty)");
  return html`<bdi class=${text ? undefined : "empty"}>${shown}</bdi>`;
}

/** The feedback at the edge of the window, and a button that undoes what was done. */
export function Toast() {
  const { text, undo } = state.toast;
  const runUndo = () => {
    say("");
    undo?.();
  };
  return html`
    <div id="toast" role="status">
      <span id="said">${text}</span>
      ${undo && html`<button type="button" onclick=${runUndo}>Undo</button>`}
      <button id="dismiss" type="button" aria-label="Close this message" hidden=${text === ""}
        onclick=${() => say("")}>×</button>
    </div>
  `;
}

/** Show a text until the next one comes. @param {string} text @param {() => void} [undo] */
export function say(text, undo) {
  update({ toast: { text, undo } });
}

/** @param {number} number @param {boolean} [isExact] otherwise it is a lower bound */
export function countPlants(number, isExact = true) {
  const more = isExact ? "" : " or more";
  return `${number.toLocaleString("en")}${more} ${number === 1 ? "plant" : "plants"}`;
}

/** @param {import("./client.js").Plant[]} plants */
export function nameThem(plants) {
  return plants.length === 1 ? plants[0].id : countPlants(plants.length);
}

/** @param {string} selector of the element that gets the focus */
export function focus(selector) {
  /** @type {?HTMLElement} */ (document.querySelector(selector))?.focus();
}

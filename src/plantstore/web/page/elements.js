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

/** The feedback at the edge of the window, with the plant that it is about, and what can be done then. */
export function Toast() {
  const { text, plant, isGone, note, action } = state.toast;
  const name = plant && html`${plant.id} <bdi>${plant.name}</bdi>`;
  const link = plant && (isGone ? name : html`<a href="#/plants/${plant.id}">${name}</a>`);
  return html`
    <div id="toast" role="status">
      <span id="said">${text}${link && html`${" "}${link}`}${note && html`<br />${note}`}</span>
      ${action && html`<button type="button" onclick=${action[1]}>${action[0]}</button>`}
      <button id="dismiss" type="button" aria-label="Close this message" hidden=${text === ""}
        onclick=${() => say("")}>×</button>
    </div>
  `;
}

/** Show a text until the next one comes. @param {string} text @param {Partial<typeof state.toast>} [more] */
export function say(text, more) {
  update({ toast: { text, ...more } });
}

/** @param {number} many @param {boolean} [isExact] otherwise there are more */
export function countPlants(many, isExact = true) {
  return `${isExact ? "" : "more than "}${number(many)} ${many === 1 ? "plant" : "plants"}`;
}

/** @param {number} many */
export function number(many) {
  return many.toLocaleString("en");
}

/** Say how much of a request is sent, or that the service stores it. @param {number} sent @param {number} size */
export function describeSent(sent, size) {
  if (sent >= size) return "Everything is sent. The service is storing the plants…";
  const [unit, name] = size < 1e6 ? [1e3, "kB"] : [1e6, "MB"];
  const digits = { minimumFractionDigits: 1, maximumFractionDigits: 1 };
  const [part, all] = [sent, size].map((each) => (each / unit).toLocaleString("en", digits));
  return `${part} of ${all} ${name} sent`;
}

/** @param {string} selector of the element that gets the focus */
export function focus(selector) {
  /** @type {?HTMLElement} */ (document.querySelector(selector))?.focus();
}

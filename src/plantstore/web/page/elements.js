/** Small elements of the page, texts, and the focus. */

import { html, renew } from "./html.js";
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

/**
 * The first of many items, and how many more there are.
 *
 * @param {{items: any[], max: number, show: (item: any) => any}} props and the attributes of the list
 */
export function Listed({ items, max, show, ...attributes }) {
  const more = items.length - max;
  return html`
    <ul class="listed" tabindex="0" ...${attributes}>
      ${items.slice(0, max).map((item) => html`<li>${show(item)}</li>`)}
      ${more > 0 && html`<li>and ${number(more)} more</li>`}
    </ul>
  `;
}

/** The feedback at the edge of the window, with the plant that it is about, and what can be done then. */
export function Toast() {
  const { text, plant, isGone, note, action } = state.toast;
  const name = plant && html`${plant.id} <bdi>${plant.name}</bdi>`;
  const about = plant && (isGone ? name : html`<a href="#/plants/${plant.id}">${name}</a>`);
  return html`
    <div id="toast" role="status">
      <span id="said">${renew(text)}${about && html`${" "}${about}`}${note && html`<br />${renew(note)}`}</span>
      ${action && html`<button type="button" onclick=${action[1]}>${renew(action[0])}</button>`}
      <button id="dismiss" type="button" aria-label="Close this message" hidden=${text === ""}
        onclick=${() => say("")}>×</button>
    </div>
  `;
}

/** Show a text until the next one comes. @param {string} text @param {Partial<typeof state.toast>} [more] */
export function say(text, more) {
  update({ toast: { text, ...more } });
}

/** @param {number} many @param {boolean} [isExact] otherwise there may be more */
export function countPlants(many, isExact = true) {
  return `${number(many)}${isExact ? "" : "+"} ${many === 1 && isExact ? "plant" : "plants"}`;
}

/** Without this, texts that look the same may differ. @param {string} [text] */
export const clean = (text = "") => text.trim().normalize();

/** @param {number} many */
export function number(many) {
  return many.toLocaleString("en");
}

/** Return what acts after a pause, unless it is called again in this time. @param {number} seconds */
export function makePause(seconds) {
  let timer = 0;
  return (/** @type {(() => void)|undefined} */ act = undefined) => {
    clearTimeout(timer);
    if (act) timer = setTimeout(act, seconds * 1000);
  };
}

/** Whether text is edited in an element. @param {Element} target */
export function isTextField(target) {
  return target.closest("input:not([type=checkbox]), textarea:not(#pasted)") !== null;
}

/** A link to the file that was saved last, which is not shown. */
const link = document.createElement("a");

/** @param {string} name @param {Blob} content */
export function saveFile(name, content) {
  URL.revokeObjectURL(link.href);
  Object.assign(link, { href: URL.createObjectURL(content), download: name }).click();
}

/** @param {string} selector of the element that gets the focus */
export function focus(selector) {
  /** @type {?HTMLElement} */ (document.querySelector(selector))?.focus();
}

/** Close the menu or the list of tags that is open. */
export function closePopover() {
  /** @type {?HTMLElement} */ (document.querySelector(":popover-open"))?.hidePopover();
}

/** Return a new name. Browsers have `randomUUID` on HTTPS only. */
export function makeName() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Small elements of the page, texts, and the focus. */

import { describeJob, undoChange } from "./changes.js";
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

/**
 * The feedback at the edge of the window, with the plant that it is about, and a button that undoes
 * what was done; or how far an undo is.
 */
export function Toast() {
  const { job, dialog } = state;
  if (job && !dialog) {
    return html`
      <div id="toast" role="status">
        <span id="said">${describeJob(job).text}</span> <${Progress} job=${job} />
        <button type="button" onclick=${() => stop(job)}>Stop</button>
      </div>
    `;
  }
  const { text, plant, isGone, isOffer } = state.toast;
  const label = state.undos.at(-1)?.done ? "Continue" : "Undo";
  const name = plant && html`${plant.id} <bdi>${plant.name}</bdi>`;
  const link = plant && (isGone ? name : html`<a href="#/plants/${plant.id}">${name}</a>`);
  return html`
    <div id="toast" role="status">
      <span id="said">${text}${link && html`${" "}${link}`}</span>
      ${isOffer && html`<button type="button" onclick=${() => undoChange()}>${label}</button>`}
      <button id="dismiss" type="button" aria-label="Close this message" hidden=${text === ""}
        onclick=${() => say("")}>×</button>
    </div>
  `;
}

/** How far a job is. Screen readers read it on request. @param {{job: import("./changes.js").Job}} props */
export function Progress({ job }) {
  const { total, done, made } = job;
  const { text, progress } = describeJob(job);
  return html`
    <progress aria-label=${text} max=${total} value=${done + made.length} />
    <span class="count">${progress}</span>
  `;
}

/** Begin no further change of a job. @param {import("./changes.js").Job} job */
export function stop(job) {
  job.isStopped = true;
  update();
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

/** @param {string} selector of the element that gets the focus */
export function focus(selector) {
  /** @type {?HTMLElement} */ (document.querySelector(selector))?.focus();
}

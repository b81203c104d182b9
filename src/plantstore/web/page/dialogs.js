/** Dialogs: they show what goes wrong, and ask before typed text is lost. */

import { element, entitle, fill, within } from "./elements.js";
import { ApiError } from "./requests.js";

/**
 * @typedef {"done"|"failed"|"left"} Outcome of the last try to do what a dialog is for
 * @typedef {{title: string, text?: string, yes: string, no: string, danger?: boolean,
 *   versions?: [string, string|undefined, string|undefined][]}} Question with the names, their
 *   values and my values of what differs
 */

/** How long a request may take before the dialog says that it is waiting. */
const WAIT_SECONDS = 1;

const DISCARD = {
  title: "Discard what you typed?",
  text: "It is not stored yet.",
  yes: "Discard",
  no: "Keep typing",
  danger: true,
};

/**
 * Show a dialog until its action succeeds, or it is closed.
 *
 * @param {HTMLDialogElement} dialog
 * @param {(button: string, signal: AbortSignal) => Promise<?string|void>} submit the action, for
 *   the value of the button that was pressed. The dialog stays open if it returns a text, which is
 *   then shown, or throws an ApiError. Once the signal is aborted, the dialog may show something else.
 * @returns {Promise<Outcome>} the outcome of the last try, also if the dialog is
 *   closed before the try ends; "left" if there was none
 */
export async function run(dialog, submit) {
  const form = within(dialog, "form", HTMLFormElement);
  const closing = new AbortController();
  const { signal } = closing; // It ends our listeners before the dialog is used again.
  const { promise: closed, resolve } = Promise.withResolvers();
  /** @type {Outcome|Promise<Outcome>} */
  let outcome = "left";

  /** @param {string} button @returns {Promise<Outcome>} */
  async function attempt(button) {
    const wait = setTimeout(() => say("Waiting for the service…"), WAIT_SECONDS * 1000);
    form.ariaBusy = "true";
    showError(form, null);
    let said = "";
    try {
      const text = await submit(button, signal);
      if (typeof text === "string") said = text;
      else close();
      return typeof text === "string" ? "failed" : "done";
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (!signal.aborted) showError(form, error);
      return "failed";
    } finally {
      clearTimeout(wait);
      if (!signal.aborted) form.ariaBusy = "false";
      say(said);
    }
  }

  /** @param {string} text */
  function say(text) {
    if (!signal.aborted) within(form, "[role=status]").textContent = text;
  }

  function close() {
    if (signal.aborted) return;
    dialog.close();
    closing.abort();
    resolve(null);
  }

  async function leave() {
    const isTyped = [...form.querySelectorAll("input")].some(
      (input) => input.value !== input.defaultValue,
    );
    if (!isTyped || (await ask(DISCARD)) === "yes") close();
  }

  /** @param {SubmitEvent} event */
  const submitted = (event) => {
    event.preventDefault();
    const button = event.submitter?.getAttribute("value") ?? "";
    if (form.ariaBusy !== "true") outcome = attempt(button);
  };
  form.addEventListener("submit", submitted, { signal });
  within(form, "[value=cancel]").addEventListener("click", leave, { signal });
  onEscape(dialog, leave, signal);
  say("");
  showError(form, null);
  form.ariaBusy = "false";
  const title = document.title;
  entitle(within(form, "h2").textContent);
  dialog.showModal();
  await closed;
  document.title = title;
  return outcome;
}

/**
 * Ask a question.
 *
 * @param {Question} question
 * @returns {Promise<string>} "yes" or "no"; or "" if the question was left with Escape
 */
export async function ask({ title, text = "", yes, no, danger = false, versions = [] }) {
  const dialog = element("ask", HTMLDialogElement);
  dismiss(); // A dialog asks one question at a time.
  const closing = new AbortController();
  const { promise, resolve } = Promise.withResolvers();
  /** @param {string} answer */
  const settle = (answer) => {
    dialog.close();
    closing.abort();
    resolve(answer);
  };
  dismiss = () => settle("");
  element("ask-title").textContent = title;
  element("ask-text").textContent = text;
  element("versions").hidden = versions.length === 0;
  within(dialog, "tbody").replaceChildren(...versions.map(makeVersion));
  for (const [value, label] of Object.entries({ no, yes })) {
    const button = within(dialog, `[value=${value}]`);
    button.textContent = label;
    button.onclick = () => settle(value);
  }
  within(dialog, "[value=yes]").className = danger ? "danger" : "primary";
  onEscape(dialog, dismiss, closing.signal);
  dialog.showModal();
  return promise;
}

/** Close the open question. */
let dismiss = () => {};

/** @param {[string, string|undefined, string|undefined]} version */
function makeVersion([name, theirs, mine]) {
  const row = document.createElement("tr");
  const head = document.createElement("th");
  head.scope = "row";
  head.textContent = name;
  const cells = [theirs, mine].map((value) => {
    const [cell, text] = [document.createElement("td"), document.createElement("bdi")];
    fill(text, value, "(none)");
    cell.append(text);
    return cell;
  });
  row.classList.toggle("differs", theirs !== mine);
  row.append(head, ...cells);
  return row;
}

/**
 * Call a function when a dialog is to be closed with Escape, or with the gesture of a phone. The
 * key is handled here, because a browser may close a dialog at the second Escape without asking.
 *
 * @param {HTMLDialogElement} dialog
 * @param {() => void} leave
 * @param {AbortSignal} signal ends it
 */
function onEscape(dialog, leave, signal) {
  /** @param {Event} event */
  const listen = (event) => {
    if (event instanceof KeyboardEvent && (event.key !== "Escape" || event.isComposing)) return;
    if (event.target !== dialog && event.type === "cancel") return;
    event.preventDefault();
    leave();
  };
  dialog.addEventListener("keydown", listen, { signal });
  dialog.addEventListener("cancel", listen, { signal });
}

/**
 * Show an error at its field, or at the end of the form.
 *
 * @param {HTMLFormElement} form
 * @param {?ApiError} error
 */
function showError(form, error) {
  const inputs = [...form.querySelectorAll("input")];
  const about = inputs.find((input) => input.name === error?.member);
  const member = about?.name ?? "";
  /** @type {NodeListOf<HTMLElement>} */
  const places = form.querySelectorAll("[data-of]");
  for (const place of places) {
    place.textContent = error && place.dataset.of === member ? error.message : "";
  }
  for (const input of inputs) input.ariaInvalid = String(input === about);
  about?.focus();
}

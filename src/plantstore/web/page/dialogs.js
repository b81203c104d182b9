/**
 * Dialogs: they show what goes wrong, and ask before typed text is lost.
 *
 * @typedef {(typed: Partial<Record<string, string>>, button: HTMLButtonElement) =>
 *   Promise<string|void>} Act is called with what was typed into the fields, by their names. The
 *   dialog stays open if it returns a text, which is then shown, or throws an ApiError.
 * @typedef {{View: (content: any) => any, title: string, content: object, act: Act,
 *   isBusy?: boolean, isTouched?: boolean, isDisposable?: boolean, error?: ?ApiError, said?: string,
 *   takesFiles?: boolean, goesOn?: string, back?: string, stop?: () => void, retry?: () => void}} Dialog
 *   gives way to the import of a file or of rows if it `takesFiles`, and can be used while the button
 *   `goesOn` acts; after it, the element `back` gets the focus, or else the one that had it before; it
 *   has `stop` while what it does can be stopped, and `retry` is called if the reason of its error is
 *   gone
 * @typedef {{title: string, text: string, yes: string, no: string, look?: string,
 *   columns?: string[], versions?: Version[], answer?: (answer: string) => void}} Question
 * @typedef {[name: string, left: ?string|undefined, right: ?string|undefined]} Version of a field of
 *   a plant; null if there is no plant, undefined if the plant lacks the field
 */

import { clean, focus, Listed, PlantText } from "./elements.js";
import { html, renew } from "./html.js";
import { loadAgain } from "./listing.js";
import { ApiError } from "./requests.js";
import { change, state, update } from "./state.js";

/** How long a request may take before the dialog says that it is waiting. */
const WAIT_SECONDS = 1;

/** How many fields a question shows. */
const VERSIONS_MAX = 50;

export const DISCARD = {
  title: "Discard what you entered?",
  text: "It is not saved yet.",
  yes: "Discard",
  no: "Keep editing",
  look: "danger",
};

/**
 * A modal dialog. It is open as long as it is rendered. It handles the Escape key, because a
 * browser may close a dialog at the second Escape without asking. On a phone, a gesture cancels it.
 *
 * @param {{leave: () => void, children: any}} props and the attributes of the dialog
 */
export function Modal({ leave, children, ...attributes }) {
  const listen = (/** @type {Event} */ event) => {
    if (event instanceof KeyboardEvent && (event.key !== "Escape" || event.isComposing)) return;
    event.preventDefault();
    leave();
  };
  return html`
    <dialog ref=${showModal} onkeydown=${listen} oncancel=${listen} ...${attributes}>
      ${children}
    </dialog>
  `;
}

/** @param {HTMLDialogElement} dialog */
function showModal(dialog) {
  dialog.showModal();
  return () => dialog.close(); // The focus returns to where it was.
}

/** Open a dialog. It is a step in the history of the tab: Back closes it. @param {Dialog} dialog */
export function open(dialog) {
  if (!isAddressed()) enterAddress();
  update({ dialog });
}

/** Go to the address of a dialog, instead of that of another one. @param {string} [link] */
export function enterAddress(link) {
  if (isAddressed()) history.replaceState(history.state, "", link);
  else history.pushState({ ...history.state, isDialog: true }, "", link);
}

/** Whether the address is that of a dialog. */
function isAddressed() {
  return history.state?.isDialog || location.hash !== "";
}

/** Leave the address of the dialog that was open. */
export function leaveAddress() {
  if (history.state?.isDialog) history.back();
  else history.replaceState(history.state, "", location.pathname + location.search);
}

/** @param {Dialog} dialog */
function close(dialog) {
  if (state.dialog !== dialog) return; // It was closed before its action ended.
  update({ dialog: null });
  if (dialog.back) focus(dialog.back);
  if (isAddressed()) leaveAddress();
}

/** Close the dialog that is open, or stop what it does, after a question if text would be lost. */
async function leave() {
  const dialog = /** @type {Dialog} */ (state.dialog);
  if (dialog.stop) dialog.stop();
  else if (!isTyped() || (await ask(DISCARD)) === "yes") close(dialog);
}

/** Close the dialog of an address that the user has left; or return to it. */
export async function followHistory() {
  const { dialog } = state;
  if (!dialog || isAddressed()) return;
  await leave();
  if (state.dialog === dialog) history.forward();
}

/** Whether nobody wants to lose what was typed or chosen in the dialog that is open, or what it does. */
export function isTyped() {
  if (state.dialog?.stop) return true;
  if (state.dialog?.isDisposable) return false;
  return state.dialog?.isTouched || Object.keys(readTyped()).length > 0;
}

/** Return what was typed into the fields of the form that is open, by their names. */
export function readTyped(
  edit = (/** @type {string} */ text) => clean(text).replace(/[\r\n]+/g, " "),
) {
  /** @type {NodeListOf<HTMLInputElement>} */
  const fields = document.querySelectorAll("form[aria-busy] :is(input[name], textarea)");
  const typed = [...fields].filter(({ type, checked, defaultChecked, value, defaultValue }) =>
    type === "radio" ? checked && !defaultChecked : value !== defaultValue,
  );
  // Blanks at the ends, and lines of a text that is pasted, would make another name or tag.
  return Object.fromEntries(typed.map(({ name, value }) => [name, edit(value)]));
}

/** Empty the form that is open, and fill in texts by the names of their fields. @param {object} [typed] */
export function refill(typed = {}) {
  /** @type {?HTMLFormElement} */
  const form = document.querySelector("form[aria-busy]");
  form?.reset();
  for (const [name, text] of Object.entries(typed)) {
    const field = /** @type {?HTMLInputElement} */ (form?.elements.namedItem(name));
    if (field) field.value = text;
  }
}

/**
 * Do something that the dialog which is open can stop; return whether it was not stopped.
 *
 * @param {(signal: AbortSignal) => Promise<void>} act
 */
export async function actUntilStopped(act) {
  const { dialog } = state;
  const stop = new AbortController();
  change(dialog, { stop: () => stop.abort() });
  try {
    await act(stop.signal);
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  } finally {
    change(dialog, { stop: undefined });
  }
  return !stop.signal.aborted;
}

/** Show an error of this status no more: its reason is gone. @param {number} status */
export function forgetError(status) {
  const { dialog } = state;
  if (dialog?.error?.status !== status) return;
  change(dialog, { error: null });
  dialog.retry?.();
}

/** @param {Dialog} dialog @param {HTMLButtonElement} button */
async function attempt(dialog, button) {
  const wait = () =>
    dialog.said || state.question || change(dialog, { said: "Waiting for the service…" });
  const timer = setTimeout(wait, WAIT_SECONDS * 1000);
  const isBlocking = button.value !== dialog.goesOn;
  change(dialog, { ...(isBlocking && { isBusy: true }), error: null, said: "" });
  let said = "";
  try {
    const text = await dialog.act(readTyped(), button);
    if (text === undefined) close(dialog);
    else said = text;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    change(dialog, { error });
    focus("dialog [aria-invalid=true]");
  } finally {
    clearTimeout(timer);
    change(dialog, { ...(isBlocking && { isBusy: false }), said });
  }
  if (!state.signIn) loadAgain();
}

/**
 * The dialog that is open: title, form, errors and buttons. The fields show the errors about them.
 *
 * @param {{id: string, fields?: string[], cancel?: string, buttons: Button[], more?: any,
 *   children: any}} props the names of the fields, the label of the button that closes the dialog,
 *   and what follows the buttons; the attributes
 * @typedef {[value: string, label: any, look?: string]} Button
 */
export function Frame({
  id,
  fields = [],
  cancel = "Cancel",
  buttons,
  more,
  children,
  ...attributes
}) {
  const dialog = /** @type {Dialog} */ (state.dialog);
  const { title, error, isBusy = false, said, stop } = dialog;
  const isOfField = error && fields.includes(error.member);
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    if (!dialog.isBusy) attempt(dialog, /** @type {HTMLButtonElement} */ (event.submitter));
  };
  // An error is gone when its field is edited, or any field if it is of none.
  const forget = (/** @type {Event} */ { target }) => {
    const { name } = /** @type {HTMLInputElement} */ (target);
    if (!error || (error.member && error.member !== name)) return;
    change(dialog, { error: null });
  };
  const makeButton = (/** @type {Button} */ [value, label, look]) =>
    html`<li><button class=${look} value=${value}>${label}</button></li>`;
  return html`
    <${Modal} id=${id} aria-labelledby="${id}-title" leave=${leave} ...${attributes}>
      <form autocomplete="off" aria-busy=${isBusy} onsubmit=${submit} oninput=${forget}>
        <h2 id="${id}-title" tabindex="-1">${renew(title)}</h2>
        ${children}
        <p class="error" role="alert">${isOfField ? "" : error?.message}</p>
        <p class="hint" role="status">${said}</p>
        <menu>
          <li>
            <button type="button" autofocus=${fields.length === 0} onclick=${leave}>
              ${renew(stop ? "Stop" : cancel)}
            </button>
          </li>
          ${!stop && [buttons.map(makeButton), more]}
        </menu>
      </form>
    <//>
  `;
}

/**
 * A field of the dialog that is open. Its value is what it has until something else is typed. One
 * that grows has a line more for a long value.
 *
 * @param {{id: string, name: string, label: any, value?: string, hint?: string, grows?: boolean}} props
 */
export function Field({ id, name, label, value = "", hint = "", grows = false, ...attributes }) {
  const error = state.dialog?.error;
  const message = error?.member === name ? (error.shown ?? error.message) : "";
  return html`
    <label for=${id}>${label}</label>
    <${grows ? "textarea" : "input"} id=${id} name=${name} rows="1" defaultValue=${value.replace(/[\r\n]/g, "")} spellcheck=${false}
      aria-invalid=${message !== ""} aria-describedby="${id}-hint ${id}-error"
      onkeydown=${submitByEnter} ...${attributes} />
    <p id="${id}-hint" class="hint" hidden=${!hint}>${hint}</p>
    <p id="${id}-error" class="error" role="alert">${message}</p>
  `;
}

/**
 * A choice of one option.
 *
 * @param {{name: string, options: any[][], chosen?: string, pick?: (value: string) => void}} props at
 *   first, the first one is chosen
 */
export function Choice({ name, options, chosen = options[0][0], pick }) {
  const change = (/** @type {On<HTMLInputElement>} */ event) => pick?.(event.currentTarget.value);
  return options.map(
    ([value, label]) => html`
      <label class="choice">
        <input type="radio" name=${name} value=${value} required
          defaultChecked=${value === chosen} onchange=${change} />
        ${" "}${label}
      </label>
    `,
  );
}

/** Press the main button at Enter. @param {On<HTMLInputElement, KeyboardEvent>} event */
function submitByEnter(event) {
  if (event.key !== "Enter" || event.isComposing) return;
  event.preventDefault();
  const button = event.currentTarget.form?.querySelector(".primary, .danger");
  if (button instanceof HTMLElement) button.click();
}

/**
 * Ask a question, also above another dialog. The answer is "yes" or "no", or "" after Escape.
 *
 * @param {Question} question
 * @returns {Promise<string>}
 */
export function ask(question) {
  state.question?.answer?.(""); // There is one question at a time.
  return new Promise((resolve) => {
    const answer = (/** @type {string} */ text) => {
      update({ question: null });
      resolve(text);
    };
    update({ question: { ...question, answer } });
  });
}

/** @param {Required<Question>} question */
export function QuestionView({ title, text, yes, no, look = "primary", answer, ...question }) {
  return html`
    <${Modal} id="ask" aria-labelledby="ask-title" aria-describedby="ask-text"
        leave=${() => answer("")}>
      <h2 id="ask-title">${title}</h2>
      <p id="ask-text">${renew(text)}</p>
      ${question.versions && html`<${Versions} ...${question} />`}
      <menu>
        <li><button type="button" autofocus onclick=${() => answer("no")}>${no}</button></li>
        <li><button type="button" class=${look} onclick=${() => answer("yes")}>${yes}</button></li>
      </menu>
    <//>
  `;
}

/** @param {{versions: Version[], columns: string[]}} props */
function Versions({ versions, columns }) {
  const show = (/** @type {Version} */ [name, ...texts]) => html`
    <strong><bdi>${name}</bdi></strong>
    ${texts.map((text, at) => {
      const missing = text === null ? "(deleted)" : "(none)";
      return html`<p>${columns[at]}: <${PlantText} text=${text ?? undefined} missing=${missing} /></p>`;
    })}
  `;
  return html`
    <${Listed} id="versions" aria-label="Versions" items=${versions} max=${VERSIONS_MAX} show=${show} />
  `;
}

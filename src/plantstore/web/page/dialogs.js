/** The dialogs: add or change a plant, and confirm that one is deleted. */

import { element, within } from "./elements.js";
import { ApiError } from "./requests.js";

/**
 * @typedef {import("./client.js").Plant} Plant
 * @typedef {"done"|"failed"|"left"} Outcome of the last try to do what a dialog is for
 */

/** How long a request may take before the dialog says that it is waiting. */
const WAIT_SECONDS = 1;

/**
 * Show a dialog until its action succeeds, or it is closed.
 *
 * @param {HTMLDialogElement} dialog
 * @param {() => Promise<void>} submit the action; if it throws ApiError, the dialog shows it
 * @returns {Promise<Outcome>} the outcome of the last try, also if the dialog is
 *   closed before the try ends; "left" if there was none
 */
async function run(dialog, submit) {
  const form = within(dialog, "form", HTMLFormElement);
  const closing = new AbortController();
  const { signal } = closing; // It ends our listeners before the dialog is used again.
  /** @type {Outcome|Promise<Outcome>} */
  let outcome = "left";

  /** @returns {Promise<Outcome>} */
  async function attempt() {
    const wait = setTimeout(() => say("Waiting for the service…"), WAIT_SECONDS * 1000);
    form.ariaBusy = "true";
    try {
      await submit();
      if (!signal.aborted) dialog.close();
      return "done";
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (!signal.aborted) showError(form, error);
      return "failed";
    } finally {
      clearTimeout(wait);
      if (!signal.aborted) form.ariaBusy = "false";
      if (!signal.aborted) say("");
    }
  }

  /** @param {string} text */
  function say(text) {
    if (!signal.aborted) within(form, "[role=status]").textContent = text;
  }

  /** @param {SubmitEvent} event */
  const submitted = (event) => {
    event.preventDefault();
    if (form.ariaBusy !== "true") outcome = attempt();
  };
  form.addEventListener("submit", submitted, { signal });
  within(form, "[value=cancel]").addEventListener("click", () => dialog.close(), { signal });
  say("");
  showError(form, null);
  form.ariaBusy = "false";
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  closing.abort();
  return outcome;
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

/**
 * Show the form of a plant and store the plant.
 *
 * A field that is not edited keeps its value, even if an input cannot hold the value: a line break
 * in a name, or an empty tag.
 *
 * @param {Plant|undefined} plant the one to change, or undefined to add one
 * @param {(plant: Plant) => Promise<void>} store
 * @returns {Promise<Outcome>}
 */
export async function editPlant(plant, store) {
  const dialog = element("plant", HTMLDialogElement);
  const id = within(dialog, "[name=id]", HTMLInputElement);
  const name = within(dialog, "[name=name]", HTMLInputElement);
  const readId = fill(id, plant?.id ?? "");
  const readName = fill(name, plant?.name ?? "");
  const readTag = fill(within(dialog, "[name=tag]", HTMLInputElement), plant?.tag);
  id.readOnly = plant !== undefined;
  element("plant-id-hint").hidden = plant !== undefined;
  element("plant-title").textContent = plant ? "Change a plant" : "Add a plant";
  const done = run(dialog, () => {
    const tag = readTag();
    const untagged = tag === "" && plant?.tag !== "";
    return store({ id: readId().trim(), name: readName(), tag: untagged ? undefined : tag });
  });
  (plant ? name : id).focus();
  return done;
}

/**
 * Show a value in a field; return a function that reads the field. An unchanged value stays as it
 * was.
 *
 * @template {string|undefined} T
 * @param {HTMLInputElement} field
 * @param {T} was
 * @returns {() => T|string}
 */
function fill(field, was) {
  field.value = was ?? "";
  const shown = field.value;
  return () => (field.value === shown ? was : field.value);
}

/**
 * Delete a plant, after a confirmation.
 *
 * @param {Plant} plant
 * @param {() => Promise<void>} remove
 * @returns {Promise<Outcome>}
 */
export function deletePlant(plant, remove) {
  element("question-plant").textContent = `${plant.id}: ${plant.name}`;
  return run(element("question", HTMLDialogElement), remove);
}

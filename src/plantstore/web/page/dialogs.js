/** The dialogs: add or change a plant, and confirm that one is deleted. */

import { ApiError } from "./client.js";

/** @typedef {import("./client.js").Plant} Plant */

/** How long a request may take before the dialog says that it is waiting. */
const WAIT_SECONDS = 1;

/**
 * Show a dialog until its action succeeds, or it is closed.
 *
 * @param {HTMLDialogElement} dialog
 * @param {() => Promise<void>} submit the action; if it throws ApiError, the dialog shows it
 * @returns {Promise<"done"|"failed"|"left">} the outcome of the last try, also if the dialog is
 *   closed before the try ends; "left" if there was none
 */
async function run(dialog, submit) {
  const form = dialog.querySelector("form");
  const closing = new AbortController();
  const { signal } = closing; // It ends our listeners before the dialog is used again.
  let outcome = "left";

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

  function say(text) {
    if (!signal.aborted) form.querySelector("[role=status]").textContent = text;
  }

  const submitted = (event) => {
    event.preventDefault();
    if (form.ariaBusy !== "true") outcome = attempt();
  };
  form.addEventListener("submit", submitted, { signal });
  form.querySelector("[value=cancel]").addEventListener("click", () => dialog.close(), { signal });
  say("");
  showError(form, null);
  form.ariaBusy = "false";
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  closing.abort();
  return outcome;
}

/** Show an error at its field, or at the end of the form. */
function showError(form, error) {
  const member = error && form.elements[error.member] ? error.member : "";
  for (const place of form.querySelectorAll("[data-of]")) {
    place.textContent = error && place.dataset.of === member ? error.message : "";
  }
  for (const input of form.querySelectorAll("input")) {
    input.ariaInvalid = String(Boolean(error) && input.name === member);
  }
  if (member) form.elements[member].focus();
}

/**
 * Show the form of a plant and store the plant.
 *
 * A field that is not edited keeps its value, also where an input cannot hold it: a line break in
 * a name, or an empty tag.
 *
 * @param {?Plant} plant the one to change, or null to add one
 * @param {(plant: Plant) => Promise<void>} store
 * @returns {Promise<"done"|"failed"|"left">}
 */
export async function editPlant(plant, store) {
  const dialog = document.getElementById("plant");
  const fields = dialog.querySelector("form").elements;
  const was = plant ?? { id: "", name: "", tag: undefined };
  const shown = {};
  for (const member of ["id", "name", "tag"]) {
    fields[member].value = was[member] ?? "";
    shown[member] = fields[member].value;
  }
  fields.id.readOnly = plant !== null;
  document.getElementById("plant-id-hint").hidden = plant !== null;
  document.getElementById("plant-title").textContent = plant ? "Change a plant" : "Add a plant";
  const read = (member) =>
    fields[member].value === shown[member] ? was[member] : fields[member].value;
  const done = run(dialog, () => {
    const tag = read("tag");
    const untagged = tag === "" && was.tag !== "";
    return store({ id: read("id").trim(), name: read("name"), tag: untagged ? undefined : tag });
  });
  fields[plant ? "name" : "id"].focus();
  return done;
}

/**
 * Delete a plant, after a confirmation.
 *
 * @param {Plant} plant
 * @param {() => Promise<void>} remove
 * @returns {Promise<"done"|"failed"|"left">}
 */
export function deletePlant(plant, remove) {
  document.getElementById("question-plant").textContent = `${plant.id}: ${plant.name}`;
  return run(document.getElementById("question"), remove);
}

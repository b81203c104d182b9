/** The dialogs: a plant to add or to change, and the question before one is deleted. */

import { ApiError } from "./client.js";

/** @typedef {import("./client.js").Plant} Plant */

/**
 * Show a dialog until what is asked of it is done, or it is left.
 *
 * @param {HTMLDialogElement} dialog
 * @param {() => Promise<void>} submit does it, or throws ApiError, which is shown
 * @returns {Promise<boolean>} whether it is done
 */
function run(dialog, submit) {
  const form = dialog.querySelector("form");
  let isBusy = false;
  showError(form, null);
  form.onsubmit = async (event) => {
    event.preventDefault();
    if (isBusy) return;
    isBusy = true;
    try {
      await submit();
      dialog.close("done");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      showError(form, error);
    } finally {
      isBusy = false;
    }
  };
  // What is on its way is waited for: nobody would hear of it otherwise.
  dialog.oncancel = (event) => {
    if (isBusy) event.preventDefault();
  };
  form.querySelector("[value=cancel]").onclick = () => {
    if (!isBusy) dialog.close("");
  };
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => resolve(dialog.returnValue === "done");
  });
}

/** Show an error at the member that it is about, or at the end. */
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
 * Ask for a plant and store it.
 *
 * What is not touched stays as it is, a line's end in a name and an empty tag too, which the
 * fields of a form cannot hold or tell from none.
 *
 * @param {?Plant} plant the one to change, or null to add one
 * @param {(plant: Plant) => Promise<void>} store
 * @returns {Promise<?Plant>} the plant that was stored
 */
export async function editPlant(plant, store) {
  const dialog = document.getElementById("plant");
  const form = dialog.querySelector("form");
  const was = plant ?? { id: "", name: "", tag: undefined };
  const shown = {};
  for (const member of ["id", "name", "tag"]) {
    form.elements[member].value = was[member] ?? "";
    shown[member] = form.elements[member].value;
  }
  form.elements.id.readOnly = plant !== null;
  document.getElementById("plant-id-hint").hidden = plant !== null;
  document.getElementById("plant-title").textContent = plant ? "Change a plant" : "Add a plant";
  let stored = null;
  const read = (member) =>
    form.elements[member].value === shown[member] ? was[member] : form.elements[member].value;
  const done = run(dialog, async () => {
    stored = { id: read("id").trim(), name: read("name"), tag: read("tag") };
    if (stored.tag === "" && was.tag !== "") stored.tag = undefined;
    await store(stored);
  });
  form.elements[plant ? "name" : "id"].focus();
  return (await done) ? stored : null;
}

/**
 * Delete a plant, after a question.
 *
 * @param {Plant} plant
 * @param {(id: string) => Promise<void>} remove
 * @returns {Promise<boolean>} whether it is deleted
 */
export function deletePlant(plant, remove) {
  document.getElementById("question-plant").textContent = `${plant.id}: ${plant.name}`;
  return run(document.getElementById("question"), () => remove(plant.id));
}

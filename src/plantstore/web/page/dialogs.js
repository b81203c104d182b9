/** The dialogs: a plant to add or to change, and the question before one is deleted. */

import { ApiError } from "./client.js";

/** @typedef {import("./client.js").Plant} Plant */

/** After so long it is said that something is on its way. */
const WAIT_SECONDS = 1;

/**
 * Show a dialog until what is asked of it is done, or it is left.
 *
 * @param {HTMLDialogElement} dialog
 * @param {() => Promise<void>} submit does it, or throws ApiError, which is shown
 * @returns {Promise<"done"|"failed"|"left">} what became of the last try; one that is on its way
 *   when the dialog is left is waited for
 */
async function run(dialog, submit) {
  const form = dialog.querySelector("form");
  const closing = new AbortController();
  const { signal } = closing; // The next showing of this dialog is none of ours.
  let outcome = "left";

  async function attempt() {
    const wait = setTimeout(() => say("On its way…"), WAIT_SECONDS * 1000);
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
 * Delete a plant, after a question.
 *
 * @param {Plant} plant
 * @param {() => Promise<void>} remove
 * @returns {Promise<"done"|"failed"|"left">}
 */
export function deletePlant(plant, remove) {
  document.getElementById("question-plant").textContent = `${plant.id}: ${plant.name}`;
  return run(document.getElementById("question"), remove);
}

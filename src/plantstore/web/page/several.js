/** What is done with one plant or several: delete them, undo that, and set their tag. */

import { run } from "./dialogs.js";
import { countPlants, element, within } from "./elements.js";
import { ApiError } from "./requests.js";

/**
 * @typedef {import("./client.js").Plant} Plant
 * @typedef {import("./client.js").Client} Client
 */

/** The status of a change whose `If-Match` does not hold. */
const PRECONDITION_FAILED = 412;

/** How many plants a question names. */
const NAMED_MAX = 5;

/**
 * Delete plants, after a confirmation. A plant that somebody else has changed is shown again first.
 *
 * @param {Client} client
 * @param {Plant[]} plants
 * @returns {Promise<Plant[]>} those that were deleted
 */
export async function deletePlants(client, plants) {
  /** @type {Plant[]} */
  const deleted = [];
  let left = plants;

  /** @param {Plant} plant @returns {Promise<void>} */
  async function remove(plant) {
    const { plant: present, etag } = await client.read(plant.id);
    if (present.name !== plant.name || present.tag !== plant.tag) {
      left = left.map((each) => (each === plant ? present : each));
      throw new ApiError(0, 0, "Somebody else has changed what you want to delete. Look again");
    }
    try {
      await client.delete(plant.id, etag);
    } catch (error) {
      const isChanged = error instanceof ApiError && error.status === PRECONDITION_FAILED;
      if (isChanged) return await remove(plant);
      throw error;
    }
    deleted.push(plant);
    left = left.filter((each) => each !== plant);
  }

  describe(left);
  await run(element("question", HTMLDialogElement), async (_, signal) => {
    try {
      await forEach(left, remove);
    } finally {
      if (left.length > 0 && !signal.aborted) describe(left);
    }
  });
  return deleted;
}

/** @param {Plant[]} plants that are to be deleted */
function describe(plants) {
  const one = plants.length === 1;
  const title = one ? "Delete this plant?" : `Delete ${countPlants(plants.length)}?`;
  element("question-title").textContent = title;
  const lines = plants.slice(0, NAMED_MAX).map(({ id, name }) => {
    const line = document.createElement("bdi");
    line.textContent = `${id}: ${name}`;
    return line;
  });
  const more = plants.length - lines.length;
  element("question-plant").replaceChildren(...lines, more > 0 ? `and ${more} more` : "");
}

/**
 * Store plants again that were deleted.
 *
 * @param {Client} client
 * @param {Plant[]} plants
 */
export async function restorePlants(client, plants) {
  await forEach(plants, (plant) => client.create(plant));
}

/**
 * Ask for a tag, and set it at each of the plants.
 *
 * @param {Client} client
 * @param {Plant[]} plants
 */
export function tagPlants(client, plants) {
  const dialog = element("tagging", HTMLDialogElement);
  const field = within(dialog, "input", HTMLInputElement);
  element("tagging-title").textContent = `Set the tag of ${countPlants(plants.length)}`;
  field.value = "";
  return run(dialog, () => forEach(plants, ({ id }) => client.setTag(id, field.value || null)));
}

/**
 * Do something with each plant, also if it fails for one of them.
 *
 * @param {Plant[]} plants
 * @param {(plant: Plant) => Promise<void>} work
 * @throws {ApiError} the first one
 */
async function forEach(plants, work) {
  const results = await Promise.allSettled(plants.map(work));
  const failed = results.filter((result) => result.status === "rejected");
  if (failed.length > 0) throw failed[0].reason;
}

/** @param {Plant[]} plants */
export function nameThem(plants) {
  return plants.length === 1 ? plants[0].id : countPlants(plants.length);
}

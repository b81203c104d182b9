/** What is done with one plant or several: delete them, undo that, and set their tag. */

import { client } from "./client.js";
import { Field, Frame } from "./dialogs.js";
import { countPlants, nameThem, say } from "./elements.js";
import { html } from "./html.js";
import { load } from "./listing.js";
import { ApiError, hasStatus, messageOf, PRECONDITION_FAILED } from "./requests.js";
import { may, update } from "./state.js";

/** @typedef {import("./client.js").Plant} Plant */

const CHANGED = "Somebody else has changed what you want to delete. Look again";

/** How many plants a question names. */
const NAMED_MAX = 5;

/** @param {{plants: Plant[]}} props */
function DeleteView({ plants }) {
  const named = plants.slice(0, NAMED_MAX).map(({ id, name }) => html`<bdi>${id}: ${name}</bdi>`);
  const more = plants.length - named.length;
  return html`
    <${Frame} id="question" aria-describedby="question-plant"
        buttons=${[["delete", "Delete", "danger"]]}>
      <p id="question-plant">${named}${more > 0 && `and ${more} more`}</p>
    <//>
  `;
}

/** Delete plants, after a confirmation, and offer to undo it. @param {Plant[]} plants */
export function deletePlants(plants) {
  /** @type {Plant[]} */
  const deleted = [];
  let left = plants;
  const title = () =>
    left.length === 1 ? "Delete this plant?" : `Delete ${countPlants(left.length)}?`;
  const act = async () => {
    try {
      await forEach(left, async (plant) => {
        const present = await deletePlant(plant);
        left = left.flatMap((each) => (each !== plant ? each : (present ?? [])));
        if (present) throw new ApiError(CHANGED);
        deleted.push(plant);
      });
    } finally {
      const undo = may("plants:create") ? () => restorePlants(deleted) : undefined;
      if (deleted.length > 0) say(`Deleted: ${nameThem(deleted)}`, undo);
      if (left.length > 0) Object.assign(dialog, { title: title(), content: { plants: left } });
    }
  };
  const dialog = { View: DeleteView, title: title(), content: { plants }, act };
  update({ dialog });
}

/**
 * Delete a plant; or return the present one if somebody else has changed it.
 *
 * @param {Plant} plant
 * @returns {Promise<?Plant>}
 */
async function deletePlant(plant) {
  const { plant: present, etag } = await client.read(plant.id);
  if (present.name !== plant.name || present.tag !== plant.tag) return present;
  try {
    await client.delete(plant.id, etag);
    return null;
  } catch (error) {
    if (!hasStatus(error, PRECONDITION_FAILED)) throw error;
    return await deletePlant(plant);
  }
}

/** Store plants again that were deleted. @param {Plant[]} plants */
async function restorePlants(plants) {
  try {
    await forEach(plants, (plant) => client.create(plant));
    say(`Stored again: ${nameThem(plants)}`);
  } catch (error) {
    say(messageOf(error), () => restorePlants(plants));
  }
  load();
}

function TagView() {
  return html`
    <${Frame} id="tagging" fields=${["tag"]} buttons=${[["store", "Set tag", "primary"]]}>
      <${Field} id="tagging-tag" name="tag" label="Tag" dir="auto" autofocus
        hint="If it is empty, the plants will have no tag." />
    <//>
  `;
}

/** Ask for a tag, and set it at each of the plants. @param {Plant[]} plants */
export function tagPlants(plants) {
  const title = `Set the tag of ${countPlants(plants.length)}`;
  /** @type {import("./dialogs.js").Act} */
  const act = async ({ tag = null }) => {
    await forEach(plants, ({ id }) => client.setTag(id, tag));
    say(`Changed: ${nameThem(plants)}`);
  };
  update({ dialog: { View: TagView, title, content: {}, act } });
}

/**
 * Do something with each plant, also if it fails for one of them; then throw its error.
 *
 * @param {Plant[]} plants
 * @param {(plant: Plant) => Promise<void>} work
 */
async function forEach(plants, work) {
  const results = await Promise.allSettled(plants.map(work));
  const failed = results.find((result) => result.status === "rejected");
  if (failed) throw failed.reason;
}

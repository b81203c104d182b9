/** The dialog of one plant: add a plant, or look at one and change it. */

import { make, makeJob } from "./changes.js";
import { client } from "./client.js";
import { ask, Field, Frame, leaveAddress, open } from "./dialogs.js";
import { countPlants, focus, say } from "./elements.js";
import { html } from "./html.js";
import { load } from "./listing.js";
import { messageOf } from "./requests.js";
import { may, state, update } from "./state.js";

/** @typedef {import("./client.js").Plant} Plant */
/** @typedef {import("./dialogs.js").Act} Act */

/** The hash of the address of one plant. */
const LINK = /^#\/plants\/(-?\d+)$/;

const ANY_ID = "You can enter any whole number that no other plant has.";

const NAMELESS = {
  title: "Save a plant without a name?",
  text: "Nobody can find it by its name.",
  yes: "Save without a name",
  no: "Enter a name",
};

/** @param {{plant?: Plant}} props the plant, unless it is a new one */
function PlantView({ plant }) {
  const isNew = plant === undefined;
  const readOnly = !isNew && !may("plants:update");
  const buttons = readOnly ? [] : [["save", "Save", "primary"]];
  if (isNew) buttons.push(["another", "Save and add another"]);
  return html`
    <${Frame} id="plant" fields=${["id", "name", "tag"]} buttons=${buttons}
        cancel=${readOnly ? "Close" : "Cancel"}>
      <${Field} id="plant-id" name="id" label="Id" inputmode="numeric" readOnly=${!isNew}
        value=${plant?.id ?? state.spareId}
        hint=${isNew ? `${state.spareId && "This is the next free id. "}${ANY_ID}` : ""} />
      <${Field} id="plant-name" name="name" label="Name" dir="auto" autofocus readOnly=${readOnly}
        value=${plant?.name} />
      <${Field} id="plant-tag" name="tag" label=${html`Tag <span class="hint">(optional)</span>`}
        dir="auto" list="tags" readOnly=${readOnly} value=${plant?.tag} />
    <//>
  `;
}

/** Add one plant, or several. */
export function addPlants() {
  let many = 0;
  /** @type {Act} */
  const act = async ({ id = state.spareId, name = "", tag }, button) => {
    const plant = { id: id.trim(), name, tag: tag || undefined };
    if (name === "" && !(await mayBeNameless())) return "";
    await client.create(plant);
    many += 1;
    if (plant.id === state.spareId) update({ spareId: "" });
    update({ fresh: { id: plant.id, isSought: false } });
    say(many > 1 ? `Saved ${countPlants(many)}, the last one:` : "Saved:", { plant });
    if (button.value !== "another") return undefined;
    button.form?.reset();
    takeSpareId();
    focus("#plant-name");
    return `Saved: ${plant.id}`;
  };
  open({ View: PlantView, title: "Add a plant", content: {}, act });
  takeSpareId();
}

/** Fill in a free id, unless one is typed before it is known. */
async function takeSpareId() {
  try {
    if (!state.spareId) update({ spareId: (await client.takeIds(1)).first });
  } catch (error) {
    messageOf(error); // The user enters one.
  }
}

/** @param {string} link `#/plants/7` */
export function openPlant(link) {
  history.pushState({ isDialog: true }, "", link);
  openLinkedPlant();
}

/** Open the plant that the address names: `#/plants/7`. */
export async function openLinkedPlant() {
  const id = LINK.exec(location.hash)?.[1];
  if (id === undefined || state.dialog) return;
  try {
    const { plant } = await client.read(id);
    if (!state.dialog) showPlant(plant);
  } catch (error) {
    say(messageOf(error));
    leaveAddress();
    load();
  }
}

/**
 * Show a plant, and change it. A field that is not edited keeps its value, even if an input cannot
 * hold the value: a line break in a name, or an empty tag.
 *
 * @param {Plant} plant
 */
function showPlant(plant) {
  const title = `${may("plants:update") ? "Edit plant" : "Plant"} ${plant.id}`;
  /** @type {Act} */
  const act = async (typed) => {
    if (typed.name === "" && !(await mayBeNameless())) return "";
    const mine = { ...plant, ...typed };
    if (typed.tag === "") delete mine.tag;
    const { left, error } = await make([{ before: plant, after: mine }], makeJob("Saved", 1));
    if (error) throw error;
    return left.length > 0 ? "" : undefined;
  };
  open({ View: PlantView, title, content: { plant }, act });
}

async function mayBeNameless() {
  if ((await ask(NAMELESS)) === "yes") return true;
  focus("#plant-name");
  return false;
}

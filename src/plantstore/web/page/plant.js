/** The dialog of one plant: add a plant, or look at one and change it. */

import { client } from "./client.js";
import { ask, Field, Frame } from "./dialogs.js";
import { focus, say } from "./elements.js";
import { html } from "./html.js";
import { load } from "./listing.js";
import { hasStatus, messageOf, NOT_FOUND, PRECONDITION_FAILED } from "./requests.js";
import { may, state, update } from "./state.js";

/** @typedef {import("./client.js").Plant} Plant */
/** @typedef {import("./dialogs.js").Act} Act */

/** The hash of the address of one plant. */
const LINK = /^#\/plants\/(-?\d+)$/;

const NAMELESS = {
  title: "Store a plant without a name?",
  text: "Nobody can find it by its name.",
  yes: "Store without a name",
  no: "Enter a name",
};

/** @param {{plant?: Plant}} props the plant, unless it is a new one */
function PlantView({ plant }) {
  const isNew = plant === undefined;
  const readOnly = !isNew && !may("plants:update");
  const buttons = readOnly ? [] : [["store", "Store", "primary"]];
  if (isNew) buttons.push(["another", "Store and add another"]);
  return html`
    <${Frame} id="plant" fields=${["id", "name", "tag"]} buttons=${buttons}
        cancel=${readOnly ? "Close" : "Cancel"}>
      <${Field} id="plant-id" name="id" label="Id" inputmode="numeric" readOnly=${!isNew}
        value=${plant?.id ?? state.spareId}
        hint=${isNew ? "Enter a whole number that no other plant has." : ""} />
      <${Field} id="plant-name" name="name" label="Name" dir="auto" autofocus readOnly=${readOnly}
        value=${plant?.name} />
      <${Field} id="plant-tag" name="tag" label=${html`Tag <span class="hint">(optional)</span>`}
        dir="auto" readOnly=${readOnly} value=${plant?.tag} />
    <//>
  `;
}

/** Add one plant, or several. */
export function addPlants() {
  /** @type {string[]} */
  const stored = [];
  /** @type {Act} */
  const act = async ({ id = state.spareId, name = "", tag }, button) => {
    const plant = { id: id.trim(), name, tag: tag || undefined };
    if (name === "" && !(await mayBeNameless())) return "";
    await client.create(plant);
    stored.push(plant.id);
    if (plant.id === state.spareId) update({ spareId: "" });
    say(`Stored: ${stored.join(", ")}`);
    if (button.value !== "another") return undefined;
    button.form?.reset();
    takeSpareId();
    focus("#plant-name");
    return `Stored: ${plant.id}`;
  };
  update({ dialog: { View: PlantView, title: "Add a plant", content: {}, act } });
  takeSpareId();
}

/** Fill in a free id, unless one is typed before it is known. */
async function takeSpareId() {
  try {
    if (!state.spareId) update({ spareId: await client.takeId() });
  } catch (error) {
    messageOf(error); // The user enters one.
  }
}

/** @param {string} link `#/plants/7` */
export function openPlant(link) {
  history.replaceState(history.state, "", link);
  openLinkedPlant();
}

/** Open the plant that the address names: `#/plants/7`. */
export async function openLinkedPlant() {
  const id = LINK.exec(location.hash)?.[1];
  if (id === undefined || state.dialog) return;
  try {
    const { plant, etag } = await client.read(id);
    if (!state.dialog) showPlant(plant, etag);
  } catch (error) {
    say(messageOf(error));
    history.replaceState(history.state, "", location.pathname + location.search);
    load();
  }
}

/**
 * Show a plant, and change it. A field that is not edited keeps its value, even if an input cannot
 * hold the value: a line break in a name, or an empty tag.
 *
 * @param {Plant} plant @param {string} etag
 */
function showPlant(plant, etag) {
  const title = `${may("plants:update") ? "Change plant" : "Plant"} ${plant.id}`;
  /** @type {Act} */
  const act = async (typed) => {
    if (typed.name === "" && !(await mayBeNameless())) return "";
    const mine = { ...plant, ...typed };
    if (typed.tag === "") delete mine.tag;
    const answer = await replace(mine, etag);
    if (answer === "yes") say(`Changed: ${plant.id}`);
    return answer === "" ? "" : undefined;
  };
  update({ dialog: { View: PlantView, title, content: { plant }, act } });
}

/**
 * Replace a plant. If somebody else has changed it, ask whose change is to be kept.
 *
 * @param {Plant} mine @param {string} etag of the plant that I have seen
 * @returns {Promise<string>} "yes" if mine is stored, "no" if theirs is kept, "" for neither
 */
async function replace(mine, etag) {
  try {
    await client.replace(mine, etag);
    return "yes";
  } catch (error) {
    if (!hasStatus(error, PRECONDITION_FAILED)) throw error;
  }
  const theirs = await client.read(mine.id).catch((error) => {
    if (!hasStatus(error, NOT_FOUND)) throw error;
  });
  const answer = await ask({
    title: `Somebody else has ${theirs ? "changed" : "deleted"} plant ${mine.id}`,
    text: theirs ? "Which one do you want to keep?" : "Do you want to store it again?",
    versions: [
      ["Name", theirs?.plant.name, mine.name],
      ["Tag", theirs?.plant.tag, mine.tag],
    ],
    yes: "Save mine",
    no: "Keep theirs",
  });
  if (answer !== "yes") return answer;
  if (theirs) return await replace(mine, theirs.etag);
  await client.create(mine);
  return "yes";
}

async function mayBeNameless() {
  if ((await ask(NAMELESS)) === "yes") return true;
  focus("#plant-name");
  return false;
}

/** The dialog of one plant: add a plant, or look at one and change it. */

import { ask, run } from "./dialogs.js";
import { element, within } from "./elements.js";
import { ApiError } from "./requests.js";

/**
 * @typedef {import("./client.js").Plant} Plant
 * @typedef {import("./client.js").Client} Client
 */

const PRECONDITION_FAILED = 412;
const NOT_FOUND = 404;

const NAMELESS = {
  title: "Store a plant without a name?",
  text: "Nobody can find it by its name.",
  yes: "Store without a name",
  no: "Enter a name",
};

/** An id that was handed out for a plant that was not stored. */
let spareId = "";

/**
 * Add one plant, or several.
 *
 * @param {Client} client
 * @returns {Promise<string[]>} the ids of the plants that were stored
 */
export async function addPlants(client) {
  /** @type {string[]} */
  const stored = [];
  let read = prepare({ title: "Add a plant" });
  fillId(client);
  await run(element("plant", HTMLDialogElement), async (button, signal) => {
    const plant = read();
    if (plant.name === "" && !(await mayBeNameless())) return "";
    await client.create(plant);
    if (plant.id === spareId) spareId = "";
    stored.push(plant.id);
    if (button !== "another" || signal.aborted) return null;
    read = prepare({ title: "Add a plant" });
    fillId(client);
    element("plant-name").focus();
    return `Stored: ${plant.id}`;
  });
  return stored;
}

/**
 * Show a plant, and change it.
 *
 * @param {Client} client
 * @param {import("./client.js").Read} shown
 * @param {boolean} mayChange
 * @returns {Promise<import("./dialogs.js").Outcome>} "failed" if somebody else's change was kept
 */
export async function changePlant(client, { plant, etag }, mayChange) {
  const title = `${mayChange ? "Change plant" : "Plant"} ${plant.id}`;
  const read = prepare({ title, plant, mayChange });
  let isKept = false;
  const outcome = await run(element("plant", HTMLDialogElement), async () => {
    const mine = read();
    const losesName = mine.name === "" && plant.name !== "";
    if (losesName && !(await mayBeNameless())) return "";
    const answer = await replace(client, mine, etag);
    isKept = answer === "no";
    return answer === "" ? "" : null;
  });
  return isKept ? "failed" : outcome;
}

async function mayBeNameless() {
  if ((await ask(NAMELESS)) === "yes") return true;
  element("plant-name").focus();
  return false;
}

/**
 * Replace a plant. If somebody else has changed it, ask whose change is to be kept.
 *
 * @param {Client} client
 * @param {Plant} mine
 * @param {string} etag of the plant that I have seen
 * @returns {Promise<string>} "yes" if mine is stored, "no" if theirs is kept, "" for neither
 */
async function replace(client, mine, etag) {
  try {
    await client.replace(mine, etag);
    return "yes";
  } catch (error) {
    if (!(error instanceof ApiError && error.status === PRECONDITION_FAILED)) throw error;
  }
  const theirs = await readAgain(client, mine.id);
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
  if (theirs) return await replace(client, mine, theirs.etag);
  await client.create(mine);
  return "yes";
}

/**
 * @param {Client} client
 * @param {string} id
 * @returns {Promise<?import("./client.js").Read>} null if there is no such plant
 */
async function readAgain(client, id) {
  try {
    return await client.read(id);
  } catch (error) {
    if (error instanceof ApiError && error.status === NOT_FOUND) return null;
    throw error;
  }
}

/**
 * Show a plant, or nothing, in the dialog; return what reads the plant from the dialog.
 *
 * A field that is not edited keeps its value, even if an input cannot hold the value: a line break
 * in a name, or an empty tag.
 *
 * @param {{title: string, plant?: Plant, mayChange?: boolean}} how
 * @returns {() => Plant}
 */
function prepare({ title, plant, mayChange = true }) {
  const dialog = element("plant", HTMLDialogElement);
  const [id, name, tag] = ["id", "name", "tag"].map((member) =>
    within(dialog, `[name=${member}]`, HTMLInputElement),
  );
  const readId = show(id, plant?.id ?? "");
  const readName = show(name, plant?.name ?? "");
  const readTag = show(tag, plant?.tag);
  id.readOnly = plant !== undefined;
  name.readOnly = tag.readOnly = !mayChange;
  element("plant-title").textContent = title;
  element("plant-id-hint").hidden = element("another").hidden = plant !== undefined;
  element("store").hidden = !mayChange;
  within(dialog, "[value=cancel]").textContent = mayChange ? "Cancel" : "Close";
  return () => {
    const read = readTag();
    const isUntagged = read === "" && plant?.tag !== "";
    return { id: readId().trim(), name: readName(), tag: isUntagged ? undefined : read };
  };
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
function show(field, was) {
  field.value = was ?? "";
  field.defaultValue = field.value;
  const shown = field.value;
  return () => (field.value === shown ? was : field.value);
}

/**
 * Fill in a free id, unless one was typed before it is known.
 *
 * @param {Client} client
 */
async function fillId(client) {
  const field = element("plant-id", HTMLInputElement);
  try {
    spareId ||= await client.takeId();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return; // The user enters one.
  }
  if (field.value === "" && !field.readOnly) show(field, spareId);
}

/** The dialog of one plant: add a plant, or look at one and change it. */

import { make } from "./changes.js";
import { client } from "./client.js";
import { ask, DISCARD, Field, Frame, isTyped, leaveAddress, open } from "./dialogs.js";
import { countPlants, focus, say } from "./elements.js";
import { html } from "./html.js";
import { load } from "./listing.js";
import { ApiError, ID_TAKEN, messageOf } from "./requests.js";
import { attempt, finish, makeAction } from "./sets.js";
import { deletePlants } from "./several.js";
import { may, state, update } from "./state.js";
import { SUGGESTING } from "./tags.js";

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

const INTEGER = /^-?\d+$/;

/** How long nothing must be typed before plants of the same name are looked for, and how many. */
const TYPING_SECONDS = 0.3;
const NAMESAKES = 20;

let typing = 0;

/** @param {{plant?: Plant, tag?: string}} props the plant, unless it is a new one with this tag */
function PlantView({ plant, tag }) {
  const isNew = plant === undefined;
  const readOnly = !isNew && !may("plants:update");
  const buttons = readOnly ? [] : [["save", "Save", "primary"]];
  if (isNew) buttons.push(["another", "Save and add another"]);
  const type = (/** @type {On<HTMLInputElement>} */ { currentTarget }) => {
    clearTimeout(typing);
    const look = () => findNamesake(currentTarget.value, plant?.id);
    typing = setTimeout(look, TYPING_SECONDS * 1000);
  };
  const { namesake, spareId } = state;
  return html`
    <${Frame} id="plant" fields=${["id", "name", "tag"]} buttons=${buttons}
        cancel=${readOnly ? "Close" : "Cancel"}>
      ${plant && html`<${Steps} plant=${plant} />`}
      <${Field} id="plant-id" name="id" label="Id" inputmode="numeric" readOnly=${!isNew}
        value=${plant?.id ?? spareId}
        hint=${isNew ? `${spareId && "This is the next free id. "}${ANY_ID}` : ""} />
      <${Field} id="plant-name" name="name" label="Name" grows dir="auto" autofocus readOnly=${readOnly}
        value=${plant?.name} oninput=${type} />
      <p id="namesake" class="hint" role="status">
        ${namesake && html`Another plant has this name: ${makeLink(namesake.id, namesake.id)}`}
      </p>
      <${Field} id="plant-tag" name="tag" label=${html`Tag <span class="hint">(optional)</span>`}
        ...${SUGGESTING} readOnly=${readOnly} value=${plant?.tag ?? tag} />
    <//>
  `;
}

/** The buttons to the neighbours of a plant in the list, and to its deletion. @param {{plant: Plant}} props */
function Steps({ plant }) {
  const plants = state.listing?.plants ?? [];
  const at = plants.findIndex(({ id }) => id === plant.id);
  const makeStep = (/** @type {string} */ label, /** @type {string} */ sign, other = plants[0]) =>
    html`<button type="button" aria-label=${label} onclick=${() => step(other)}>${sign}</button>`;
  return html`
    <p class="tools">
      ${at > 0 && makeStep("Previous plant", "‹", plants[at - 1])}
      ${at >= 0 && at + 1 < plants.length && makeStep("Next plant", "›", plants[at + 1])}
      <button type="button" data-needs="plants:delete" onclick=${() => deletePlants([plant])}>
        Delete
      </button>
    </p>
  `;
}

/** Show another plant instead, after a question if text would be lost. @param {Plant} plant */
async function step(plant) {
  if (isTyped() && (await ask(DISCARD)) !== "yes") return;
  history.replaceState(history.state, "", `#/plants/${plant.id}`);
  showPlant(plant);
}

/** Return a link that keeps what is typed here. @param {string} id @param {string} text */
function makeLink(id, text) {
  return html`<a href="#/plants/${id}" target="_blank">${text}</a>`;
}

/** Show another plant that has a name, if there is one. @param {string} name @param {string} [id] */
async function findNamesake(name, id) {
  update({ namesake: null });
  if (name === "" || !may("plants:read")) return;
  const { dialog } = state;
  const query = new URLSearchParams({ q: name });
  const found = await client.list(query, NAMESAKES).catch(messageOf);
  if (typeof found === "string" || state.dialog !== dialog) return;
  const fold = (/** @type {string} */ text) => text.trim().toLowerCase();
  const isSame = (/** @type {Plant} */ other) => other.id !== id && fold(other.name) === fold(name);
  update({ namesake: found.plants.find(isSame) ?? null });
}

/** Add one plant, or several, each with the tag of the one before, or of the list. */
export function addPlants(tag = state.shownQuery.get("tag") ?? "") {
  let many = 0;
  let action = makeAction("added", 1, "plants:delete");
  /** @type {Act} */
  const act = async ({ id = state.spareId, name = "", ...typed }, button) => {
    const plant = { id: id.trim(), name, tag: (typed.tag ?? tag) || undefined };
    if (name === "" && !(await mayBeNameless())) return "";
    const create = () => client.create(plant, action.set);
    const isRecorded = await attempt(action, create).catch((error) => explain(error, plant.id));
    many += 1;
    if (plant.id === state.spareId) update({ spareId: "" });
    update({ fresh: { ...plant, isSought: false }, namesake: null });
    const said = many > 1 ? `Saved ${countPlants(many)}, the last one:` : "Saved:";
    const only = { before: null, after: plant };
    finish(action, 1, { isRecorded, isChanged: false }, only, said);
    action = makeAction("added", 1, "plants:delete");
    if (button.value !== "another") return undefined;
    tag = plant.tag ?? "";
    dialog.content = { tag };
    update();
    button.form?.reset();
    takeSpareId();
    focus("#plant-name");
    return `Saved: ${plant.id}`;
  };
  const dialog = { View: PlantView, title: "Add a plant", content: { tag }, act };
  update({ namesake: null });
  open(dialog);
  takeSpareId();
}

/**
 * Throw the error about a new plant. About its id, say what to do.
 *
 * @param {unknown} error @param {string} id @returns {Promise<never>}
 */
async function explain(error, id) {
  if (!(error instanceof ApiError) || error.member !== "id") throw error;
  if (id === "") error.shown = "The id is missing: enter a whole number";
  else if (!INTEGER.test(id)) error.shown = "The id must be a whole number";
  else if (error.error === ID_TAKEN) {
    const found = await client.read(id).catch(messageOf);
    if (typeof found !== "string")
      error.shown = html`Id ${id} is <i><bdi>${found.plant.name}</bdi></i>. ${makeLink(id, "Open it")}`;
  }
  throw error;
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
  history.pushState({ ...history.state, isDialog: true }, "", link);
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
  const action = makeAction("changed", 1, "plants:update");
  /** @type {Act} */
  const act = async (typed) => {
    if (typed.name === "" && !(await mayBeNameless())) return "";
    const mine = { ...plant, ...typed };
    if (typed.tag === "") delete mine.tag;
    const { left, error } = await make([{ before: plant, after: mine }], action);
    if (error) throw error;
    return left.length > 0 ? "" : undefined;
  };
  update({ namesake: null });
  open({ View: PlantView, title, content: { plant, key: plant.id }, act });
}

async function mayBeNameless() {
  if ((await ask(NAMELESS)) === "yes") return true;
  focus("#plant-name");
  return false;
}

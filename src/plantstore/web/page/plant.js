/** The dialog of one plant: add a plant, or look at one and change it. */

import { make } from "./changes.js";
import { client } from "./client.js";
import { Field, Frame, leaveAddress, open, readTyped, refill } from "./dialogs.js";
import { countPlants, focus, makePause, say } from "./elements.js";
import { html } from "./html.js";
import { load } from "./listing.js";
import { findNamed } from "./names.js";
import { ApiError, CHANGED, IDS_EXHAUSTED, messageOf } from "./requests.js";
import { attempt, finish, makeAction } from "./sets.js";
import { deletePlants } from "./several.js";
import { may, state, update } from "./state.js";
import { SUGGESTING } from "./tags.js";

/** @typedef {import("./client.js").Plant} Plant */
/** @typedef {import("./dialogs.js").Act} Act */
/** @typedef {import("./sets.js").Action} Action */
/** @typedef {{plant: Plant, action: Action, error: ApiError}} Failure a plant that was not saved */

/** The hash of the address of one plant. */
const LINK = /^#\/plants\/(-?\d+)$/;

const ANY_ID = "It can be any whole number that no other plant has.";

/** Looks for plants of the same name when nothing was typed for a while. */
const look = makePause(0.3);

/** Whether Enter saves a plant and adds another: what was used last. */
let addsAnother = false;

/** The request for a free id that runs. @type {?Promise<void>} */
let taking = null;

/** @param {{plant?: Plant, tag?: string}} props the plant, unless it is a new one with this tag */
function PlantView({ plant, tag }) {
  const isNew = plant === undefined;
  const readOnly = !isNew && !may("plants:update");
  const buttons = readOnly ? [] : [["save", "Save", isNew && addsAnother ? "" : "primary"]];
  if (isNew) buttons.push(["another", "Save and add another", addsAnother ? "primary" : ""]);
  const type = (/** @type {On<HTMLInputElement>} */ { currentTarget }) =>
    look(() => findNamesake(currentTarget.value, plant?.id));
  const { namesake, spareId } = state;
  return html`
    <${Frame} id="plant" fields=${["id", "name", "tag"]} buttons=${buttons}
        cancel=${readOnly ? "Close" : "Cancel"} more=${plant && html`<${Delete} />`}>
      <${Field} id="plant-name" name="name" label="Name" grows dir="auto" autofocus required
        readOnly=${readOnly} value=${plant?.name} oninput=${type} />
      <p id="namesake" class="hint" role="status">
        ${namesake && html`Another plant has this name: ${makeLink(namesake.id, namesake.id)}`}
      </p>
      <${Field} id="plant-tag" name="tag" label="Tag" ...${SUGGESTING} readOnly=${readOnly}
        value=${plant?.tag ?? tag} />
      ${
        isNew &&
        html`<${Field} id="plant-id" name="id" label="Id" inputmode="numeric"
          pattern="\\s*-?[0-9]+\\s*" title="A whole number" value=${spareId} hint=${ANY_ID} />`
      }
      ${plant && html`<${Steps} plant=${plant} />`}
    <//>
  `;
}

/** The buttons that save a plant and lead to its neighbours in the list. @param {{plant: Plant}} props */
function Steps({ plant }) {
  const plants = state.listing?.plants ?? [];
  const at = plants.findIndex(({ id }) => id === plant.id);
  const makeStep = (
    /** @type {string} */ label,
    /** @type {string} */ sign,
    /** @type {number} */ to,
  ) => plants[to] && html`<button aria-label=${label} value=${plants[to].id}>${sign}</button>`;
  return html`
    <p class="tools">
      ${at >= 0 && [makeStep("Previous plant", "‹", at - 1), makeStep("Next plant", "›", at + 1)]}
    </p>
  `;
}

function Delete() {
  return html`
    <li class="apart" data-needs="plants:delete">
      <button value="delete" formnovalidate>Delete</button>
    </li>
  `;
}

/** Return a link that keeps what is typed here. @param {string} id @param {string} text */
function makeLink(id, text) {
  return html`<a href="#/plants/${id}" target="_blank">${text}</a>`;
}

/** Show no other plant, nor one for what was typed just now. */
function forgetNamesake() {
  look();
  update({ namesake: null });
}

/** Show another plant that has a name, if there is one. @param {string} name @param {string} [id] */
async function findNamesake(name, id) {
  forgetNamesake();
  if (name.trim() === "" || !may("plants:read")) return;
  const { dialog } = state;
  const found = await findNamed(name).catch(messageOf);
  if (typeof found === "string" || state.dialog !== dialog) return;
  update({ namesake: found.find((other) => other.id !== id) ?? null });
}

/**
 * Add one plant, or several, each with the tag of the one before, or of the list. While a plant is
 * saved, the next one can be entered. A plant that cannot be saved comes back into the form, and
 * what was typed meanwhile follows it.
 */
export function addPlants(tag = state.shownQuery.get("tag") ?? "") {
  let many = 0;
  /** For the plant that is entered, in all its attempts. */
  let action = makeAction("added", 1, "plants:delete");
  /** Ends when the plants that were entered are saved, or have come back. */
  let ended = /** @type {Promise<unknown>} */ (Promise.resolve());
  /** The plants that have come back; the first one is in the form. @type {Failure[]} */
  let failed = [];
  /** What was typed into the form when the first one came back. */
  let draft = {};

  const showNext = () => {
    const [next] = failed;
    dialog.error = next?.error;
    update();
    refill(next ? next.plant : draft);
    if (!next) draft = {};
    offerSpareId();
    focus("#plant-name");
  };

  const save = async (/** @type {Plant} */ plant, /** @type {Action} */ own) => {
    const create = () => client.change([{ before: null, after: plant }], { set: own.set });
    const { result, isRecorded } = await attempt(own, create);
    for (const error of result.errors) throw explain(error, plant.id);
    many += 1;
    const said = many > 1 ? `Saved ${countPlants(many)}, the last one:` : "Saved:";
    const only = { before: null, after: plant };
    finish(own, 1, { isRecorded, isChanged: false }, only, said);
    return `Saved: ${plant.id}`;
  };

  const saveInTurn = async (/** @type {Plant} */ plant, /** @type {Action} */ own) => {
    try {
      if (plant.id === "") {
        plant.id = await findSpareId();
        useId(plant.id);
        offerSpareId();
      }
      return await save(plant, own);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      return comeBack({ plant: { ...plant, tag: plant.tag ?? "" }, action: own, error });
    }
  };

  /** Fill in a plant again. If another one has come back before, this one waits for it. */
  const comeBack = (/** @type {Failure} */ failure) => {
    const { plant, error } = failure;
    if (state.dialog && state.dialog !== dialog) {
      say(`${error.message}. Not saved:`, { plant, isGone: true });
      return "";
    }
    if (!state.dialog) {
      // It was closed meanwhile.
      [failed, draft] = [[], {}];
      open(dialog);
    }
    if (failed.length === 0) draft = readTyped((text) => text);
    failed.push(failure);
    if (failed.length > 1) return "";
    refill(plant);
    throw error;
  };

  /** @type {Act} */
  const act = async (typed, button) => {
    const isLast = button.value !== dialog.goesOn;
    addsAnother = !isLast;
    checkName(typed.name ?? "");
    const [again] = failed;
    if (isLast) await ended;
    if (failed[0] !== again) return ""; // Another plant is in the form now.
    const id = typed.id ?? state.spareId;
    const plant = {
      id: id && String(BigInt(id)), // without zeros before it
      name: typed.name ?? "",
      tag: (typed.tag ?? tag) || undefined,
    };
    const own = again?.action ?? action;
    if (isLast) {
      plant.id ||= await findSpareId();
      const said = await save(plant, own);
      useId(plant.id);
      failed.shift();
      action = makeAction("added", 1, "plants:delete");
      if (failed.length === 0 && Object.keys(draft).length === 0) return undefined;
      showNext();
      return said;
    }
    failed.shift();
    action = makeAction("added", 1, "plants:delete");
    tag = plant.tag ?? "";
    dialog.content = { tag };
    useId(plant.id);
    forgetNamesake();
    showNext();
    const turn = ended.then(() => saveInTurn(plant, own));
    ended = Promise.allSettled([turn]);
    return await turn;
  };
  /** @type {import("./dialogs.js").Dialog} */
  const dialog = {
    View: PlantView,
    title: "Add a plant",
    content: { tag },
    act,
    goesOn: "another",
  };
  forgetNamesake();
  open(dialog);
  offerSpareId();
}

/** Throw an error if a name is missing. @param {string} [name] */
function checkName(name) {
  if (name === "") throw new ApiError("`name` is missing", 400);
}

/**
 * Return the error about a new plant, with the name of the plant that has its id already.
 *
 * @param {import("./client.js").ChangesResult["errors"][number]} error @param {string} id
 */
function explain({ error, message, plant }, id) {
  const text = error === CHANGED ? "`id` is that of another plant" : message;
  const refusal = new ApiError(text.replace("`after.", "`"), 400);
  if (plant)
    refusal.shown = html`Id ${id} is <i><bdi>${plant.name}</bdi></i>: ${makeLink(id, "open it")}`;
  return refusal;
}

/** Fill in a free id, unless one is typed before it is known. If there is none, the user enters one. */
function offerSpareId() {
  if (!state.spareId) takeSpareId().catch(messageOf);
}

/** Offer an id no more. @param {string} id */
function useId(id) {
  if (id === state.spareId) update({ spareId: "" });
}

async function findSpareId() {
  if (!state.spareId) await takeSpareId();
  return state.spareId;
}

/** Have a free id of the service offered. There is one request at a time. */
function takeSpareId() {
  taking ??= requestSpareId();
  return taking;
}

async function requestSpareId() {
  try {
    const { first } = await client.takeIds(1);
    taking = null;
    update({ spareId: first });
  } catch (error) {
    taking = null;
    if (!(error instanceof ApiError) || error.error !== IDS_EXHAUSTED) throw error;
    throw new ApiError("`id` must be entered: no further one is offered", 400);
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
    const plant = await client.read(id);
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
  const act = async (typed, { value }) => {
    if (value === "delete") return await deletePlants([plant]);
    checkName(typed.name);
    const mine = { ...plant, ...typed };
    if (typed.tag === "") delete mine.tag;
    const changes = Object.keys(typed).length > 0 ? [{ before: plant, after: mine }] : [];
    const { left, error } = await make(changes, action);
    if (error) throw error;
    if (left.length > 0) return "";
    const other = state.listing?.plants.find(({ id }) => id === value);
    if (!other) return undefined;
    history.replaceState(history.state, "", `#/plants/${other.id}`);
    showPlant(other);
    return undefined;
  };
  forgetNamesake();
  open({ View: PlantView, title, content: { plant, key: plant.id }, act });
}

/** The dialog of one plant: add a plant, or look at one and change it. */

import { make } from "./changes.js";
import { client } from "./client.js";
import { enterAddress, Field, Frame, leaveAddress, open, readTyped, refill } from "./dialogs.js";
import { countPlants, focus, makePause, say } from "./elements.js";
import { html } from "./html.js";
import { findTurnFrom, load } from "./listing.js";
import { findNamed } from "./names.js";
import { ApiError, CHANGED, IDS_EXHAUSTED, messageOf } from "./requests.js";
import { attempt, finish, makeAction } from "./sets.js";
import { deletePlants } from "./several.js";
import { change, may, state, update } from "./state.js";
import { SUGGESTING } from "./tags.js";

/** @typedef {import("./client.js").Plant} Plant */
/** @typedef {import("./dialogs.js").Act} Act */
/** @typedef {import("./sets.js").Action} Action */
/** @typedef {{plant: Plant, action: Action, error: ApiError}} Failure a plant that was not saved */

/** The hash of the address of one plant. */
const LINK = /^#\/plants\/(-?\d+)$/;

const ANY_ID = "Leave it empty for a new id.";

/** Looks for plants of the same name when nothing was typed for a while. */
const look = makePause(0.3);

/** Whether Enter saves a plant and adds another: what was used last. */
let addsAnother = false;

/** The places of the plants that the buttons of a plant lead to, beside it. */
const STEPS = /** @type {Record<string, number>} */ ({ prev: -1, next: 1 });

/** @param {{plant?: Plant, tag?: string}} props the plant, unless it is a new one with this tag */
function PlantView({ plant, tag }) {
  const isNew = plant === undefined;
  const readOnly = !isNew && !may("plants:update");
  const buttons = readOnly ? [] : [["save", "Save", isNew && addsAnother ? "" : "primary"]];
  if (isNew) buttons.push(["another", "Save and add another", addsAnother ? "primary" : ""]);
  const type = (/** @type {On<HTMLInputElement>} */ { currentTarget }) =>
    look(() => findNamesake(currentTarget.value, plant?.id));
  const { namesake } = state;
  return html`
    <${Frame} id="plant" fields=${["id", "name", "tag"]} buttons=${buttons}
        cancel=${readOnly ? "Close" : "Cancel"} more=${plant && html`<${Delete} />`}>
      <${Field} id="plant-name" name="name" label="Name" grows dir="auto" autofocus required
        readOnly=${readOnly} value=${plant?.name} oninput=${type} />
      <${Field} id="plant-tag" name="tag" label="Tag" ...${SUGGESTING} readOnly=${readOnly}
        value=${plant?.tag ?? tag} />
      ${
        isNew &&
        html`<${Field} id="plant-id" name="id" label="Id" inputmode="numeric"
          pattern="\\s*-?[0-9]+\\s*" title="A whole number" hint=${ANY_ID} />`
      }
      ${plant && html`<${Steps} plant=${plant} />`}
      <p id="namesake" class="hint" role="status">
        ${namesake && html`Another plant has this name: ${makeLink(namesake.id, namesake.id)}`}
      </p>
    <//>
  `;
}

/** The buttons that save a plant and lead to its neighbours in the list. @param {{plant: Plant}} props */
function Steps({ plant }) {
  return html`
    <p class="tools">
      ${findStep(plant, "prev") && html`<button aria-label="Previous plant" value="prev">‹</button>`}
      ${findStep(plant, "next") && html`<button aria-label="Next plant" value="next">›</button>`}
    </p>
  `;
}

/**
 * Return what finds the plant before or after one in the list, maybe on another page, if there is one.
 *
 * @param {Plant} plant @param {string} relation "prev" or "next"
 * @returns {undefined|(() => Promise<Plant|undefined>)}
 */
function findStep({ id }, relation) {
  const { listing } = state;
  const step = STEPS[relation];
  const at = listing?.plants.findIndex((plant) => plant.id === id) ?? -1;
  if (!listing || !step || at < 0) return undefined;
  const beside = listing.plants[at + step];
  if (beside) return async () => beside;
  return findTurnFrom(/** @type {"prev"|"next"} */ (relation), id);
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
    change(dialog, { error: next?.error });
    refill(next ? next.plant : draft);
    if (!next) draft = {};
    focus("#plant-name");
  };

  const save = async (/** @type {Plant} */ plant, /** @type {Action} */ own) => {
    const create = () => client.change([{ before: null, after: plant }], { set: own.set });
    const { result, isRecorded } = await attempt(own, create);
    for (const error of result.errors) {
      own.id = undefined;
      throw explain(error, plant.id);
    }
    many += 1;
    const said = many > 1 ? `Saved ${countPlants(many)}, the last one:` : "Saved:";
    const only = { before: null, after: plant };
    finish(own, 1, { isRecorded, isChanged: false }, only, said);
    return `Saved: ${plant.id}`;
  };

  const saveInTurn = async (/** @type {Plant} */ plant, /** @type {Action} */ own) => {
    try {
      plant.id ||= await takeId(own);
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
    const plant = {
      id: typed.id ? String(BigInt(typed.id)) : "", // without zeros before it
      name: typed.name ?? "",
      tag: (typed.tag ?? tag) || undefined,
    };
    const own = again?.action ?? action;
    if (isLast) {
      plant.id ||= await takeId(own);
      const said = await save(plant, own);
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
    takesFiles: true,
  };
  forgetNamesake();
  open(dialog);
}

/**
 * Whether more was typed into the form after an action took what was typed.
 *
 * @param {Partial<Record<string, string>>} taken
 */
function isTypedSince(taken) {
  return Object.entries(readTyped()).some(([name, text]) => text !== taken[name]);
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

/** Return an id that the service gives: the same one in all attempts. @param {Action} action */
async function takeId(action) {
  try {
    action.id ??= (await client.takeIds(1)).first;
    return action.id;
  } catch (error) {
    if (!(error instanceof ApiError) || error.error !== IDS_EXHAUSTED) throw error;
    throw new ApiError("`id` must be entered: no further one is offered", 400);
  }
}

/** @param {string} link `#/plants/7` */
export async function openPlant(link) {
  enterAddress(link);
  await openLinkedPlant();
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
    if (state.dialog !== dialog) return undefined; // It was closed meanwhile.
    if (isTypedSince(typed)) {
      showPlant(action.made.get(plant.id)?.after ?? plant);
      change(state.dialog, { said: "Saved, but not what was typed since then" });
      return undefined;
    }
    const other = await findStep(plant, value)?.();
    if (!other) return undefined;
    enterAddress(`#/plants/${other.id}`);
    showPlant(other);
    return undefined;
  };
  forgetNamesake();
  /** @type {import("./dialogs.js").Dialog} */
  const dialog = { View: PlantView, title, content: { plant, key: plant.id }, act };
  open(dialog);
}

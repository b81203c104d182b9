/** The dialog of one plant: add a plant, or look at one and change it. */

import { linkTo, make } from "./changes.js";
import { client } from "./client.js";
import { enterAddress, Field, Frame, leaveAddress, open, readTyped, refill } from "./dialogs.js";
import { focus, makePause, say } from "./elements.js";
import { html, isolate } from "./html.js";
import { findTurn, load, turn } from "./listing.js";
import { findNamed } from "./names.js";
import { ApiError, messageOf } from "./requests.js";
import { makeAction } from "./sets.js";
import { deletePlants } from "./several.js";
import { change, may, state } from "./state.js";
import { SUGGESTING } from "./tags.js";

/** @typedef {import("./client.js").Plant} Plant */
/** @typedef {import("./dialogs.js").Act} Act */
/** @typedef {import("./sets.js").Action} Action */
/** @typedef {{plant: Plant, action: Action, error: ApiError}} Failure a plant that was not saved */

/** The hash of the address of one plant. */
const LINK = /^#\/plants\/(-?\d+)$/;

/** Looks for plants of the same name when nothing was typed for a while. */
const look = makePause(0.3);

/** Whether Enter saves a plant and adds another, or goes on to the next one: what was used last. */
let [addsAnother, goesOn] = [false, false];

/** The places of the plants that the buttons of a plant lead to, beside it. */
const STEPS = /** @type {Record<string, number>} */ ({ prev: -1, next: 1 });

/**
 * @param {{plant?: Plant, tag?: string, field?: string, namesake?: Plant}} props the plant, unless it is
 *   a new one with this tag, the field that has the focus at first, and another plant that has the name
 *   that is typed
 */
function PlantView({ plant, tag, field = "name", namesake }) {
  const isNew = plant === undefined;
  const readOnly = !isNew && !may("plants:update");
  const canStep = (/** @type {string} */ relation) =>
    plant && (findBeside(plant, relation) || findTurn(relation));
  const isStep = !isNew && goesOn && canStep("next");
  const isOther = isStep || (isNew && addsAnother);
  const buttons = readOnly ? [] : [["save", "Save", isOther ? "" : "primary"]];
  if (isNew) buttons.push(["another", "Save and add another", addsAnother ? "primary" : ""]);
  const { dialog } = state;
  const type = (/** @type {On<HTMLInputElement>} */ { currentTarget: { value } }) =>
    look(() => findNamesake(dialog, value.trim(), plant?.id));
  const remove = html`
    <li class="apart" data-needs="plants:delete">
      <button value="delete" formnovalidate>Delete</button>
    </li>
  `;
  const makeStep = (
    /** @type {string} */ value,
    /** @type {string} */ sign,
    /** @type {string} */ label,
  ) =>
    canStep(value) &&
    html`<button class=${isStep && value === "next" ? "primary" : ""} aria-label=${label} value=${value}>
      ${sign}
    </button>`;
  return html`
    <${Frame} id="plant" fields=${["id", "name", "tag"]} buttons=${buttons}
        cancel=${readOnly ? "Close" : "Cancel"} more=${plant && remove}>
      <${Field} id="plant-name" name="name" label="Name" grows dir="auto" autofocus=${field === "name"} required
        readOnly=${readOnly} value=${plant?.name} oninput=${type} />
      <${Field} id="plant-tag" name="tag" label="Tag" ...${SUGGESTING} readOnly=${readOnly}
        autofocus=${field === "tag"} value=${plant?.tag ?? tag} />
      ${
        isNew &&
        html`<${Field} id="plant-id" name="id" label="Id" inputmode="numeric"
          pattern="\\s*-?[0-9]+\\s*" title="A whole number" hint="Leave it empty for a new id." />`
      }
      <p class="tools">
        ${makeStep("prev", "‹", "Previous plant")} ${makeStep("next", "›", "Next plant")}
      </p>
      <p id="namesake" class="hint" role="status">
        ${namesake && html`Another plant has this name: ${linkTo(namesake.id, namesake.id)}`}
      </p>
    <//>
  `;
}

/** Return the plant before or after one in the list. @param {Plant} plant @param {string} relation "prev" or "next" */
function findBeside({ id }, relation) {
  const plants = state.listing?.plants ?? [];
  const at = plants.findIndex((plant) => plant.id === id);
  return at < 0 ? undefined : plants[at + (STEPS[relation] ?? NaN)];
}

/**
 * Show another plant that has the name that is typed into a dialog, if there is one.
 *
 * @param {typeof state.dialog} dialog @param {string} name @param {string} [id]
 */
async function findNamesake(dialog, name, id) {
  const isSought = name !== "" && may("plants:read") && dialog === state.dialog;
  const found = isSought ? await findNamed(name).catch(messageOf) : "";
  const namesake = typeof found === "string" ? undefined : found.find((other) => other.id !== id);
  change(dialog, { content: { ...dialog?.content, namesake } });
}

/**
 * Add one plant, or several, each with the tag of the one before, or of the list. While a plant is
 * saved, the next one can be entered. A plant that cannot be saved comes back into the form, and
 * what was typed meanwhile follows it.
 */
export function addPlants(tag = state.shownQuery.get("tag") ?? "") {
  /** Ends when the plants that were entered are saved, or have come back. @type {Promise<unknown>} */
  let ended = Promise.resolve();
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

  const save = async (/** @type {Plant} */ plant, /** @type {Action} */ action) => {
    const { error } = await make([{ before: null, after: plant }], action);
    if (error) throw error;
    return `Saved: ${plant.id} ${isolate(plant.name)}`;
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
  const act = async (typed, { value }) => {
    addsAnother = value === dialog.goesOn;
    checkName(typed.name ?? "");
    const { action = makeAction("added", 1, "plants:delete") } = failed.shift() ?? {};
    const id = typed.id ? String(BigInt(typed.id)) : ""; // without zeros before it
    const plant = { id, name: typed.name ?? "", tag: (typed.tag ?? tag) || undefined };
    tag = plant.tag ?? "";
    if (addsAnother) {
      look(); // for no other plant of this name
      dialog.content = { tag };
    }
    showNext();
    const turn = ended
      .then(() => save(plant, action))
      .catch((error) => {
        if (!(error instanceof ApiError)) throw error;
        return comeBack({ plant: { ...plant, tag: plant.tag ?? "" }, action, error });
      });
    ended = Promise.allSettled([turn]);
    const said = await turn;
    const isLast = value !== dialog.goesOn && failed.length === 0;
    return isLast && Object.keys(readTyped()).length === 0 ? undefined : said;
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
  open(dialog);
}

/** Throw an error if a name is missing. @param {string} [name] */
function checkName(name) {
  if (name === "") throw new ApiError("`name` is missing");
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
 * @param {Plant} plant @param {string} [field] that has the focus at first
 */
function showPlant(plant, field) {
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
    goesOn = value === "next";
    const other =
      findBeside(plant, value) ?? (value in STEPS ? await turn(value, plant.id) : undefined);
    if (!other) return undefined;
    enterAddress(`#/plants/${other.id}`);
    showPlant(other, Object.keys(typed)[0] ?? field);
    return undefined;
  };
  /** @type {import("./dialogs.js").Dialog} */
  const dialog = { View: PlantView, title, content: { plant, field, key: plant.id }, act };
  dialog.back = `#plants [data-id="${plant.id}"] a`;
  open(dialog);
}

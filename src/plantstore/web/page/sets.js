/**
 * Change sets: what one action of a person changes has a name, by which the service undoes it. Those
 * of imports and of many plants are in a list that the browser keeps, from before their request is
 * sent.
 *
 * @typedef {import("./client.js").Plant} Plant
 * @typedef {{set: string, what: string, when: number, isPart?: boolean}} Entry of the list: what was
 *   done and when, and whether maybe not to all of the plants
 * @typedef {(made?: import("./client.js").Change[]) => string} Tell says what was done, or shall be
 * @typedef {{outcome: string|Tell, total: number, scope?: string, isListed: boolean, set: string,
 *   mayHaveChanges: boolean, made: Map<string, import("./client.js").Change>, same?: number}} Action
 *   in all its attempts: what becomes of how many plants, the scope that its undo needs, the name of its
 *   set, or "" if the next attempt needs a new one, whether the set may have changes, the changes that
 *   were made, by their ids, and how many of them were made before
 */

import { client } from "./client.js";
import { Choice, Frame, open } from "./dialogs.js";
import { countPlants, makeName, number, say } from "./elements.js";
import { html, renew } from "./html.js";
import { loadAgain } from "./listing.js";
import { hasStatus, messageOf, NOT_FOUND } from "./requests.js";
import { may, state, update } from "./state.js";

/** The statuses of an undo while the service keeps no changes, and of changes that it kept. */
const BAD_REQUEST = 400;
const GONE = 410;

/** The key of the list. */
const SETS = `plantstore.sets:${location.pathname}`;

/** How many entries the list has, and how much of a text tells what one was. */
const SETS_MAX = 100;
const CHARACTERS_MAX = 80;

/** How the list says when something was done. */
const WHEN = /** @type {const} */ ({ dateStyle: "medium", timeStyle: "short" });

const NOT_KEPT =
  "There is nothing to undo: nothing was changed, or the service has not kept the changes";

/** The storages of the browser and of this tab, or null: some browsers are set to have none. */
const storage = findStorage("localStorage");
export const tab = findStorage("sessionStorage");

/** The sets of the requests that run. @type {Set<string>} */
const running = new Set();

/** What was done here, and can be undone; the last is at the end. @type {Undoable[]} */
let done = [];

/** @param {"localStorage"|"sessionStorage"} name */
function findStorage(name) {
  try {
    return window[name];
  } catch {
    return null;
  }
}

/** Replace the entry of a set in the list, or remove it. @param {string} set @param {Entry} [entry] */
function put(set, entry) {
  if (!entry) done = done.filter((each) => each.set !== set);
  const others = state.sets.filter((each) => each.set !== set);
  update({ sets: [...others, entry ?? []].flat().slice(-SETS_MAX) });
  try {
    if (state.sets.length > 0) storage?.setItem(SETS, JSON.stringify(state.sets));
    else storage?.removeItem(SETS);
  } catch {
    // The storage is full.
  }
}

/** Take the list that the browser has, also when another tab changes it. */
export function readSets() {
  window.onstorage = readSets;
  update({ sets: JSON.parse(storage?.getItem(SETS) ?? "[]") });
}

/**
 * Return a new entry of an action.
 *
 * @param {Action} action @param {number} many plants @param {import("./client.js").Change[]} [made]
 * @returns {Entry}
 */
function makeEntry({ set, outcome }, many, made) {
  const what = typeof outcome === "string" ? `${countPlants(many)} ${outcome}` : outcome(made);
  return { set, what: what.slice(0, CHARACTERS_MAX), when: Date.now() };
}

/** @param {Entry} entry */
function describe({ what, isPart }) {
  return isPart ? `${what}, maybe not all` : what;
}

/** Say why something cannot be undone, or return "". @param {string} [scope] that its undo needs */
export function explainNoUndo(scope) {
  if (state.keepsChanges === false) return "This cannot be undone: the service keeps no changes.";
  return may(scope) ? "" : `With this token, this cannot be undone: it lacks the scope ${scope}.`;
}

/** Whether plants are being changed, or something is being undone. */
export function isRunning() {
  return running.size > 0;
}

/**
 * @param {string|Tell} outcome @param {number} total @param {string} [scope]
 * @returns {Action} of one plant, or of many
 */
export function makeAction(outcome, total, scope, isListed = total > 1) {
  return { outcome, total, scope, isListed, set: "", mayHaveChanges: false, made: new Map() };
}

/**
 * Make an attempt of an action, which is in the list before it begins.
 *
 * @template T @param {Action} action @param {() => Promise<T>} make sends the requests
 * @param {AbortSignal} [signal] stops it
 * @returns {Promise<T>}
 */
export async function attempt(action, make, signal) {
  const isOpen = action.isListed ? isListed(action.set) : action.set !== "";
  if (!isOpen) Object.assign(action, { set: makeName(), mayHaveChanges: false, made: new Map() });
  const { set } = action;
  const entry = { ...makeEntry(action, action.total), isPart: true };
  running.add(set);
  if (action.isListed && !explainNoUndo(action.scope)) put(set, entry);
  try {
    return await make();
  } catch (error) {
    action.mayHaveChanges = true; // The response may be lost.
    const text = `${signal?.aborted ? "Stopped" : "Interrupted"}: ${describe(entry)}`;
    if (isListed(set)) offer(text, entry);
    else if (action.isListed) say(text);
    throw error;
  } finally {
    running.delete(set);
  }
}

/** Whether a set can be undone, and continued. @param {string} set */
function isListed(set) {
  return state.sets.some((each) => each.set === set);
}

/**
 * Say what an action has changed, and offer to undo it.
 *
 * @param {Action} action
 * @param {{isRecorded: boolean, isChanged: boolean}} outcome whether the service keeps changes, and
 *   whether it made some now
 */
export function finish(action, { isRecorded, isChanged }) {
  const { set, scope, isListed, made, same } = action;
  const many = made.size - (same ?? 0);
  const known = explainNoUndo(scope);
  if (isRecorded || isChanged) update({ keepsChanges: isRecorded });
  action.mayHaveChanges ||= isChanged;
  const reason = explainNoUndo(scope);
  const entry = makeEntry(action, many, [...made.values()]);
  const isOffer = isRecorded && action.mayHaveChanges && !reason;
  if (many === 0 && isOffer) return; // It has an entry since an attempt before.
  if (isListed) put(set, isOffer ? entry : undefined);
  if (many === 0) return;
  const [only] = made.size === 1 && same === undefined ? made.values() : [];
  const { before = null, after = null } = only ?? {};
  const about = { plant: after ?? before, isGone: !after, note: known ? "" : reason };
  const text = only ? (after ? "Saved:" : "Deleted:") : entry.what;
  if (isOffer) offer(text, { set, plant: before ?? after }, about);
  else say(text, about);
}

/**
 * Say something, and offer to undo a set.
 *
 * @param {string} text
 * @param {Undoable} undoable @param {Partial<typeof state.toast>} [about]
 * @typedef {{set: string, plant?: ?Plant}} Undoable of one plant, or of many
 */
function offer(text, undoable, about) {
  done = [...done.filter(({ set }) => set !== undoable.set), undoable];
  say(text, { ...about, action: ["Undo", () => undo(undoable)] });
}

/** Undo what was done last in this tab with one plant; or ask what to undo of what was done with many. */
export async function undoLast() {
  const last = done.at(-1);
  if (isRunning()) return;
  if (last?.plant) await undo(last);
  else if (state.sets.length > 0) chooseUndo();
  else say("There is nothing to undo");
}

/** Undo a set, or what is left of it. @param {Undoable} undoable */
export async function undo({ set, plant }) {
  running.add(set);
  say("Undoing…");
  try {
    const counts = await client.undo(set);
    put(set);
    await loadAgain(); // What is selected from now on is as it is stored.
    say(describeUndo(counts, plant), { plant, isGone: counts.deleted > 0 });
  } catch (error) {
    const text = messageOf(error);
    if (hasStatus(error, BAD_REQUEST, NOT_FOUND, GONE)) {
      put(set);
      say(NOT_KEPT);
    } else offer(`${text}. Not all is undone`, { set, plant });
    loadAgain();
  } finally {
    running.delete(set);
  }
}

/** @param {import("./client.js").UndoCounts} counts @param {?Plant} [plant] if it is one */
function describeUndo({ restored, deleted, recreated, kept }, plant) {
  const counts = { removed: deleted, restored: recreated, "changed back": restored };
  const [first, ...others] = Object.entries(counts).filter(([, many]) => many > 0);
  if (plant && first) return recreated > 0 ? "Restored:" : "Undone:";
  if (plant) return "Not undone, since it was changed again:";
  const made = first ? [`${countPlants(first[1])} ${first[0]}`] : ["Nothing undone"];
  for (const [what, many] of others) made.push(`${number(many)} ${what}`);
  const since = kept === 1 ? "it was changed since" : "they were changed since";
  return `${made.join(", ")}${kept > 0 ? `. ${countPlants(kept)} kept: ${since}` : ""}`;
}

/** The button that opens the list of what can be undone. */
export function UndoButton() {
  if (state.sets.length === 0) return null;
  return html`<button id="undo" type="button" onclick=${chooseUndo}>Undo…</button>`;
}

/** Ask what to undo of what was done with many plants. */
function chooseUndo() {
  if (isRunning()) return;
  const sets = state.sets.toReversed();
  /** @type {import("./dialogs.js").Act} */
  const act = async ({ which = "0" }) => {
    setTimeout(undo, 0, sets[Number(which)]); // Its progress is shown without a dialog.
  };
  const options = sets.map((entry, at) => {
    const when = new Date(entry.when).toLocaleString("en", WHEN);
    return [
      String(at),
      html`<span>${renew(describe(entry))}<br /><span class="hint">${when}</span></span>`,
    ];
  });
  open({ View: UndoView, title: "Undo a change", content: { options }, act, isDisposable: true });
}

/** @param {{options: [string, any][]}} props */
function UndoView({ options }) {
  return html`
    <${Frame} id="undoing" buttons=${[["undo", "Undo", "primary"]]}>
      <${Choice} name="which" options=${options} />
    <//>
  `;
}

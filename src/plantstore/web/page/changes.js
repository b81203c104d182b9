/**
 * Changes of plants. No change overwrites what somebody else has changed since the plant was seen:
 * the fields that only one of the two has changed are merged, and for any other field the page asks.
 *
 * @typedef {import("./client.js").Plant} Plant
 * @typedef {import("./client.js").Change} Change
 * @typedef {{change: Change, theirs: ?Plant}} Conflict a change, and the plant that is stored now
 */

import { client } from "./client.js";
import { actUntilStopped, ask } from "./dialogs.js";
import { countPlants } from "./elements.js";
import { html } from "./html.js";
import { ApiError, CHANGED } from "./requests.js";
import { attempt, finish } from "./sets.js";
import { state } from "./state.js";

/** How many ids the service gives at once. */
const IDS_MAX = 1000;

/** The names of the fields. */
const FIELDS = /** @type {["name"|"tag", string][]} */ ([
  ["name", "Name"],
  ["tag", "Tag"],
]);

/**
 * Make changes, ask about the conflicts, say what was made, and offer to undo it.
 *
 * @param {Change[]} changes
 * @param {import("./sets.js").Action} action
 * @returns {Promise<{left: Change[], error: ?ApiError, isStopped: boolean}>} the changes that were not
 *   made, unless the user gave them up, and the error of the first one
 */
export async function make(changes, action) {
  const { dialog } = state;
  /** @type {Map<string, Change>} */
  const left = new Map();
  const did = { isRecorded: false, isChanged: false };
  /** @type {?ApiError} */
  let error = null;
  const send = async (/** @type {AbortSignal|undefined} */ signal) => {
    for (let todo = changes; todo.length > 0; ) {
      const { result, isRecorded } = await client.change(todo, { set: action.set, signal });
      did.isRecorded ||= isRecorded;
      did.isChanged ||= result.stored + result.replaced + result.deleted > 0;
      const { made, again, conflicts, ...sorted } = sort(todo, result);
      error ??= sorted.error;
      for (const change of made) {
        action.made.set(idOf(change), change);
        left.delete(idOf(change));
        state.selected.delete(idOf(change));
      }
      todo = again;
      const isOver = signal?.aborted || state.dialog !== dialog;
      const answer = conflicts.length === 0 || isOver ? "" : await askAbout(conflicts);
      if (conflicts.length > 0 && answer === "") return;
      for (const conflict of conflicts) {
        const mine = overrule(conflict, answer === "no");
        if (isSame(mine.before, mine.after)) left.delete(idOf(conflict.change));
        else todo.push(mine);
      }
    }
  };
  const run = async (/** @type {AbortSignal|undefined} */ signal) => {
    await giveIds(changes, signal);
    for (const change of changes) left.set(idOf(change), change);
    await attempt(action, () => send(signal), signal);
    finish(action, did);
  };
  let isStopped = false;
  if (action.isListed) isStopped = !(await actUntilStopped(run));
  else await run(undefined);
  return { left: [...left.values()], error, isStopped };
}

/** Give ids of the service to new plants that have none. @param {Change[]} changes @param {AbortSignal} [signal] */
async function giveIds(changes, signal) {
  const plants = changes.flatMap(({ after }) => (after?.id === "" ? after : []));
  for (let at = 0; at < plants.length; at += IDS_MAX) {
    const part = plants.slice(at, at + IDS_MAX);
    const { first } = await client.takeIds(part.length, signal);
    signal?.throwIfAborted();
    for (const [index, plant] of part.entries()) plant.id = String(BigInt(first) + BigInt(index));
  }
}

/**
 * Sort changes by what became of them: those that were made, those that are to be sent again, the
 * conflicts, and the error of another one.
 *
 * @param {Change[]} changes @param {import("./client.js").ChangesResult} result
 */
function sort(changes, { errors, refused }) {
  // Only the first errors are told. What follows them is sent again: what was made stays so.
  const told = refused > errors.length ? errors[errors.length - 1].line : changes.length;
  const failed = new Set(errors.map(({ line }) => line - 1));
  const made = changes.slice(0, told).filter((_, at) => !failed.has(at));
  const again = changes.slice(told);
  /** @type {Conflict[]} */
  const conflicts = [];
  /** @type {Change[]} */
  const unseen = [];
  /** @type {?ApiError} */
  let error = null;
  for (const { line, error: kind, message, plant: theirs } of errors) {
    const change = changes[line - 1];
    const merged = theirs === undefined ? undefined : merge(change.before, change.after, theirs);
    if (kind !== CHANGED) error ??= new ApiError(message.replace("`after.", "`"));
    else if (!change.before && theirs !== null) error ??= explainTaken(idOf(change), theirs);
    else if (theirs === undefined) unseen.push(change);
    else if (merged === undefined) conflicts.push({ change, theirs });
    else again.push({ before: theirs, after: merged });
  }
  // The service shows some of the plants, if the token may read them, and next time others.
  if (conflicts.length + again.length > 0) again.push(...unseen);
  else if (unseen.length > 0)
    error ??= new ApiError(`Somebody else has changed ${countPlants(unseen.length)}`);
  return { made, again, conflicts, error };
}

/** @param {string} id @param {Plant} [theirs] the plant that has it, if the token may read it */
function explainTaken(id, theirs) {
  const error = new ApiError("`id` is that of another plant");
  if (theirs) {
    error.shown = html`Id ${id} is <i><bdi>${theirs.name}</bdi></i>: ${linkTo(id, "open it")}`;
  }
  return error;
}

/** Return a link that keeps what is typed here. @param {string} id @param {string} text */
export function linkTo(id, text) {
  return html`<a href="#/plants/${id}" target="_blank">${text}</a>`;
}

/** @param {Change} change */
function idOf({ before, after }) {
  return (before ?? after)?.id ?? "";
}

/**
 * Merge what I changed with what they changed.
 *
 * @param {?Plant} before @param {?Plant} mine @param {?Plant} theirs
 * @returns {?Plant|undefined} undefined if both have changed the same
 */
function merge(before, mine, theirs) {
  if (isSame(before, theirs)) return mine;
  if (isSame(mine, theirs)) return theirs;
  if (!before || !mine || !theirs) return undefined;
  const isConflict = FIELDS.some(([field]) => isDisputed(field, before, mine, theirs));
  return isConflict ? undefined : overrule({ change: { before, after: mine }, theirs }).after;
}

/**
 * Return a change that makes mine of theirs: the fields that I changed, or only those that they did
 * not change.
 *
 * @param {Conflict} conflict @param {boolean} [yields]
 */
function overrule({ change: { before, after }, theirs }, yields = false) {
  if (!before || !after || !theirs) return { before: theirs, after: yields ? theirs : after };
  const result = { ...theirs };
  for (const [field] of FIELDS) {
    const isMine = after[field] !== before[field];
    if (isMine && !(yields && isDisputed(field, before, after, theirs)))
      Object.assign(result, { [field]: after[field] });
  }
  return { before: theirs, after: result };
}

/** @param {?Plant} one @param {?Plant} other */
function isSame(one, other) {
  return one?.id === other?.id && one?.name === other?.name && one?.tag === other?.tag;
}

/** @param {"name"|"tag"} field @param {Plant} before @param {Plant} mine @param {Plant} theirs */
function isDisputed(field, before, mine, theirs) {
  const [old, ...both] = [before, mine, theirs].map((plant) => plant[field]);
  return both[0] !== both[1] && !both.includes(old);
}

/**
 * Show conflicts, and ask whose version is to be kept.
 *
 * @param {Conflict[]} conflicts
 * @returns {Promise<string>} "yes" for mine, "no" for theirs, "" for neither
 */
function askAbout(conflicts) {
  const isDeletion = conflicts.every(({ change }) => !change.after);
  const isGone = conflicts.every(({ theirs }) => !theirs);
  const isOne = conflicts.length === 1;
  const it = isOne ? "it" : "them";
  const what = isOne ? `plant ${idOf(conflicts[0].change)}` : countPlants(conflicts.length);
  const wording = isDeletion
    ? { text: `Delete ${it} all the same?`, yes: "Delete", no: "Keep theirs", look: "danger" }
    : isGone
      ? { text: "", yes: "Restore mine", no: `Leave ${it} deleted` }
      : { text: "Which do you want to keep?", yes: "Save mine", no: "Keep theirs" };
  return ask({
    title: `Somebody else has ${isGone ? "deleted" : "changed"} ${what}`,
    ...wording,
    columns: isDeletion ? ["You saw", "It is now"] : ["Theirs", "Mine"],
    versions: conflicts.flatMap((conflict) => compare(conflict, conflicts.length > 1)),
  });
}

/**
 * Return the fields that differ.
 *
 * @param {Conflict} conflict
 * @param {boolean} isNamed whether each field is that of another plant
 * @returns {import("./dialogs.js").Version[]}
 */
function compare({ change: { before, after }, theirs }, isNamed) {
  const [left, right] = after ? [theirs, after] : [before, theirs];
  const isPlain = !before || !after || !theirs;
  const plant = /** @type {Plant} */ (before ?? after);
  return FIELDS.filter(([field]) =>
    isPlain ? left?.[field] !== right?.[field] : isDisputed(field, before, after, theirs),
  ).map(([field, name]) => [
    isNamed ? `${name} of ${plant.id}: ${plant.name}` : name,
    left ? left[field] : null,
    right?.[field],
  ]);
}

/**
 * Changes of plants, and their undo. No change overwrites what somebody else has changed since the
 * plant was seen: the fields that only one of the two has changed are merged, and for any other
 * field the page asks.
 *
 * @typedef {import("./client.js").Plant} Plant
 * @typedef {{before: ?Plant, after: ?Plant}} Change a plant as it was seen, and as it shall be; null
 *   if it does not exist
 * @typedef {{change: Change, theirs: ?Plant}} Conflict a change, and the plant that is stored now
 * @typedef {{left: Change[], error: unknown}} Rest the changes that were not made, unless the user
 *   gave them up, and the first error
 */

import { client } from "./client.js";
import { ask } from "./dialogs.js";
import { countPlants, say } from "./elements.js";
import { load } from "./listing.js";
import { ApiError, hasStatus, messageOf, NOT_FOUND, PRECONDITION_FAILED } from "./requests.js";
import { may, state } from "./state.js";

/** The names of the fields. */
const FIELDS = /** @type {["name"|"tag", string][]} */ ([
  ["name", "Name"],
  ["tag", "Tag"],
]);

/** The error number of a plant that is created under an id that another plant has. */
const ID_TAKEN = 1004;

/** How often a change is tried that somebody else, or a proxy, gets in the way of. */
const TRIES = 3;

/** How many changes are made at once: as many as a browser opens connections. */
const PARALLEL = 6;

const UNMATCHED =
  "The plant was not changed: its entity tag was missing, or was not the one that was read just before. A proxy in front of the service may change or remove `ETag` or `If-Match`";

const UNDONE = { Deleted: "Stored again", Changed: "Changed back" };

/**
 * Make changes, ask about the conflicts, say what was made, and offer to undo it. Nothing is begun
 * any more after the dialog was closed, or after an error that the other changes would get, too.
 *
 * @param {Change[]} changes
 * @param {string} verb that says what was made
 * @returns {Promise<Rest>}
 */
export async function make(changes, verb) {
  /** @type {Change[]} */
  const made = [];
  /** @type {Change[]} */
  const left = [];
  /** @type {unknown} */
  let error;
  /** @type {Conflict[]} */
  let conflicts = [];
  const { dialog } = state;
  const isOver = () => (dialog !== null && state.dialog !== dialog) || concernsAll(error);
  const attempt = async (/** @type {Change} */ change) => {
    if (isOver()) {
      left.push(change);
      return;
    }
    try {
      const result = await makeOne(change);
      if ("theirs" in result) conflicts.push({ change, theirs: result.theirs });
      else made.push(result);
    } catch (reason) {
      error ??= reason;
      left.push(change);
    }
  };
  await forEach(changes, attempt);
  while (conflicts.length > 0) {
    const asked = conflicts;
    const answer = isOver() ? "" : await askAbout(asked);
    conflicts = [];
    if (answer === "yes") await forEach(asked.map(overrule), attempt);
    if (answer === "") left.push(...asked.map(({ change }) => change));
  }
  if (made.length > 0) tell(made, verb);
  return { left, error };
}

/** @param {unknown} error */
function concernsAll(error) {
  return error instanceof ApiError && (error.isOutage || hasStatus(error, PRECONDITION_FAILED));
}

/** Say what was made, and offer to undo it. @param {Change[]} made @param {string} verb */
function tell(made, verb) {
  const opposite = UNDONE[/** @type {keyof typeof UNDONE} */ (verb)];
  const back = made.map(({ before, after }) => ({ before: after, after: before }));
  const mayUndo = opposite && may(verb === "Deleted" ? "plants:create" : "plants:update");
  for (const { before, after } of made) state.selected.delete((before ?? after)?.id ?? "");
  const undo = mayUndo ? () => restore(back, opposite) : undefined;
  const [{ before, after }] = made;
  if (made.length > 1) say(`${verb}: ${countPlants(made.length)}`, { undo });
  else say(`${verb}:`, { plant: after ?? before, isGone: after === null, undo });
}

/** @param {Change[]} changes @param {string} verb */
async function restore(changes, verb) {
  const { left, error } = await make(changes, verb);
  if (error) say(messageOf(error), { undo: () => restore(left, verb) });
  load();
}

/**
 * Make a change.
 *
 * @param {Change} change
 * @returns {Promise<Change|{theirs: ?Plant}>} the change that was made, or the conflicting plant
 */
async function makeOne({ before, after }) {
  const { id } = /** @type {Plant} */ (before ?? after);
  for (let tried = 0; tried < TRIES; tried += 1) {
    const { plant: theirs, etag } = await client.read(id).catch((error) => {
      if (!after || !hasStatus(error, NOT_FOUND)) throw error;
      return { plant: null, etag: "" };
    });
    const merged = merge(before, after, theirs);
    if (merged === undefined) return { theirs };
    if (theirs && !etag) break; // A proxy may drop an empty If-Match, and anything would match.
    try {
      if (!merged) await client.delete(id, etag);
      else if (theirs) await client.replace(merged, etag);
      else await client.create(merged);
      return { before: theirs, after: merged };
    } catch (error) {
      const isLate = error instanceof ApiError && error.error === ID_TAKEN;
      if (!isLate && !hasStatus(error, PRECONDITION_FAILED)) throw error;
    }
  }
  throw new ApiError(UNMATCHED, PRECONDITION_FAILED);
}

/**
 * Merge what I changed with what they changed.
 *
 * @param {?Plant} before @param {?Plant} mine @param {?Plant} theirs
 * @returns {?Plant|undefined} undefined if both have changed the same
 */
export function merge(before, mine, theirs) {
  if (isSame(before, theirs)) return mine;
  if (isSame(mine, theirs)) return theirs;
  if (!before || !mine || !theirs) return undefined;
  const isConflict = FIELDS.some(([field]) => isDisputed(field, before, mine, theirs));
  return isConflict ? undefined : overrule({ change: { before, after: mine }, theirs }).after;
}

/** Return a change that makes mine of theirs: the fields that I changed. @param {Conflict} conflict */
function overrule({ change: { before, after }, theirs }) {
  if (!before || !after || !theirs) return { before: theirs, after };
  const result = { ...theirs };
  for (const [field] of FIELDS) {
    if (after[field] !== before[field]) Object.assign(result, { [field]: after[field] });
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
  const [it, what] =
    conflicts.length === 1
      ? ["it", `plant ${conflicts[0].change.before?.id ?? conflicts[0].change.after?.id}`]
      : ["them", countPlants(conflicts.length)];
  const wording = isDeletion
    ? { text: `Delete ${it} all the same?`, yes: "Delete", no: "Keep theirs", look: "danger" }
    : isGone
      ? { text: "", yes: "Store mine again", no: `Leave ${it} deleted` }
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

/** Do something with each of many. @template T @param {T[]} all @param {(one: T) => Promise<void>} work */
async function forEach(all, work) {
  const queue = all.values();
  const workers = Array.from({ length: PARALLEL }, async () => {
    for (const one of queue) await work(one);
  });
  await Promise.all(workers);
}

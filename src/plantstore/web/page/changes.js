/**
 * Changes of plants, and their undo. No change overwrites what somebody else has changed since the
 * plant was seen: the fields that only one of the two has changed are merged, and for any other
 * field the page asks. What can be undone is kept in the tab, also while the changes are made.
 *
 * @typedef {import("./client.js").Plant} Plant
 * @typedef {{before: ?Plant, after: ?Plant}} Change a plant as it was seen, and as it shall be; null
 *   if it does not exist
 * @typedef {{change: Change, theirs: ?Plant}} Conflict a change, and the plant that is stored now
 * @typedef {{left: Change[], error: unknown}} Rest the changes that were not made, unless the user
 *   gave them up, and the first error
 * @typedef {"Deleted"|"Saved"|"Restored"|"Undone"} Verb
 * @typedef {{verb: Verb, outcome: string, total: number, done: number, made: Change[],
 *   begun: Map<string, Change>, left: Set<Change>, hasTags?: boolean, isStopped?: boolean,
 *   offered?: ?Undo}} Job the changes of a dialog, in all its attempts, or of an undo: those that
 *   were made; by their ids, those that may have been made; all that are left; and the undo that was
 *   offered. `done` counts those that were made before an undo was interrupted
 * @typedef {{verb: Verb, total: number, done: number, changes: Change[], text: string}} Undo the
 *   changes that undo others, how many there are, and how many of them were made already
 */

import { client, computeTag } from "./client.js";
import { ask } from "./dialogs.js";
import { countPlants, number, say } from "./elements.js";
import { load, refreshSoon } from "./listing.js";
import {
  ApiError,
  hasStatus,
  ID_TAKEN,
  messageOf,
  NOT_FOUND,
  PRECONDITION_FAILED,
} from "./requests.js";
import { may, state, update } from "./state.js";
import { keepUndos, readUndos } from "./storage.js";

/** The names of the fields. */
const FIELDS = /** @type {["name"|"tag", string][]} */ ([
  ["name", "Name"],
  ["tag", "Tag"],
]);

/** How often a change is tried that somebody else, or a proxy, gets in the way of. */
const TRIES = 3;

/** How many changes are made at once: as many as a browser opens connections. */
const PARALLEL = 6;

const UNMATCHED =
  "The plant was not changed: its entity tag was missing, or was not the one that was read just before. A proxy in front of the service may change or remove `ETag` or `If-Match`";

/** How many times the progress of a job is shown. */
const STEPS = 20;

/** How many of the last changes can be undone, and how much of a name tells what one was. */
const UNDOS_MAX = 20;
const NAMED_MAX = 50;

/**
 * What is said while and after changes are made, what undoes them, and the scope for that.
 *
 * @type {Record<Verb, {doing: string, outcome: string, undo?: Verb, scope?: string}>}
 */
const VERBS = {
  Deleted: { doing: "Deleting", outcome: "deleted", undo: "Restored", scope: "plants:create" },
  Saved: { doing: "Changing", outcome: "changed", undo: "Undone", scope: "plants:update" },
  Restored: { doing: "Restoring", outcome: "restored" },
  Undone: { doing: "Undoing", outcome: "changed back" },
};

/** @param {Verb} verb @param {number} total @returns {Job} */
export function makeJob(verb, total, done = 0) {
  const { outcome } = VERBS[verb];
  return { verb, outcome, total, done, made: [], begun: new Map(), left: new Set() };
}

/**
 * Make changes, ask about the conflicts, say what was made, and offer to undo it. Nothing is begun
 * any more after the job was stopped or its dialog closed, or after an error that the other changes
 * would get, too.
 *
 * @param {Change[]} changes
 * @param {Job} job
 * @returns {Promise<Rest>}
 */
export async function make(changes, job) {
  /** @type {unknown} */
  let error;
  /** @type {Conflict[]} */
  let conflicts = [];
  const { dialog } = state;
  const isUndo = !VERBS[job.verb].undo; // Its changes may have been made before a reload.
  const isOver = () =>
    job.isStopped || (dialog !== null && state.dialog !== dialog) || concernsAll(error);
  const succeed = (/** @type {Change} */ change, made = change) => {
    job.made.push(made);
    job.left.delete(change);
  };
  const attempt = async (/** @type {Change} */ change) => {
    if (isOver()) return;
    const id = idOf(change);
    const isRepeated = job.begun.has(id);
    job.begun.set(id, change);
    try {
      const result = await makeOne(change, job);
      if ("theirs" in result) conflicts.push({ change, theirs: result.theirs });
      else succeed(change, result);
    } catch (reason) {
      const isGone = !change.after && hasStatus(reason, NOT_FOUND);
      if (isGone && (isRepeated || isUndo)) succeed(change);
      else error ??= reason;
      if (isOutage(reason)) return; // The service may have made it.
    }
    job.begun.delete(id);
    report(job);
  };
  Object.assign(job, { left: new Set(changes), isStopped: false });
  if (changes.length > 1) update({ job });
  // If the computer fails, no event says so. To undo what was not made changes nothing.
  const begun = new Map(changes.map((each) => [idOf(each), each]));
  keepUndos(addUndo(makeUndo({ ...job, begun }), job));
  await forEach(changes, attempt);
  while (conflicts.length > 0) {
    const order = [...job.left];
    const asked = conflicts.sort((a, b) => order.indexOf(a.change) - order.indexOf(b.change));
    const answer = isOver() ? "" : await askAbout(asked, isUndo);
    conflicts = [];
    if (answer === "") continue;
    // What is not undone now, for example since it is deleted, may be undone later.
    if (!isUndo || answer === "yes") for (const { change } of asked) job.left.delete(change);
    const mine = asked
      .map((each) => overrule(each, answer === "no"))
      .filter(({ before, after }) => !isSame(before, after));
    for (const change of mine) job.left.add(change);
    await forEach(mine, attempt);
  }
  if (state.job === job) update({ job: null });
  const failure = isUndo ? error : undefined; // A dialog shows its own.
  if (job.made.length > 0 || job.isStopped || failure) tell(job, failure);
  keepUndos(state.undos);
  return { left: [...job.left], error };
}

/** @param {Change} change */
function idOf({ before, after }) {
  return (before ?? after)?.id ?? "";
}

/** @param {unknown} error */
function isOutage(error) {
  return error instanceof ApiError && error.isOutage;
}

/** @param {unknown} error */
function concernsAll(error) {
  return isOutage(error) || hasStatus(error, PRECONDITION_FAILED);
}

/** Show how far a job is, and what an undo does to the list. @param {Job} job */
function report({ total, made }) {
  if (made.length % Math.ceil(total / STEPS) !== 0) return;
  update();
  if (!state.dialog) refreshSoon();
}

/** Say what a job does. @param {Job} job */
export function describeJob({ verb, total, done, made }) {
  const many = number(done + made.length);
  return {
    text: `${VERBS[verb].doing} ${countPlants(total)}`,
    progress: `${many} of ${number(total)}`,
  };
}

/**
 * Return what undoes the changes of a job that were made or may have been made; or if the job is an
 * undo, what continues it.
 *
 * @param {Job} job @returns {?Undo}
 */
function makeUndo(job) {
  const { verb, outcome, total, done, made, begun, left } = job;
  const { undo, scope } = VERBS[verb];
  const back = [...made, ...begun.values()].map(({ before, after }) => ({
    before: after,
    after: before,
  }));
  const changes = undo ? back : [...left];
  if (changes.length === 0 || !may(scope)) return null;
  const text = `Interrupted: ${describeJob(job).progress} ${outcome}`;
  if (undo) return { verb: undo, total: changes.length, done: 0, changes, text };
  return { verb, total, done: done + made.length, changes, text };
}

/** Say what was made, or why not all was, and offer to undo it. @param {Job} job @param {unknown} failure */
function tell(job, failure) {
  const { verb, outcome, done, made, isStopped } = job;
  for (const change of made) state.selected.delete(idOf(change));
  const undo = makeUndo(job);
  const many = done + made.length;
  if (failure) offer(undo, `${messageOf(failure)}. ${undo?.text}`, {}, job);
  else if (isStopped) offer(undo, `Stopped: ${describeJob(job).progress} ${outcome}`, {}, job);
  else if (many > 1) offer(undo, `${countPlants(many)} ${outcome}`, {}, job);
  else {
    const [{ before, after }] = made;
    offer(undo, `${verb}:`, { plant: after ?? before, isGone: after === null }, job);
  }
}

/**
 * Say something, and offer an undo.
 *
 * @param {?Undo} undo @param {string} text @param {{plant?: ?Plant, isGone?: boolean}} [about]
 * @param {Job} [job] whose undo was offered before
 */
function offer(undo, text, about, job) {
  const { id, name = "" } = about?.plant ?? {};
  const label = id ? `${job?.verb ?? "Added"} ${id} ${name.slice(0, NAMED_MAX)}` : text;
  const last = undo && { ...undo, text: undo.done > 0 ? undo.text : label };
  update({ undos: addUndo(last, job) });
  if (job) job.offered = last;
  say(text, { ...about, isOffer: undo !== null });
}

/** Return what can be undone, with the last change. @param {?Undo} undo @param {Job} [job] as above */
function addUndo(undo, job) {
  const others = state.undos.filter((each) => each !== job?.offered);
  return [...others, undo ?? []].flat().slice(-UNDOS_MAX);
}

/**
 * Say that changes were made in another way, and offer to undo them.
 *
 * @param {Change[]} changes that undo them @param {string} text @param {?Plant} [plant]
 */
export function offerUndo(changes, text, plant) {
  offer({ verb: "Undone", total: changes.length, done: 0, changes, text }, text, { plant });
  keepUndos(state.undos);
}

/** Undo a change, the last one or another, or continue its undo. @param {Undo} [undo] */
export async function undoChange(undo = state.undos.at(-1)) {
  if (!undo) return;
  const { verb, total, done, changes } = undo;
  const job = makeJob(verb, total, done);
  if (verb === "Undone" && changes.every(({ after }) => !after)) job.outcome = "removed";
  const at = state.undos.indexOf(undo);
  update({ undos: state.undos.toSpliced(at, 1), toast: { text: "" } });
  const { left } = await make(changes, job);
  if (left.length > 0 && !job.offered) {
    update({ undos: state.undos.toSpliced(at, 0, undo) });
    keepUndos(state.undos);
    say("Nothing was undone");
  }
  load();
}

/** Keep what can be undone of the job that runs: the page is about to go. */
export function keepJob() {
  if (state.job) keepUndos(addUndo(makeUndo(state.job), state.job));
}

/** Offer what could be undone before the tab was reloaded. */
export function resume() {
  const undos = readUndos();
  update({ undos });
  if (undos.length > 0) say(undos.at(-1)?.text ?? "", { isOffer: true });
}

/**
 * Make a change. After the first plants of a job were read, the entity tags of the others are
 * computed from what the user saw, if the service and the proxies before it send such tags.
 *
 * @param {Change} change
 * @param {Job} job
 * @returns {Promise<Change|{theirs: ?Plant}>} the change that was made, or the conflicting plant
 */
async function makeOne({ before, after }, job) {
  const id = idOf({ before, after });
  let [theirs, etag] = [before, before && job.hasTags ? await computeTag(before) : ""];
  for (let tried = 0; tried < TRIES; tried += 1) {
    if (tried > 0 || (before && !etag)) {
      ({ plant: theirs, etag } = await client.read(id).catch((error) => {
        if (!after || !hasStatus(error, NOT_FOUND)) throw error;
        return { plant: null, etag: "" };
      }));
      if (theirs) job.hasTags ??= etag === (await computeTag(theirs));
    }
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
 * @param {Conflict[]} conflicts @param {boolean} isUndo of a change; then the user may have made the other
 * @returns {Promise<string>} "yes" for mine, "no" for theirs, "" for neither
 */
function askAbout(conflicts, isUndo) {
  const isDeletion = conflicts.every(({ change }) => !change.after);
  const isGone = conflicts.every(({ theirs }) => !theirs);
  const isOne = conflicts.length === 1;
  const it = isOne ? "it" : "them";
  const what = isOne ? `plant ${idOf(conflicts[0].change)}` : countPlants(conflicts.length);
  const happened = isGone ? "deleted" : "changed";
  const [mine, restore, theirs] = isUndo
    ? ["Undo all the same", `Restore ${it}`, isOne ? "Leave it as it is" : "Leave them as they are"]
    : ["Save mine", "Restore mine", "Keep theirs"];
  const wording = isDeletion
    ? { text: `Delete ${it} all the same?`, yes: "Delete", no: theirs, look: "danger" }
    : isGone
      ? { text: "", yes: restore, no: `Leave ${it} deleted` }
      : { text: "Which do you want to keep?", yes: mine, no: theirs };
  const [now, then] = isUndo ? ["Now", "Before"] : ["Theirs", "Mine"];
  return ask({
    title: isUndo
      ? `Since then, ${what} ${isOne ? "was" : "were"} ${happened}`
      : `Somebody else has ${happened} ${what}`,
    ...wording,
    columns: isDeletion ? ["You saw", "It is now"] : [now, then],
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
export async function forEach(all, work) {
  const queue = all.values();
  const workers = Array.from({ length: PARALLEL }, async () => {
    for (const one of queue) await work(one);
  });
  await Promise.all(workers);
}

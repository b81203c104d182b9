/**
 * The import itself: one request sends the plants of a preview, whose dialog shows its progress, and
 * what is left to do when it has ended.
 *
 * @typedef {import("./plan.js").Preview} Preview
 * @typedef {import("./plan.js").Plan} Plan
 */

import { client } from "./client.js";
import { actUntilStopped, Frame } from "./dialogs.js";
import { number, say } from "./elements.js";
import { html } from "./html.js";
import { enumerate, writePlan } from "./plan.js";
import { listRefused, RefusedRows, readRefused } from "./refused.js";
import { ApiError, CHANGED, messageOf } from "./requests.js";
import { attempt, findScope, finish, makeAction } from "./sets.js";
import { change, state, update } from "./state.js";

/** What became of plants that are not what the preview showed. */
const KEPT = "changed by others and kept";

/** What has become of no rows. */
const NOTHING = { stored: 0, already_stored: 0, replaced: 0, skipped: 0, refused: 0, kept: 0 };

/** How many ids the service gives at once. */
const IDS_MAX = 1000;

/**
 * Import what the user has seen. If it fails or is stopped, the same plants can be sent again.
 *
 * @param {Preview} preview
 * @returns {Promise<string|undefined>} what to say if something is left to do
 */
export async function importPlants(preview) {
  const { dialog } = state;
  preview.isSent = true;
  const isDone = await actUntilStopped(
    (signal) => send(preview, signal),
    "The service is storing the plants…",
  );
  if (!isDone) return "Stopped";
  change(dialog, { isDisposable: true });
  if (preview.refused) return `Imported: ${describeResult(/** @type {Plan} */ (preview.plan))}`;
  update({ toast: { ...state.toast, link: linkTo(/** @type {Plan} */ (preview.plan)) } });
  return undefined;
}

/** @param {Preview} preview @param {AbortSignal} signal */
async function send(preview, signal) {
  const plan = /** @type {Plan} */ (preview.plan);
  plan.action ??= await begin(plan, signal);
  const { action } = plan;
  const isContinued = action.set !== "";
  const make = () => store(plan, { set: action.set, signal }, isContinued);
  const { result, isRecorded } = await attempt(action, make, signal);
  plan.result = result;
  const { stored, replaced, kept = 0 } = result;
  const many = stored + replaced;
  const counts = [`${number(stored)} new`, `${number(replaced)} changed`];
  if (kept > 0) counts.push(`${number(kept)} ${KEPT}`);
  const text = replaced + kept > 0 ? `${counts.join(", ")}: ${plan.file.name}` : undefined;
  finish(action, many, { isRecorded, isChanged: many > 0 }, undefined, text);
  if (many === 0) say(`Nothing was imported: ${describeResult(plan)}`);
  preview.isDone = true;
  preview.refused = readRefused(plan, result);
  if (!preview.refused) return;
  const { write } = await import("./csv.js");
  const rows = `\ufeff${write(listRefused(plan, preview.refused), plan.table.separator)}`;
  const url = URL.createObjectURL(new Blob([rows], { type: "text/csv" }));
  preview.saved = { name: `${plan.base}-refused.csv`, url };
}

/**
 * Give ids to the rows that have none, and leave the rows that change plants out of the file: they are
 * sent as changes of the plants that the preview showed.
 *
 * @param {Plan} plan @param {AbortSignal} signal
 */
async function begin(plan, signal) {
  const { result, changing } = plan;
  const isUpdate = plan.conflict === "replace";
  plan.changes = isUpdate ? changing.map(({ old, plant }) => ({ before: old, after: plant })) : [];
  const changed = new Set(plan.changes.map(({ after }) => after?.id));
  plan.sent = plan.sent.filter(({ plant }) => !changed.has(plant.id));
  const unnumbered = plan.sent.filter(({ plant }) => plant.id === "");
  const ids = await takeIds(unnumbered.length, signal);
  await writePlan(plan, ids.values(), signal);
  for (const [at, { plant }] of unnumbered.entries()) plant.id = ids[at];
  const total = plan.sent.length + plan.changes.length;
  return makeAction(`imported: ${plan.file.name}`, total, findScope(result), true);
}

/**
 * Store the new plants, and change those that still are what the preview showed.
 *
 * @param {Plan} plan @param {{set: string, signal: AbortSignal}} options
 * @param {boolean} isContinued whether the set may have changes of an attempt before
 */
async function store({ file, conflict, changes = [] }, options, isContinued) {
  const { set, signal } = options;
  const keeps = conflict === "replace";
  const answer = await client.import(file, { ...options, conflict: keeps ? "skip" : conflict });
  const { result } = answer;
  if (keeps) [result.kept, result.skipped] = [result.skipped, 0];
  if (changes.length > 0) {
    const { result: made, isRecorded } = await client.change(changes, options);
    const other = made.errors.find(({ error }) => error !== CHANGED);
    if (other) throw new ApiError(other.message, 400);
    result.replaced += made.replaced;
    result.already_stored += made.already_stored;
    result.kept = (result.kept ?? 0) + made.refused;
    answer.isRecorded ||= isRecorded;
  }
  // The service knows what all attempts have made, unless the token does not permit the undo.
  const all = isContinued && answer.isRecorded;
  const counts = all ? await client.undo(set, { isDry: true, signal }).catch(messageOf) : "";
  if (typeof counts !== "string") {
    const rows = result.stored + result.replaced + result.already_stored;
    result.stored = counts.deleted;
    result.replaced = counts.restored + counts.kept;
    result.already_stored = Math.max(0, rows - result.stored - result.replaced);
  }
  signal.throwIfAborted();
  return answer;
}

/** @param {number} many @param {AbortSignal} signal */
async function takeIds(many, signal) {
  /** @type {string[]} */
  const ids = [];
  for (let left = many; left > 0; left -= IDS_MAX) {
    const { first, last } = await client.takeIds(Math.min(left, IDS_MAX), signal);
    ids.push(...enumerate(BigInt(first), BigInt(last)));
    signal.throwIfAborted();
  }
  return ids;
}

/** Return a link to the plants that were imported, if all of them are new. @param {Plan} plan */
function linkTo({ sent, changes = [], result }) {
  if (sent.length === 0 || result?.stored !== sent.length + changes.length) return null;
  const [first] = sent
    .map(({ plant }) => BigInt(plant.id))
    .sort((one, other) => (one < other ? -1 : 1));
  return html`<a href="?after=${first - 1n}">Show them</a>`;
}

/** The dialog while plants are sent, and afterwards if rows were refused. @param {{preview: Preview}} props */
export function SentView({ preview: { isDone, saved, refused } }) {
  const isRunning = Boolean(state.dialog?.stop);
  return html`
    <${Frame} id="preview" cancel="Close" buttons=${isDone ? [] : [["import", "Try again", "primary"]]}>
      <progress hidden=${!isRunning} aria-label="Import" />
      ${isDone && refused && html`<${RefusedRows} ...${refused} />`}
      ${saved && html`<p><a class="button" href=${saved.url} download=${saved.name}>Save the refused rows</a></p>`}
      <p class="hint">${!isDone && !isRunning && "Importing the same file again is safe."}</p>
    <//>
  `;
}

/**
 * Say what becomes of the rows, or became of them. A dry run has told how many plants an update would
 * change.
 *
 * @param {Plan} plan
 */
export function describeResult({ result, faults, conflict, same, left }) {
  const { stored, already_stored, replaced, skipped, refused, kept } = { ...NOTHING, ...result };
  const change = conflict === "skip" ? 0 : replaced;
  const counts = {
    ...{ new: stored, "the same": already_stored + same, change },
    ...{ skipped: left + skipped + replaced - change, [KEPT]: kept },
    refused: refused + faults.size,
  };
  const parts = Object.entries(counts).filter(([what, many]) => many > 0 || what === "new");
  return parts.map(([what, many]) => `${number(many)} ${what}`).join(", ");
}

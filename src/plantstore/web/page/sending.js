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
import { attempt, findScope, finish, makeAction } from "./sets.js";
import { change, state, update } from "./state.js";

const SAFE = "Importing the same file again is safe.";

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
  const unnumbered = plan.sent.filter(({ plant }) => plant.id === "");
  if (unnumbered.length > 0) {
    const ids = await takeIds(unnumbered.length, signal);
    await writePlan(plan, ids.values(), signal);
    for (const [at, { plant }] of unnumbered.entries()) plant.id = ids[at];
  }
  const { file, conflict } = plan;
  const what = `imported: ${file.name}`;
  plan.action ??= makeAction(what, plan.sent.length, findScope(plan.result), true);
  const { action } = plan;
  const store = async () => {
    const answer = await client.import(file, { conflict, signal, set: action.set });
    signal.throwIfAborted();
    return answer;
  };
  const { result, isRecorded } = await attempt(action, store, signal);
  plan.result = result;
  const many = result.stored + result.replaced;
  const both = `${number(result.stored)} new, ${number(result.replaced)} changed: ${file.name}`;
  const text = result.replaced > 0 ? both : undefined;
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
function linkTo({ sent, result }) {
  if (sent.length === 0 || result?.stored !== sent.length) return null;
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
      <p class="hint">${!isDone && !isRunning && SAFE}</p>
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
  const { stored = 0, already_stored = 0, replaced = 0, skipped = 0, refused = 0 } = result ?? {};
  const change = conflict === "skip" ? 0 : replaced;
  const counts = {
    ...{ new: stored, "the same": already_stored + same, change },
    ...{ skipped: left + skipped + replaced - change, refused: refused + faults.size },
  };
  const parts = Object.entries(counts).filter(([what, many]) => many > 0 || what === "new");
  return parts.map(([what, many]) => `${number(many)} ${what}`).join(", ");
}

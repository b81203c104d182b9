/**
 * The import on the page: files are taken, and after their preview one request sends the plants, whose
 * progress and result are shown.
 *
 * @typedef {import("./plan.js").Plan} Plan
 * @typedef {{plan?: Plan, file?: File, sent?: number, said?: string, problem?: string,
 *   canRetry?: boolean, refused?: import("./refused.js").Refused, numbered?: string,
 *   files?: SavedFile[]}} Import has the file and the number of its bytes that are sent while it
 *   runs, and its result or problem when it has ended
 * @typedef {{label: string, name: string, url: string}} SavedFile
 */

import { client } from "./client.js";
import { describeSent, focus, number, say } from "./elements.js";
import { html } from "./html.js";
import { load } from "./listing.js";
import { listRefused, RefusedRows, readRefused } from "./refused.js";
import { ApiError } from "./requests.js";
import { attempt, findScope, finish, makeAction } from "./sets.js";
import { may, state, update } from "./state.js";

const SAFE = "Importing the same file again is safe.";
const ONE = "Import one file at a time";

/** How many ids the service gives at once. */
const IDS_MAX = 1000;

/** Stops the import that runs. @type {?AbortController} */
let running = null;

/** Stop the import, if one runs. Stored plants remain. */
export function stopImport() {
  running?.abort();
}

/** Whether an import runs. */
export function isImporting() {
  return running !== null && !running.signal.aborted;
}

/** @param {On<HTMLInputElement>} event */
export function chooseFile({ currentTarget }) {
  take(currentTarget.files);
  currentTarget.value = ""; // The same file may be chosen again.
}

/** Take files that are dropped on the page. */
export function watchFiles() {
  const takesFiles = () => state.isSignedIn && may("plants:create") && !state.dialog;
  document.ondragover = document.ondrop = (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault(); // otherwise the browser would open the file
    update({ isDropping: event.type === "dragover" && takesFiles() });
    if (event.type === "drop" && takesFiles()) take(event.dataTransfer.files);
  };
  document.ondragleave = () => update({ isDropping: false });
}

/** Show the preview of a file. @param {?FileList} files */
function take(files) {
  const [file, other] = files ?? []; // The list is empty soon.
  if (other) say(ONE);
  else if (file) show(({ openPreview }) => openPreview(file, startImport));
}

/** @param {(module: typeof import("./preview.js")) => void} act */
function show(act) {
  if (running) say(ONE);
  else {
    const open = (/** @type {typeof import("./preview.js")} */ module) =>
      state.dialog || act(module);
    import("./preview.js").then(open, () => say("It cannot be loaded"));
  }
}

/** Import what the user has seen. @param {Plan} plan */
export async function startImport(plan) {
  running = new AbortController();
  const { signal } = running;
  const { files = [], numbered } = state.importing;
  // The file with ids remains if it is tried again.
  const kept = plan === state.importing.plan ? { files, numbered } : { files: [] };
  if (kept.files.length === 0) for (const { url } of files) URL.revokeObjectURL(url);
  update({ importing: { plan, file: plan.file, sent: 0, ...kept } });
  focus("#import-title");
  const end = await send(plan, signal);
  running = null;
  update({ importing: { ...state.importing, sent: undefined, ...end } });
  load();
}

/**
 * Return how an import ended.
 *
 * @param {Plan} plan @param {AbortSignal} signal
 * @returns {Promise<Import>}
 */
async function send(plan, signal) {
  const tell = (/** @type {Import} */ changes) =>
    update({ importing: { ...state.importing, ...changes } });
  try {
    if (plan.giveIds) {
      const ranges = await takeIds(plan.unnumbered, signal);
      plan = await plan.giveIds(enumerate(ranges), signal);
      const [first, last] = [ranges[0].first, ranges.at(-1)?.last];
      const numbered = `New ids: ${first === last ? first : `${first} to ${last}`}.`;
      tell({ plan, file: plan.file, numbered });
      save("Save the file with its ids", plan.own);
    }
    const { file, replaces } = plan;
    plan.action ??= makeAction(
      `imported: ${file.name}`,
      plan.ids.length,
      findScope(plan.result),
      true,
    );
    const { action } = plan;
    const onsent = (/** @type {number} */ sent) => tell({ sent });
    const store = async () => {
      const answer = await client.import(file, { replaces, signal, onsent, set: action.set });
      signal.throwIfAborted();
      return answer;
    };
    const { result, isRecorded } = await attempt(action, store, signal);
    const many = result.stored + result.replaced;
    finish(action, many, { isRecorded, isChanged: many > 0 });
    const refused = readRefused(plan, result);
    if (refused) {
      const { write } = await import("./csv.js");
      const text = `\ufeff${write(listRefused(plan, refused), plan.table.separator)}`;
      save("Save the refused rows", new File([text], `${plan.base}-refused.csv`));
    }
    return { said: describe(plan, result), refused };
  } catch (error) {
    if (signal.aborted) return { problem: `Stopped. ${SAFE}`, canRetry: true };
    if (!(error instanceof ApiError)) throw error;
    return { problem: explain(error), canRetry: error.status !== 400 };
  }
}

/** Offer to save a file. @param {string} label @param {File} [file] */
function save(label, file) {
  if (!file) return;
  const saved = { label, name: file.name, url: URL.createObjectURL(file) };
  const { files = [] } = state.importing;
  const others = files.filter((other) => other.label !== label);
  update({ importing: { ...state.importing, files: [...others, saved] } });
}

/** @param {number} many @param {AbortSignal} signal */
async function takeIds(many, signal) {
  const ranges = [];
  for (let left = many; left > 0; left -= IDS_MAX) {
    ranges.push(await client.takeIds(Math.min(left, IDS_MAX), signal));
    signal.throwIfAborted();
  }
  return ranges;
}

/** @param {{first: string, last: string}[]} ranges */
function* enumerate(ranges) {
  for (const { first, last } of ranges) {
    for (let id = BigInt(first); id <= BigInt(last); id += 1n) yield String(id);
  }
}

/** Screen readers announce only changes of elements that exist, so these always do. */
export function Importing() {
  const { plan, file, files = [], sent = -1, canRetry, refused, ...shown } = state.importing;
  const [size, isRunning] = [file?.size ?? 0, sent >= 0];
  const isSent = sent >= size;
  const name = isRunning ? "Stop" : "Try again";
  const act = isRunning ? stopImport : () => plan && startImport(plan);
  const close = () => isRunning || update({ importing: {} });
  const makeLink = (/** @type {SavedFile} */ { label, name, url }) =>
    html`<a class="button" href=${url} download=${name}>${label}</a>`;
  return html`
    <section id="import" aria-labelledby="import-title" hidden=${!file}
        onkeydown=${(/** @type {KeyboardEvent} */ { key }) => key === "Escape" && close()}>
      <h2 id="import-title" tabindex="-1">Import</h2>
      <label for="progress" id="import-file">${file?.name}</label>
      <progress id="progress" key=${isSent} hidden=${!isRunning} max=${size}
        value=${isSent ? undefined : sent} />
      <p id="import-sent" class="hint">${isRunning && !isSent && describeSent(sent, size)}</p>
      <p id="import-said" role="status">${isSent ? describeSent(sent, size) : shown.said}</p>
      <p id="import-ids" role="status">${shown.numbered}</p>
      <p id="import-error" class="error" role="alert">${shown.problem}</p>
      <div class="tools">
        ${(isRunning || canRetry) && html`<button type="button" onclick=${act}>${name}</button>`}
        ${files.map(makeLink)}
        <button type="button" hidden=${isRunning} onclick=${close}>Close</button>
      </div>
      ${refused && html`<${RefusedRows} ...${refused} />`}
    </section>
  `;
}

/** What opens the preview: a file, or rows that are copied. */
export function ImportButtons() {
  return html`
    <label class="button">
      Import <input id="file" type="file" accept=".csv,.tsv,.txt,.xlsx,.xls,.ods,text/csv" onchange=${chooseFile} />
    </label>
    <button id="paste-rows" type="button" onclick=${() => show(({ pasteRows }) => pasteRows(startImport))}>
      Paste rows
    </button>
  `;
}

/** @param {Plan} plan @param {import("./client.js").ImportResult} result */
function describe(plan, { stored, already_stored, replaced, refused }) {
  const all = refused + plan.faults.size;
  const counts = { stored, "already there": already_stored, updated: replaced, refused: all };
  const parts = Object.entries(counts)
    .filter(([what, count]) => count > 0 || what === "stored")
    .map(([what, count]) => `${number(count)} ${what}`);
  return `Import finished: ${parts.join(", ")}.`;
}

/** Say why an import failed, and whether rows may be stored. @param {ApiError} error */
function explain({ message, isOutage, error }) {
  return isOutage || error === 0 ? `${message}. ${SAFE}` : message;
}

/**
 * The import on the page: files are taken, and after their preview one request sends the plants, whose
 * progress and result are shown. An import of some plants can be undone by what the feed says.
 *
 * @typedef {import("./plan.js").Plan} Plan
 * @typedef {import("./client.js").Plant} Plant
 * @typedef {{plan?: Plan, file?: File, sent?: number, said?: string, problem?: string,
 *   canRetry?: boolean, refused?: import("./refused.js").Refused, numbered?: string,
 *   files?: SavedFile[]}} Import has the file and the number of its bytes that are sent while it
 *   runs, and its result or problem when it has ended
 * @typedef {{label: string, name: string, url: string}} SavedFile
 */

import { forEach, offerUndo } from "./changes.js";
import { client } from "./client.js";
import { countPlants, focus, number, say } from "./elements.js";
import { html } from "./html.js";
import { load } from "./listing.js";
import { listRefused, RefusedRows, readRefused } from "./refused.js";
import { ApiError, hasStatus, ID_TAKEN, messageOf, NOT_FOUND } from "./requests.js";
import { may, state, update } from "./state.js";

const STORING = "Everything is sent. The service is storing the plants…";
const MAYBE = "Rows that were sent may be stored.";
const SAFE = "Importing the same file again is safe.";
const ONE = "Import one file at a time";

/** How many ids the service gives at once. */
const IDS_MAX = 1000;

/** Of how many plants an import can be undone: each is a request. */
const UNDO_MAX = 10_000;

/** How many refused rows the service lists. Plants that change are found as rows that are refused. */
const LISTED_MAX = 1000;

/** How many pages of changes are searched for those of an import. */
const PAGES_MAX = 20;

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
  else if (file) show(({ openPreview }) => openPreview(file));
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
    plan.restorable ??= await prepareUndo(plan, signal);
    const result = await client.import(plan.file, plan.replaces, signal, (sent) => tell({ sent }));
    signal.throwIfAborted();
    const refused = readRefused(plan, result);
    if (refused) {
      const { write } = await import("./csv.js");
      const text = `\ufeff${write(listRefused(plan, refused), plan.table.separator)}`;
      save("Save the refused rows", new File([text], `${plan.base}-refused.csv`));
    }
    return { said: describe(plan, result), refused };
  } catch (error) {
    if (signal.aborted) return { problem: `Stopped. ${MAYBE} ${SAFE}`, canRetry: true };
    if (!(error instanceof ApiError)) throw error;
    return { problem: explain(error, plan), canRetry: error.status !== 400 };
  } finally {
    offerToUndo(plan);
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

/** Whether an import of which a dry run says this is too large for an undo. @param {Plan} plan */
export function isBeyondUndo({ result }) {
  const { stored = 0, replaced = 0, refused = 0 } = result ?? {};
  return stored + replaced > UNDO_MAX || (replaced > 0 && replaced + refused > LISTED_MAX);
}

/**
 * Return the ids of the plants that an import replaces, which a dry run without updates refuses, and
 * whether these are all.
 *
 * @param {Plan} plan @param {AbortSignal} signal
 */
export async function findReplaced({ file, ids, lines }, signal) {
  const { errors, refused } = await client.import(file, false, signal, () => {}, true);
  const taken = errors.filter(({ error }) => error === ID_TAKEN);
  const replaced = [...new Set(taken.map(({ line }) => ids[lines.indexOf(line)]))];
  return { replaced, isWhole: refused <= errors.length };
}

/**
 * Return what an undo needs to know before the import: the number of the last change, and the plants
 * that the import replaces.
 *
 * @typedef {{after: string, old: Map<string, Plant>}} Restorable
 * @param {Plan} plan @param {AbortSignal} signal
 * @returns {Promise<?Restorable>} null if the import cannot be undone
 */
async function prepareUndo(plan, signal) {
  const { stored = 0, replaced = 0 } = plan.result ?? {};
  const scopes = ["plants:read", "plants:delete", "changes:read"];
  if (stored + replaced === 0 || isBeyondUndo(plan) || !scopes.every(may)) return null;
  const old = new Map();
  try {
    if (replaced > 0) {
      const found = await findReplaced(plan, signal);
      if (!found.isWhole) return null;
      await forEach(found.replaced, async (id) => {
        signal.throwIfAborted();
        const found = await client.read(id, signal).catch((error) => {
          if (!hasStatus(error, NOT_FOUND)) throw error;
        });
        if (found) old.set(id, found.plant);
      });
    }
    return { after: (await client.readChanges("now", signal)).end, old };
  } catch (error) {
    if (signal.aborted || !(error instanceof ApiError)) throw error;
    return null; // The feed may be off.
  }
}

/** Offer to undo what an import has changed, if the feed of changes says it. @param {Plan} plan */
async function offerToUndo({ columns, ids, readSent, restorable }) {
  if (!restorable) return;
  const { after, old } = restorable;
  const [now, created] = [new Map(), new Set()];
  try {
    for (let from = after, pages = 0; pages < PAGES_MAX; pages += 1) {
      const { changes, end } = await client.readChanges(from);
      for (const { change, plant } of changes) {
        now.set(plant.id, plant);
        if (change === "created") created.add(plant.id);
      }
      if (changes.length === 0) break;
      from = end;
    }
  } catch (error) {
    messageOf(error); // The service is away, or the user signed out.
    return;
  }
  const changed = new Map();
  for (const [at, id] of ids.entries()) {
    const { name, tag } = readSent(at);
    const plant = now.get(id);
    const isImported = plant?.name === name && (columns.tag < 0 || plant.tag === tag);
    if (isImported && (created.has(id) || old.has(id))) changed.set(id, plant);
  }
  const changes = [...changed].map(([id, before]) => ({ before, after: old.get(id) ?? null }));
  if (changes.length > 0 && state.isSignedIn)
    offerUndo(changes, `${countPlants(changes.length)} imported`);
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
      <p id="import-sent" class="hint">${isRunning && !isSent && measure(sent, size)}</p>
      <p id="import-said" role="status">${isSent ? STORING : shown.said}</p>
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
      Import <input id="file" type="file" accept=".csv,.tsv,.txt,.xlsx,text/csv" onchange=${chooseFile} />
    </label>
    <button id="paste-rows" type="button" onclick=${() => show(({ pasteRows }) => pasteRows())}>
      Paste rows
    </button>
  `;
}

/** @param {number} bytes @param {number} size */
function measure(bytes, size) {
  const [unit, name] = size < 1e6 ? [1e3, "kB"] : [1e6, "MB"];
  const digits = { minimumFractionDigits: 1, maximumFractionDigits: 1 };
  const [sent, all] = [bytes, size].map((each) => (each / unit).toLocaleString("en", digits));
  return `${sent} of ${all} ${name} sent`;
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

/** Say why an import failed, and what is stored. @param {ApiError} error @param {Plan} plan */
function explain({ message, status, error, linesStoredThrough }, { lines, indexes }) {
  if (linesStoredThrough) {
    const last = lines.findLastIndex((line) => line <= linesStoredThrough);
    const stored = `The rows up to ${number((indexes[last] ?? 0) + 1)} are stored, unless they were refused`;
    return `${message}. ${stored}; later rows may be stored, too. ${SAFE}`;
  }
  const isUnknown = error === 0 || status === 500 || linesStoredThrough === 0;
  return status === 400 || !isUnknown ? message : `${message}. ${MAYBE} ${SAFE}`;
}

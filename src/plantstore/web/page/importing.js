/**
 * The import on the page: files are taken, and after their preview one request sends the plants, whose
 * progress and result are shown.
 *
 * @typedef {import("./plan.js").Plan} Plan
 * @typedef {{plan?: Plan, file?: File, isRunning?: boolean, said?: string, problem?: string,
 *   canRetry?: boolean, refused?: import("./refused.js").Refused, files?: SavedFile[]}} Import has
 *   what is left to do when it has ended
 * @typedef {{label: string, name: string, url: string}} SavedFile
 */

import { client } from "./client.js";
import { Frame, open } from "./dialogs.js";
import { focus, number, say } from "./elements.js";
import { html, renew } from "./html.js";
import { loadAgain } from "./listing.js";
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

/** Take what is dropped on the page, or pasted outside of text fields. */
export function watchFiles() {
  const takesFiles = () =>
    state.isSignedIn && may("plants:create") && (!state.dialog || state.dialog.View === ImportView);
  document.ondragover = document.ondrop = (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault(); // otherwise the browser would open the file
    update({ isDropping: event.type === "dragover" && takesFiles() });
    if (event.type === "drop" && takesFiles()) take(event.dataTransfer.files);
  };
  document.ondragleave = () => update({ isDropping: false });
  document.onpaste = (event) => {
    const { files, text } = readPasted(event.clipboardData);
    const isText = /** @type {Element} */ (event.target).closest("input, textarea:not(#pasted)");
    if (!takesFiles() || (files.length === 0 && (isText || !text.trim()))) return;
    event.preventDefault();
    if (files.length > 0) take(files);
    else takeRows(text);
  };
}

/** @param {?DataTransfer} data that was pasted */
function readPasted(data) {
  return { files: [...(data?.files ?? [])], text: data?.getData("text/plain") ?? "" };
}

/** Show the preview of a file. @param {Iterable<File>|null} files */
function take(files) {
  const [file, other] = files ?? []; // The list is empty soon.
  if (other) say(ONE);
  else if (file) show(file);
}

/** Show the preview of rows that were copied. @param {string} text */
function takeRows(text) {
  show(new File([text], "Pasted rows"), true);
}

/** @param {File} file */
function show(file, isPasted = false) {
  const { dialog } = state;
  if (running) say(ONE);
  else
    import("./preview.js").then(
      ({ openPreview }) => state.dialog === dialog && openPreview(file, startImport, isPasted),
      () => say("It cannot be loaded"),
    );
}

/** Ask for a file, or for rows. */
export function chooseImport() {
  const dialog = { View: ImportView, title: "Import plants", content: {}, act: async () => {} };
  open({ ...dialog, isDisposable: true });
}

function ImportView() {
  const type = (/** @type {On<HTMLTextAreaElement>} */ { currentTarget: { value } }) =>
    takeRows(value);
  return html`
    <${Frame} id="choosing" fields=${["rows"]} buttons=${[]}>
      <p>
        <label class="button primary">
          Choose a file
          <input id="file" type="file" accept=".csv,.tsv,.txt,.xlsx,.xls,.ods,text/csv" onchange=${chooseFile} />
        </label>
      </p>
      <p class="hint">
        A CSV file or a workbook. You can also drop it anywhere on the page.
      </p>
      <label for="pasted">Or paste rows of a spreadsheet</label>
      <textarea id="pasted" rows="4" dir="auto" spellcheck=${false} autofocus oninput=${type} />
    <//>
  `;
}

/** Import what the user has seen. @param {Plan} plan */
export async function startImport(plan) {
  running = new AbortController();
  const { signal } = running;
  // The file with ids remains if it is tried again.
  const { files = [] } = plan === state.importing.plan ? state.importing : {};
  update({ importing: { plan, file: plan.file, isRunning: true, files } });
  focus("#import-title");
  const end = await send(plan, signal);
  running = null;
  const { files: saved = [] } = state.importing;
  const isOver = !end.refused && !end.problem;
  update({ importing: isOver ? {} : { ...state.importing, isRunning: false, ...end } });
  if (isOver) focus("#plants-title");
  if (isOver) update({ toast: { ...state.toast, link: saved.map(makeLink) } });
  loadAgain();
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
      tell({ plan, file: plan.file });
      save("Save the file with its ids", plan.own);
    }
    const { file, conflict } = plan;
    plan.action ??= makeAction(
      `imported: ${file.name}`,
      plan.ids.length,
      findScope(plan.result),
      true,
    );
    const { action } = plan;
    const store = async () => {
      const answer = await client.import(file, { conflict, signal, set: action.set });
      signal.throwIfAborted();
      return answer;
    };
    const { result, isRecorded } = await attempt(action, store, signal);
    const many = result.stored + result.replaced;
    const both = `${number(result.stored)} new, ${number(result.replaced)} changed: ${file.name}`;
    const text = result.replaced > 0 ? both : undefined;
    finish(action, many, { isRecorded, isChanged: many > 0 }, undefined, text);
    const said = describe(plan, result);
    const refused = readRefused(plan, result);
    if (many === 0 && !refused) say(said);
    if (refused) {
      const { write } = await import("./csv.js");
      const rows = `\ufeff${write(listRefused(plan, refused), plan.table.separator)}`;
      save("Save the refused rows", new File([rows], `${plan.base}-refused.csv`));
    }
    return { said, refused };
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

/** @param {SavedFile} file */
function makeLink({ label, name, url }) {
  return html`<a class="button" href=${url} download=${name}>${label}</a>`;
}

/** Screen readers announce only changes of elements that exist, so these always do. */
export function Importing() {
  const { plan, file, files = [], isRunning, canRetry, refused, ...shown } = state.importing;
  const name = isRunning ? "Stop" : "Try again";
  const act = isRunning ? stopImport : () => plan && startImport(plan);
  const close = () => isRunning || update({ importing: {} });
  return html`
    <section id="import" aria-labelledby="import-title" hidden=${!file}
        onkeydown=${(/** @type {KeyboardEvent} */ { key }) => key === "Escape" && close()}>
      <h2 id="import-title" tabindex="-1">Import</h2>
      <label for="progress" id="import-file">${file?.name}</label>
      <progress id="progress" hidden=${!isRunning} />
      <p id="import-said" role="status">
        ${isRunning ? "The service is storing the plants…" : shown.said}
      </p>
      <p id="import-error" class="error" role="alert">${shown.problem}</p>
      <div class="tools">
        ${(isRunning || canRetry) && html`<button type="button" onclick=${act}>${renew(name)}</button>`}
        ${files.map(makeLink)}
        <button type="button" hidden=${isRunning} onclick=${close}>Close</button>
      </div>
      ${refused && html`<${RefusedRows} ...${refused} />`}
    </section>
  `;
}

/** @param {Plan} plan @param {import("./client.js").ImportResult} result */
function describe({ faults, same, left }, { stored, already_stored, replaced, skipped, refused }) {
  const counts = {
    ...{ stored, "already there": already_stored + same, updated: replaced },
    ...{ skipped: skipped + left, refused: refused + faults.size },
  };
  const parts = Object.entries(counts)
    .filter(([what, count]) => count > 0 || what === "stored")
    .map(([what, count]) => `${number(count)} ${what}`);
  return `Import finished: ${parts.join(", ")}.`;
}

/** Say why an import failed, and whether rows may be stored. @param {ApiError} error */
function explain({ message, isOutage, error }) {
  return isOutage || error === 0 ? `${message}. ${SAFE}` : message;
}

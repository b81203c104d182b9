/**
 * The import on the page: one request sends a file, and its progress and result are shown.
 *
 * @typedef {{file?: File, sent?: number, said?: string, warning?: string, problem?: string,
 *   canRetry?: boolean, refused?: import("./refused.js").Refused}} Import has the number of bytes
 *   sent while it runs, and its result or problem when it has ended
 */

import { client } from "./client.js";
import { focus } from "./elements.js";
import { html } from "./html.js";
import { load } from "./listing.js";
import { RefusedRows, readRefused } from "./refused.js";
import { ApiError } from "./requests.js";
import { may, state, update } from "./state.js";

const STORING = "The file is sent. The service is storing the plants…";
const MAYBE = "Rows that were sent may be stored.";
const SAFE = "Importing the same file again is safe.";

/** Stops the import that runs. @type {?AbortController} */
let running = null;

/** Stop the import, if one runs. Stored plants remain. */
export function stopImport() {
  running?.abort();
}

/** @param {On<HTMLInputElement>} event */
export function chooseFile({ currentTarget }) {
  take(currentTarget.files);
  currentTarget.value = ""; // The same file may be chosen again.
}

/** Take files that are dropped on the page. The browser asks before an import is lost. */
export function watchFiles() {
  const takesFiles = () => state.isSignedIn && may("plants:create");
  document.ondragover = document.ondrop = (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault(); // otherwise the browser would open the file
    update({ isDropping: event.type === "dragover" && takesFiles() });
    if (event.type === "drop" && takesFiles()) take(event.dataTransfer.files);
  };
  document.ondragleave = () => update({ isDropping: false });
  window.onbeforeunload = (event) => {
    if (running && !running.signal.aborted) event.preventDefault();
  };
}

/** Import a file, unless an import runs. @param {?FileList} files */
function take(files) {
  if (!running && files?.length === 1) importFile(files[0]);
  else update({ importing: { ...state.importing, problem: "Import one file at a time" } });
}

/** @param {File} file */
async function importFile(file) {
  running = new AbortController();
  URL.revokeObjectURL(state.importing.refused?.url ?? "");
  update({ importing: { file, sent: 0 } });
  focus("#import-title");
  const end = await send(file, running.signal);
  running = null;
  update({ importing: { file, ...end } });
  load();
}

/** Return how the import of a file ended. @param {File} file @param {AbortSignal} signal */
async function send(file, signal) {
  const onsent = (/** @type {number} */ sent) =>
    update({ importing: { ...state.importing, sent } });
  try {
    const result = await client.import(file, state.replaces, signal, onsent);
    const refused = await readRefused(file, result);
    signal.throwIfAborted();
    return { said: describe(result), warning: result.warnings?.join(". "), refused };
  } catch (error) {
    if (signal.aborted) return { problem: `Stopped. ${MAYBE} ${SAFE}`, canRetry: true };
    if (!(await isReadable(file))) {
      return { problem: "The file cannot be read: it is a folder, or was changed or removed" };
    }
    if (!(error instanceof ApiError)) throw error;
    return { problem: explain(error), canRetry: error.status !== 400 };
  }
}

/** Screen readers announce only changes of elements that exist, so these always do. */
export function Importing() {
  const { file, sent = -1, said, warning, problem, canRetry, refused } = state.importing;
  const [size, isRunning] = [file?.size ?? 0, sent >= 0];
  const isSent = sent >= size;
  const act = isRunning ? stopImport : () => file && importFile(file);
  const name = isRunning ? "Stop" : "Try again";
  return html`
    <section id="import" aria-labelledby="import-title" hidden=${!file && !problem}>
      <h2 id="import-title" tabindex="-1">Import</h2>
      <label for="progress" id="import-file">${file?.name}</label>
      <progress id="progress" key=${isSent} hidden=${!isRunning} max=${size}
        value=${isSent ? undefined : sent} />
      <p id="import-sent" class="hint">${isRunning && !isSent && measure(sent, size)}</p>
      <p id="import-said" role="status">${isSent ? STORING : said}</p>
      <p id="import-warning" class="hint" role="status">${warning}</p>
      <p id="import-error" class="error" role="alert">${problem}</p>
      <div class="tools">
        ${(isRunning || canRetry) && html`<button type="button" onclick=${act}>${name}</button>`}
        <a class="button" href=${refused?.url} download=${refused?.name} hidden=${!refused}>
          Save the refused rows
        </a>
      </div>
      ${refused && html`<${RefusedRows} ...${refused} />`}
    </section>
  `;
}

/** @param {number} bytes @param {number} size */
function measure(bytes, size) {
  const [unit, name] = size < 1e6 ? [1e3, "kB"] : [1e6, "MB"];
  const digits = { minimumFractionDigits: 1, maximumFractionDigits: 1 };
  const [sent, all] = [bytes, size].map((each) => (each / unit).toLocaleString("en", digits));
  return `${sent} of ${all} ${name} sent`;
}

/** @param {import("./client.js").ImportResult} result */
function describe({ stored, already_stored, replaced, refused }) {
  const counts = { stored, "already there": already_stored, updated: replaced, refused };
  const parts = Object.entries(counts)
    .filter(([what, count]) => count > 0 || what === "stored")
    .map(([what, count]) => `${count.toLocaleString("en")} ${what}`);
  return `Import finished: ${parts.join(", ")}.`;
}

/** Say why an import failed, and what is stored. @param {ApiError} error */
function explain({ message, status, error, linesStoredThrough }) {
  if (linesStoredThrough) {
    const line = linesStoredThrough.toLocaleString("en");
    const stored = `Rows up to line ${line} are stored, unless they were refused`;
    return `${message}. ${stored}; later rows may be stored, too. ${SAFE}`;
  }
  const isUnknown = error === 0 || status === 500 || linesStoredThrough === 0;
  return status === 400 || !isUnknown ? message : `${message}. ${MAYBE} ${SAFE}`;
}

/** @param {File} file */
function isReadable(file) {
  const start = file.slice(0, 1).arrayBuffer();
  return start.then(Boolean, () => false);
}

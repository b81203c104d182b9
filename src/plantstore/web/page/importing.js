/**
 * The import on the page: one request sends a file, and its progress and result are shown.
 *
 * @typedef {{file?: File, sent?: number, said?: string, warning?: string, problem?: string,
 *   canRetry?: boolean, refused?: import("./refused.js").Refused, numbered?: Numbered}} Import has
 *   the number of bytes sent while it runs, and its result or problem when it has ended
 * @typedef {{said: string, name: string, url: string}} Numbered the file whose rows got ids
 */

import { client } from "./client.js";
import { countNameless, numberRows, readCsv, readRows, WorkbookError } from "./csv.js";
import { ask } from "./dialogs.js";
import { focus } from "./elements.js";
import { html } from "./html.js";
import { load } from "./listing.js";
import { RefusedRows, readRefused } from "./refused.js";
import { ApiError } from "./requests.js";
import { may, state, update } from "./state.js";

const STORING = "The file is sent. The service is storing the plants…";
const MAYBE = "Rows that were sent may be stored.";
const SAFE = "Importing the same file again is safe.";
const WORKBOOK = "This is a workbook. Save it as “CSV UTF-8” and import that file";
const KEEPS_TAGS = "The file has no column tag, so the plants that exist keep their tags";

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
  const takesFiles = () => state.isSignedIn && may("plants:create");
  document.ondragover = document.ondrop = (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault(); // otherwise the browser would open the file
    update({ isDropping: event.type === "dragover" && takesFiles() });
    if (event.type === "drop" && takesFiles()) take(event.dataTransfer.files);
  };
  document.ondragleave = () => update({ isDropping: false });
}

/** Import a file, unless an import runs. @param {?FileList} files */
function take(files) {
  if (!running && files?.length === 1) importFile(files[0]);
  else update({ importing: { ...state.importing, problem: "Import one file at a time" } });
}

/** @param {File} file */
async function importFile(file) {
  running = new AbortController();
  const { refused, numbered } = state.importing;
  URL.revokeObjectURL(refused?.url ?? "");
  // The file with ids remains, while it is imported again.
  const kept = numbered?.name === file.name ? { numbered } : {};
  if (!kept.numbered) URL.revokeObjectURL(numbered?.url ?? "");
  update({ importing: { file, sent: 0, ...kept } });
  focus("#import-title");
  const end = await send(file, running.signal);
  running = null;
  update({ importing: { file, ...kept, ...end } });
  load();
}

/**
 * Return how the import of a file ended.
 *
 * @param {File} file @param {AbortSignal} signal
 * @returns {Promise<Import>}
 */
async function send(file, signal) {
  const onsent = (/** @type {number} */ sent) =>
    update({ importing: { ...state.importing, sent } });
  let skipped = 0;
  try {
    const csv = await readCsv(file);
    signal.throwIfAborted();
    if (csv.columns.includes("name") && !csv.columns.includes("id"))
      return await number(csv, signal);
    skipped = csv.skipped;
    const counting = countNameless(csv).catch(() => 0); // Then the file was changed or removed.
    const result = await client.import(csv.body, state.replaces, signal, onsent);
    for (const error of result.errors) {
      error.line += skipped;
      if (error.last_line) error.last_line += skipped;
    }
    const refused = await readRefused(csv.file, result);
    const nameless = await counting;
    signal.throwIfAborted();
    const notes = [...(result.warnings ?? [])];
    if (csv.encoding !== "UTF-8") notes.push(`The file was read as ${csv.encoding}`);
    if (state.replaces && !csv.columns.includes("tag")) notes.push(KEEPS_TAGS);
    return { said: describe(result, nameless), warning: notes.join(". "), refused };
  } catch (error) {
    if (signal.aborted) return { problem: `Stopped. ${MAYBE} ${SAFE}`, canRetry: true };
    if (error instanceof WorkbookError) return { problem: WORKBOOK };
    if (!(await isReadable(file))) {
      return { problem: "The file cannot be read: it is a folder, or was changed or removed" };
    }
    if (!(error instanceof ApiError)) throw error;
    return { problem: explain(error, skipped), canRetry: error.status !== 400 };
  }
}

/**
 * Offer to number the rows of a file without ids, and import the numbered file.
 *
 * @param {import("./csv.js").Csv} csv @param {AbortSignal} signal
 * @returns {Promise<Import>}
 */
async function number(csv, signal) {
  const rows = await readRows(csv);
  const many = `${rows.length.toLocaleString("en")} ${rows.length === 1 ? "row" : "rows"}`;
  const answer = await ask({
    title: "The file has no column “id”",
    text: `The service can give a new id to each of its ${many}. If you import the same file twice, its plants are stored twice: save the file with the ids, and use it from then on.`,
    yes: `Number the ${many}`,
    no: "Do not import",
  });
  signal.throwIfAborted();
  if (answer !== "yes") return { problem: "Nothing was imported" };
  const ranges = [];
  for (let left = rows.length; left > 0; left -= IDS_MAX) {
    ranges.push(await client.takeIds(Math.min(left, IDS_MAX)));
    signal.throwIfAborted();
  }
  const file = numberRows(csv, rows, enumerate(ranges));
  const said = `The rows have the ids ${join(ranges).join(", ")}.`;
  const numbered = { said, name: file.name, url: URL.createObjectURL(file) };
  update({ importing: { file, sent: 0, numbered } });
  const end = await send(file, signal);
  return { file, numbered, ...end };
}

/** @param {{first: string, last: string}[]} ranges */
function* enumerate(ranges) {
  for (const { first, last } of ranges) {
    for (let id = BigInt(first); id <= BigInt(last); id += 1n) yield String(id);
  }
}

/** Return ranges of ids as text, of which those that follow each other are one. @param {{first: string, last: string}[]} ranges */
function join(ranges) {
  /** @type {{first: string, last: string}[]} */
  const joined = [];
  for (const { first, last } of ranges) {
    const before = joined.at(-1);
    if (before && BigInt(before.last) + 1n === BigInt(first)) before.last = last;
    else joined.push({ first, last });
  }
  return joined.map(({ first, last }) => (first === last ? first : `${first} to ${last}`));
}

/** Screen readers announce only changes of elements that exist, so these always do. */
export function Importing() {
  const { file, sent = -1, said, warning, problem, canRetry, refused, numbered } = state.importing;
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
      <p id="import-ids" role="status">${numbered?.said}</p>
      <p id="import-error" class="error" role="alert">${problem}</p>
      <div class="tools">
        ${(isRunning || canRetry) && html`<button type="button" onclick=${act}>${name}</button>`}
        <a class="button" href=${numbered?.url} download=${numbered?.name} hidden=${!numbered}>
          Save the file with its ids
        </a>
        <a class="button" href=${refused?.url} download=${refused?.name} hidden=${!refused}>
          Save the refused rows
        </a>
        <button type="button" hidden=${isRunning} onclick=${() => update({ importing: {} })}>
          Close
        </button>
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

/** @param {import("./client.js").ImportResult} result @param {number} nameless rows */
function describe({ stored, already_stored, replaced, refused }, nameless) {
  const counts = { stored, "already there": already_stored, updated: replaced, refused };
  const parts = Object.entries(counts)
    .filter(([what, count]) => count > 0 || what === "stored")
    .map(([what, count]) => `${count.toLocaleString("en")} ${what}`);
  const rows = nameless === 1 ? "row has" : "rows have";
  const more = nameless > 0 ? ` ${nameless.toLocaleString("en")} ${rows} an empty name.` : "";
  return `Import finished: ${parts.join(", ")}.${more}`;
}

/** Say why an import failed, and what is stored. @param {ApiError} error @param {number} skipped */
function explain({ message, status, error, linesStoredThrough }, skipped) {
  if (linesStoredThrough) {
    const line = (linesStoredThrough + skipped).toLocaleString("en");
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

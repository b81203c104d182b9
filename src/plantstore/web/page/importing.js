/** The import on the page: one request sends a file, and its progress and result are shown. */

import { element } from "./elements.js";
import { hideRefused, showRefused } from "./refused.js";
import { ApiError, messageOf } from "./requests.js";

const SAFE = "Importing the same file again is safe.";

export class Importing {
  #client;
  #ended;

  /** Stops the import that runs. @type {?AbortController} */
  #running = null;

  /** The last file. @type {?File} */
  #file = null;

  /**
   * @param {import("./client.js").Client} client
   * @param {() => void} ended is called when an import ends
   */
  constructor(client, ended) {
    this.#client = client;
    this.#ended = ended;
    element("import-stop").onclick = () => this.stop();
    element("import-again").onclick = () => this.#file && this.#import(this.#file);
    window.onbeforeunload = (event) => {
      if (this.#running && !this.#running.signal.aborted) event.preventDefault();
    };
  }

  /** Stop the import, if one runs. Stored plants remain. */
  stop() {
    this.#running?.abort();
  }

  /**
   * Import a file, unless an import runs.
   *
   * @param {File[]} files
   */
  take(files) {
    const [file] = files;
    element("import").hidden = false;
    if (this.#running || !file || files.length > 1) {
      element("import-error").textContent = "Import one file at a time";
    } else {
      this.#import(file);
    }
  }

  /** @param {File} file */
  async #import(file) {
    const running = new AbortController();
    this.#running = running;
    this.#file = file;
    begin(file);
    try {
      const replaces = element("update", HTMLInputElement).checked;
      /** @param {number} bytes */
      const onsent = (bytes) => showSent(bytes, file.size);
      const result = await this.#client.import(file, replaces, onsent, running.signal);
      await showRefused(file, result.errors, result.refused);
      running.signal.throwIfAborted();
      end(describe(result), "", false);
      element("import-warning").textContent = (result.warnings ?? []).join(". ");
    } catch (error) {
      if (running.signal.aborted) {
        end("", `Stopped. Rows that were sent may be stored. ${SAFE}`, true);
      } else if (await isReadable(file)) {
        end("", explain(error), !(error instanceof ApiError && error.status === 400));
      } else {
        end("", "The file cannot be read: it is a folder, or was changed or removed", false);
      }
    }
    this.#running = null;
    this.#ended();
  }
}

/** @param {File} file */
function begin(file) {
  element("import-file").textContent = file.name;
  for (const id of ["import-error", "import-warning", "import-said"]) element(id).textContent = "";
  hideRefused();
  element("import-again").hidden = true;
  element("import-stop").hidden = false;
  element("progress").hidden = false;
  showSent(0, file.size);
  element("import-title").focus();
}

/**
 * Show how much of a file was sent.
 *
 * @param {number} bytes
 * @param {number} size
 */
function showSent(bytes, size) {
  const progress = element("progress", HTMLProgressElement);
  if (bytes < size) {
    progress.max = size;
    progress.value = bytes;
    const isSmall = size < 1e6;
    const [sent, all] = [bytes, size].map((each) => round(each / (isSmall ? 1e3 : 1e6)));
    element("import-sent").textContent = `${sent} of ${all} ${isSmall ? "kB" : "MB"} sent`;
  } else if (progress.position >= 0) {
    progress.removeAttribute("value"); // It moves, but shows no progress.
    element("import-sent").textContent = "";
    element("import-said").textContent = "The file is sent. The service is storing the plants…";
  }
}

/** @param {number} quantity */
function round(quantity) {
  const digits = { minimumFractionDigits: 1, maximumFractionDigits: 1 };
  return quantity.toLocaleString("en", digits);
}

/**
 * Show the end of an import.
 *
 * @param {string} result
 * @param {string} problem
 * @param {boolean} isWorthAnotherTry
 */
function end(result, problem, isWorthAnotherTry) {
  const wasFocused = document.activeElement === element("import-stop");
  element("import-stop").hidden = true;
  element("import-again").hidden = !isWorthAnotherTry;
  element("progress").hidden = true;
  element("import-sent").textContent = "";
  // Screen readers announce each change of these.
  element("import-said").textContent = result;
  element("import-error").textContent = problem;
  // The focus would get lost with the button.
  if (wasFocused) element(isWorthAnotherTry ? "import-again" : "import-title").focus();
}

/** @param {import("./client.js").ImportResult} result */
function describe({ stored, already_stored, replaced, refused }) {
  const counts = /** @type {[number, string][]} */ ([
    [stored, "stored"],
    [already_stored, "already there"],
    [replaced, "updated"],
    [refused, "refused"],
  ])
    .filter(([count, what]) => count > 0 || what === "stored")
    .map(([count, what]) => `${count.toLocaleString("en")} ${what}`);
  return `Import finished: ${counts.join(", ")}.`;
}

/**
 * Say why an import failed, and what is stored.
 *
 * @param {unknown} error
 */
function explain(error) {
  const message = messageOf(error);
  if (!(error instanceof ApiError)) return message;
  const { status, linesStoredThrough = 0 } = error;
  if (linesStoredThrough > 0) {
    const line = linesStoredThrough.toLocaleString("en");
    const stored = `Rows up to line ${line} are stored, unless they were refused`;
    return `${message}. ${stored}; later rows may be stored, too. ${SAFE}`;
  }
  const isUnknown = error.error === 0 || status === 500 || error.linesStoredThrough === 0;
  if (status === 400 || !isUnknown) return message;
  return `${message}. Rows that were sent may be stored. ${SAFE}`;
}

/** @param {File} file */
async function isReadable(file) {
  try {
    await file.slice(0, 1).arrayBuffer();
    return true;
  } catch {
    return false;
  }
}

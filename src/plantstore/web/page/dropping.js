/** The import on the page: a file is dropped or chosen, and its progress is shown. */

import { messageOf } from "./client.js";
import { copyTemplate, element, within } from "./elements.js";
import { importFile, Progress } from "./importing.js";

/** How many refused rows the page shows; the file of refused rows has more. */
const REJECTS_SHOWN_MAX = 100;

export class Dropping {
  #client;
  #stored;

  /** What stops the import that runs. @type {?AbortController} */
  #running = null;

  /**
   * @param {import("./client.js").Client} client
   * @param {() => void} stored is called when an import ends
   */
  constructor(client, stored) {
    this.#client = client;
    this.#stored = stored;
    const input = element("file", HTMLInputElement);
    input.onchange = () => {
      this.#take([...(input.files ?? [])]);
      input.value = ""; // The same file may be chosen again.
    };
    element("import-stop").onclick = () => this.stop();
    document.ondragover = (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault(); // otherwise the browser would open the file
      document.body.classList.toggle("dropping", this.#client.token !== "");
    };
    document.ondragleave = () => document.body.classList.remove("dropping");
    document.ondrop = (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      document.body.classList.remove("dropping");
      if (this.#client.token !== "") this.#take([...(event.dataTransfer?.files ?? [])]);
    };
    window.onbeforeunload = (event) => {
      if (this.#running) event.preventDefault();
    };
  }

  /** Stop the import, if one runs. Stored plants remain. */
  stop() {
    this.#running?.abort();
    this.#running = null;
  }

  /** @param {File[]} files */
  #take(files) {
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
    this.#running = new AbortController();
    const { signal } = this.#running;
    const progress = new Progress();
    begin(file);
    paint(progress);
    const painting = setInterval(() => paint(progress), 100);
    try {
      await importFile(file, this.#client, progress, signal);
      element("import-error").textContent = "";
    } catch (error) {
      const problem = signal.aborted ? "Stopped" : messageOf(error);
      const advice = "The plants stored so far remain; you can import the same file again";
      element("import-error").textContent = progress.stored ? `${problem}. ${advice}` : problem;
    }
    clearInterval(painting);
    this.#running = null;
    progress.waits = "";
    paint(progress);
    showRejects(progress.rejects, progress.refused);
    element("import-stop").hidden = true;
    this.#stored();
  }
}

/** @param {DragEvent} event */
function hasFiles({ dataTransfer }) {
  return dataTransfer?.types.includes("Files") ?? false;
}

/** @param {File} file */
function begin(file) {
  element("import-file").textContent = file.name;
  element("import-error").textContent = "";
  element("import-warning").textContent = "";
  element("import-stop").hidden = false;
  element("progress").hidden = false;
  element("progress", HTMLProgressElement).max = Math.max(file.size, 1);
  showRejects([], 0);
  element("import-title").focus();
}

/** @param {Progress} progress */
function paint(progress) {
  const { bytes, stored, refused, waits, warning, isOver } = progress;
  const counts = `${stored.toLocaleString("en")} stored, ${refused.toLocaleString("en")} refused`;
  element("progress", HTMLProgressElement).value = bytes;
  element("import-counts").textContent = isOver ? "" : counts + (waits && `. Waiting: ${waits}`);
  // Screen readers announce each change of these.
  element("import-said").textContent = isOver ? `Import finished: ${counts}.` : "";
  if (element("import-warning").textContent !== warning) {
    element("import-warning").textContent = warning;
  }
}

/**
 * @param {Progress["rejects"]} rejects
 * @param {number} refused how many were refused in all
 */
function showRejects(rejects, refused) {
  rejects.sort((one, other) => one.line - other.line);
  element("rejects").hidden = rejects.length === 0;
  element("import-rejects").hidden = rejects.length === 0;
  element("import-shown").hidden = refused <= REJECTS_SHOWN_MAX;
  element("import-shown").textContent =
    `Showing the first ${REJECTS_SHOWN_MAX} of ${refused.toLocaleString("en")} refused rows; ` +
    `the file has ${rejects.length.toLocaleString("en")}.`;
  const rows = rejects.slice(0, REJECTS_SHOWN_MAX).map(({ line, message }) => {
    const row = copyTemplate("reject");
    within(row, "th").textContent = String(line);
    within(row, "td").textContent = message;
    return row;
  });
  within(element("rejects"), "tbody").replaceChildren(...rows);
  const link = element("import-rejects", HTMLAnchorElement);
  URL.revokeObjectURL(link.href);
  const records = new Blob(rejects.map(({ record }) => record));
  link.href = URL.createObjectURL(records);
}

/** The import on the page: a file is dropped or chosen, and its way is shown. */

import { importFile, Progress } from "./importing.js";

/** Refused rows that the page shows; the file of them has more. */
const REJECTS_SHOWN_MAX = 100;

const element = (id) => document.getElementById(id);
const count = (number, noun) => `${number.toLocaleString("en")} ${noun}`;

export class Dropping {
  #client;
  #stored;
  #running = null;

  /**
   * @param {import("./client.js").Client} client
   * @param {() => void} stored is called when an import is over
   */
  constructor(client, stored) {
    this.#client = client;
    this.#stored = stored;
    element("file").onchange = ({ target }) => {
      this.#begin(target.files);
      target.value = ""; // The same file may be chosen again.
    };
    element("import-stop").onclick = () => this.stop();
    document.ondragover = (event) => {
      event.preventDefault(); // or the browser would open the file
      document.body.classList.toggle("dropping", this.#takes(event));
    };
    document.ondragleave = () => document.body.classList.remove("dropping");
    document.ondrop = (event) => {
      event.preventDefault();
      document.body.classList.remove("dropping");
      if (this.#takes(event)) this.#begin(event.dataTransfer.files);
    };
    window.onbeforeunload = (event) => {
      if (this.#running) event.preventDefault();
    };
  }

  /** Stop the import that runs, if one does. What was stored stays. */
  stop() {
    this.#running?.abort();
  }

  #takes({ dataTransfer }) {
    return dataTransfer.types.includes("Files") && this.#client.token !== "" && !this.#running;
  }

  async #begin([file]) {
    if (!file || this.#running) return;
    this.#running = new AbortController();
    const { signal } = this.#running;
    const progress = new Progress();
    let problem = "";
    this.#open(file);
    paint(progress, true);
    const painting = setInterval(() => paint(progress, true), 100);
    try {
      await importFile(file, this.#client, progress, signal);
    } catch (error) {
      problem = signal.aborted ? "Stopped" : error.message;
    }
    clearInterval(painting);
    this.#running = null;
    paint(progress, false);
    showRejects(progress.rejects);
    element("import-stop").hidden = true;
    if (problem) {
      element("import-error").textContent = `${problem}. What was stored stays, and the same file may be imported again`;
    }
    if (this.#client.token !== "") this.#stored();
  }

  #open(file) {
    element("import").hidden = false;
    element("import-file").textContent = file.name;
    element("import-error").textContent = "";
    element("import-stop").hidden = false;
    element("progress").max = Math.max(file.size, 1);
    showRejects([]);
    element("import-title").focus();
  }
}

function paint({ bytes, stored, refused, waits }, isRunning) {
  element("progress").value = bytes;
  const counts = `${count(stored, "stored")}, ${count(refused, "refused")}`;
  element("import-counts").textContent = waits && isRunning ? `${counts}. Waiting: ${waits}` : counts;
  // Each change of this is read aloud; so it says only how it ended.
  element("import-said").textContent = isRunning ? "" : `The import is over: ${counts}.`;
}

function showRejects(rejects) {
  element("rejects").hidden = rejects.length === 0;
  element("import-rejects").hidden = rejects.length === 0;
  const rows = rejects.slice(0, REJECTS_SHOWN_MAX).map(({ line, message }) => {
    const row = element("reject").content.cloneNode(true);
    row.querySelector("th").textContent = line;
    row.querySelector("td").textContent = message;
    return row;
  });
  element("rejects").querySelector("tbody").replaceChildren(...rows);
  URL.revokeObjectURL(element("import-rejects").href);
  const lines = rejects.map((reject) => `${JSON.stringify(reject)}\n`);
  element("import-rejects").href = URL.createObjectURL(new Blob(lines));
}

/** The export on the page: the plants of the filter are saved as a CSV file. */

import { element } from "./elements.js";
import { ApiError } from "./requests.js";

/** The error number of an export whose format cannot hold a plant. */
const NOT_ACCEPTABLE = 3010;

const NAMED_CHARACTERS_MAX = 50;

export class Exporting {
  #client;
  #loading = new AbortController();
  #link = document.createElement("a");

  /** @param {import("./client.js").Client} client */
  constructor(client) {
    this.#client = client;
  }

  /** Save all plants, or those of the tag of the filter. A second call replaces the first. */
  async run() {
    this.#loading.abort();
    this.#loading = new AbortController();
    const { signal } = this.#loading;
    const tag = new URLSearchParams(location.search).get("tag");
    const name = nameFile(tag);
    element("export-error").textContent = "";
    element("said").textContent = "Exporting…";
    let said = "";
    try {
      this.#save(await this.#client.export(tag, signal), name);
      said = `Exported: ${name}`;
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      element("export-error").textContent = describe(error);
    }
    element("said").textContent = said;
  }

  /** @param {Blob} file @param {string} name */
  #save(file, name) {
    URL.revokeObjectURL(this.#link.href);
    this.#link.href = URL.createObjectURL(file);
    this.#link.download = name;
    this.#link.click();
  }
}

/**
 * Return a name for the file that every file system allows.
 *
 * @param {?string} tag
 */
function nameFile(tag) {
  const words = (tag ?? "").match(/[\p{L}\p{M}\p{N}]+/gu) ?? [];
  return `${["plants", ...words].join("-").slice(0, NAMED_CHARACTERS_MAX)}.csv`;
}

/** @param {ApiError} error */
function describe({ error, message }) {
  // The message ends with the advice to export JSON lines, which the page does not do.
  const advice = error === NOT_ACCEPTABLE ? " with plantstore export or the API" : "";
  return `Nothing was exported. ${message}${advice}`;
}

/** The export on the page: the plants of the list are saved as a CSV file. */

import { element } from "./elements.js";
import { ApiError } from "./requests.js";
import { toast } from "./toast.js";

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

  /**
   * Save the plants of a listing, of all its pages. A second call replaces the first.
   *
   * @param {URLSearchParams} query of the listing
   */
  async run(query) {
    this.#loading.abort();
    this.#loading = new AbortController();
    const { signal } = this.#loading;
    const which = new URLSearchParams([...query].filter(([key]) => key === "q" || key === "tag"));
    const name = nameFile(which.get("tag") ?? which.get("q"));
    element("export-error").textContent = "";
    toast("Exporting…");
    let said = "";
    try {
      this.#save(await this.#client.export(which, signal), name);
      said = `Exported: ${name}`;
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      element("export-error").textContent = describe(error);
    }
    toast(said);
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
 * @param {?string} text that was searched
 */
function nameFile(text) {
  const words = (text ?? "").match(/[\p{L}\p{M}\p{N}]+/gu) ?? [];
  return `${["plants", ...words].join("-").slice(0, NAMED_CHARACTERS_MAX)}.csv`;
}

/** @param {ApiError} error */
function describe({ error, message }) {
  // The message ends with the advice to export JSON lines, which the page does not do.
  const advice = error === NOT_ACCEPTABLE ? " with plantstore export or the API" : "";
  return `Nothing was exported. ${message}${advice}`;
}

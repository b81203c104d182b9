/** The export on the page: the plants of the list are saved as a CSV file. */

import { client } from "./client.js";
import { say } from "./elements.js";
import { SEARCHED, select } from "./listing.js";
import { ApiError } from "./requests.js";
import { state, update } from "./state.js";

/** The error number of an export whose format cannot hold a plant. */
const NOT_ACCEPTABLE = 3010;

const NAMED_CHARACTERS_MAX = 50;

let loading = new AbortController();

/** A link to the last file, which is not shown. */
const link = document.createElement("a");

/** Save the plants of the list, of all its pages. A second call replaces the first. */
export async function exportPlants() {
  loading.abort();
  loading = new AbortController();
  const { signal } = loading;
  const query = select(state.query, SEARCHED);
  const name = nameFile(query.get("tag") ?? query.get("q") ?? "");
  update({ exportError: "" });
  say("Exporting…");
  try {
    const file = await client.export(query, signal);
    URL.revokeObjectURL(link.href);
    Object.assign(link, { href: URL.createObjectURL(file), download: name }).click();
    say(`Exported: ${name}`);
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof ApiError)) throw error;
    // The message ends with the advice to export JSON lines, which the page does not do.
    const advice = error.error === NOT_ACCEPTABLE ? " with plantstore export or the API" : "";
    update({ exportError: `Nothing was exported. ${error.message}${advice}` });
    say("");
  }
}

/** Return a name that every file system allows. @param {string} text that was searched */
function nameFile(text) {
  const words = text.match(/[\p{L}\p{M}\p{N}]+/gu) ?? [];
  return `${["plants", ...words].join("-").slice(0, NAMED_CHARACTERS_MAX)}.csv`;
}

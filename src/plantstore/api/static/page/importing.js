/** The import of a file: one request for each of its plants, several at a time. */

import { ApiError } from "./client.js";
import { readPlants } from "./csv.js";

/** Browsers open six connections to a host; more requests would only wait for one. */
const REQUESTS_AT_A_TIME = 6;

/** Refused rows that are kept; all are counted. */
const REJECTS_KEPT_MAX = 10_000;

/** What an import has come to; `waits` says what it waits for, if it does. */
export class Progress {
  bytes = 0;
  stored = 0;
  refused = 0;
  waits = "";
  /** @type {{line: number, error: number, message: string, row: string}[]} */
  rejects = [];

  /** @param {import("./csv.js").Row} row */
  refuse({ line, text: row }, error, message) {
    this.refused += 1;
    if (this.rejects.length < REJECTS_KEPT_MAX) this.rejects.push({ line, error, message, row });
  }
}

/**
 * Store the plants of a file. A plant that is stored already, just so, counts as stored.
 *
 * @param {File} file
 * @param {import("./client.js").Client} client
 * @param {Progress} progress is kept up to date
 * @param {AbortSignal} signal
 * @throws {FileError|ApiError|DOMException} what was stored stays
 */
export async function importFile(file, client, progress, signal) {
  const rows = readPlants(file);
  const failure = new AbortController();
  const either = AbortSignal.any([signal, failure.signal]);

  async function storeRows() {
    for (let next = await rows.next(); !next.done; next = await rows.next()) {
      const row = next.value;
      if (row.problem) progress.refuse(row, 1002, row.problem);
      else if (row.plant) await storeRow(row, client, progress, either);
      progress.bytes += row.bytes;
      either.throwIfAborted();
    }
  }

  const workers = Array.from({ length: REQUESTS_AT_A_TIME }, () =>
    storeRows().catch((error) => failure.abort(error)),
  );
  await Promise.all(workers);
  await rows.return();
  either.throwIfAborted();
}

/** Store one plant, however often it has to be sent for that. */
async function storeRow(row, client, progress, signal) {
  for (;;) {
    try {
      await client.create(row.plant, signal);
      progress.stored += 1;
      progress.waits = "";
      return;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status === 400 || error.status === 413) {
        progress.refuse(row, error.error, error.message);
        return;
      }
      // Sending again is safe: the same record under the same id is stored once.
      if (!error.passes) throw error;
      progress.waits = error.message;
      await sleep(error.retryAfter, signal);
    }
  }
}

function sleep(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, seconds * 1000);
    const stop = () => (clearTimeout(timer), reject(signal.reason));
    signal.addEventListener("abort", stop, { once: true });
  });
}

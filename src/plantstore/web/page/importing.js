/** The import of a file: one request for each plant, several at a time. */

import { ApiError } from "./client.js";
import { readPlants } from "./csv.js";

/** Browsers open six connections to a host; more requests would only wait for one. */
const REQUESTS_AT_A_TIME = 6;

/** How many refused rows are kept; all are counted. */
const REJECTS_KEPT_MAX = 10_000;

/** @typedef {import("./csv.js").Row & {plant: import("./client.js").Plant}} PlantRow */

/** A limit on waiting: a timer of more than 24 days would end at once. */
const SLEEP_SECONDS_MAX = 600;

/**
 * The progress of an import. `waits` is the reason for waiting, or ""; `isOver` is true at the
 * end of the file, but not if the import stops before.
 */
export class Progress {
  bytes = 0;
  stored = 0;
  refused = 0;
  waits = "";
  warning = "";
  isOver = false;
  /** The refused rows. @type {{line: number, message: string, record: Blob}[]} */
  rejects = [];

  /**
   * @param {import("./csv.js").Row} row
   * @param {number} error
   * @param {string} message
   */
  refuse({ line, text }, error, message) {
    this.refused += 1;
    if (this.rejects.length === REJECTS_KEPT_MAX) return;
    // Not a string: it would keep the whole piece of the file that it is cut from in memory.
    const record = new Blob([JSON.stringify({ line, error, message, row: text }), "\n"]);
    this.rejects.push({ line, message, record });
  }
}

/**
 * Store the plants of a file. A plant that is stored already, with the same values, counts too.
 *
 * @param {File} file
 * @param {import("./client.js").Client} client
 * @param {Progress} progress is updated
 * @param {AbortSignal} signal
 * @throws {FileError|ApiError|DOMException} the plants stored so far remain
 */
export async function importFile(file, client, progress, signal) {
  const rows = readPlants(file);
  const failure = new AbortController();
  const either = AbortSignal.any([signal, failure.signal]);

  const turns = new Map();

  async function storeRows() {
    for (let next = await rows.next(); !next.done; next = await rows.next()) {
      const row = next.value;
      if (row.warning) progress.warning = row.warning;
      if (row.problem) progress.refuse(row, 1002, row.problem);
      else if (hasPlant(row)) await storeInTurn(row);
      progress.bytes += row.bytes;
      either.throwIfAborted();
    }
  }

  /**
   * Store rows with the same id one after the other, so that the first one is stored.
   *
   * @param {PlantRow} row
   */
  async function storeInTurn(row) {
    // Equal for all spellings of an id. Ids beyond 2^53 may share it, which only costs time.
    const id = Number(row.plant.id);
    const turn = Promise.resolve(turns.get(id)).then(() => storeRow(row, client, progress, either));
    turns.set(id, turn);
    await turn;
    if (turns.get(id) === turn) turns.delete(id);
  }

  const workers = Array.from({ length: REQUESTS_AT_A_TIME }, () =>
    storeRows().catch((error) => failure.abort(error)),
  );
  await Promise.all(workers);
  await rows.return(undefined);
  either.throwIfAborted();
  progress.isOver = true;
}

/**
 * @param {import("./csv.js").Row} row
 * @returns {row is PlantRow}
 */
function hasPlant(row) {
  return row.plant !== undefined;
}

/**
 * Store one plant, with as many tries as it takes.
 *
 * @param {PlantRow} row
 * @param {import("./client.js").Client} client
 * @param {Progress} progress
 * @param {AbortSignal} signal
 */
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
      // Trying again is safe: the same plant under the same id is stored once.
      if (!error.passes) throw error;
      progress.waits = error.message;
      await sleep(error.retryAfter, signal);
    }
  }
}

/**
 * @param {number} seconds
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
function sleep(seconds, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const wake = () => {
      signal.removeEventListener("abort", stop);
      resolve();
    };
    const timer = setTimeout(wake, Math.min(seconds, SLEEP_SECONDS_MAX) * 1000);
    signal.addEventListener("abort", stop);
  });
}

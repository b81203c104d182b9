/** The import of a file: one request for each of its plants, several at a time. */

import { ApiError } from "./client.js";
import { readPlants } from "./csv.js";

/** Browsers open six connections to a host; more requests would only wait for one. */
const REQUESTS_AT_A_TIME = 6;

/** Refused rows that are kept; all are counted. */
const REJECTS_KEPT_MAX = 10_000;

/** A timer that is set for longer than some weeks rings at once. */
const SLEEP_SECONDS_MAX = 600;

/**
 * What an import has come to: `waits` says what it waits for, if it does; it `isOver` at the
 * end of the file, and not where it stops before.
 */
export class Progress {
  bytes = 0;
  stored = 0;
  refused = 0;
  waits = "";
  isOver = false;
  /** Each with its record for the file of rejects. @type {{line: number, message: string, record: Blob}[]} */
  rejects = [];

  /** @param {import("./csv.js").Row} row */
  refuse({ line, text }, error, message) {
    this.refused += 1;
    if (this.rejects.length === REJECTS_KEPT_MAX) return;
    // A text would keep all that was read together with it in the memory.
    const record = new Blob([JSON.stringify({ line, error, message, row: text }), "\n"]);
    this.rejects.push({ line, message, record });
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

  const turns = new Map();

  async function storeRows() {
    for (let next = await rows.next(); !next.done; next = await rows.next()) {
      const row = next.value;
      if (row.problem) progress.refuse(row, 1002, row.problem);
      else if (row.plant) await storeInTurn(row);
      progress.bytes += row.bytes;
      either.throwIfAborted();
    }
  }

  /** Of rows with the same id the first one is stored, so each waits for the one before. */
  async function storeInTurn(row) {
    // The same however it is written; that others beyond 2^53 share it only costs time.
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
  await rows.return();
  either.throwIfAborted();
  progress.isOver = true;
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

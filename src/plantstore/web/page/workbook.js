/** Workbooks, read and written in a worker, which a file cannot keep busy for longer than some seconds. */

import { ApiError } from "./requests.js";

const READ_SECONDS = 10;

const FAILED =
  "This takes too long or too much memory: divide the workbook into smaller ones, or use CSV";

const WORKER = import.meta.resolve("./sheetjs.js");

/** Trusted Types let a text be the address of no other script. */
const policy = /** @type {any} */ (globalThis).trustedTypes?.createPolicy("workbook", {
  createScriptURL: () => WORKER,
});

/**
 * Read the cells of a sheet.
 *
 * @param {Uint8Array} bytes
 * @param {number} [sheet] otherwise the first visible one that seems to have plants
 * @returns {Promise<import("./csv.js").Table>}
 */
export function readWorkbook(bytes, sheet) {
  return ask({ bytes, sheet }, READ_SECONDS);
}

/**
 * Make an Excel workbook, each cell of which is a text.
 *
 * @param {string[][]} rows
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export function writeWorkbook(rows) {
  return ask({ rows });
}

/** @param {object} question @param {number} [seconds] */
async function ask(question, seconds) {
  const worker = new Worker(policy?.createScriptURL("") ?? WORKER, { type: "module" });
  try {
    const { result, message } = await new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = () => reject(new ApiError(FAILED));
      if (seconds) setTimeout(() => resolve({ message: FAILED }), seconds * 1000);
      worker.postMessage(question);
    });
    if (message) throw new ApiError(message);
    return result;
  } finally {
    worker.terminate();
  }
}

/**
 * CSV: files in any common encoding, and pasted rows, become rows of cells; and rows become CSV for
 * the service. This module and PapaParse are loaded when the user chooses a file.
 *
 * @typedef {{rows: string[][], faults: Map<number, string>, separator: string, encodings?: string[][],
 *   cellFaults?: Map<number, Map<number, string>>, notes?: string[],
 *   sheets?: string[], sheet?: number}} Table the rows of a file, also the empty ones, so that a row
 *   has the number that a spreadsheet shows; by their index, what is wrong with rows; how CSV is
 *   written, and the encodings to choose from, if none is sure; of a workbook, by row and column, what is wrong
 *   with cells, what the user must know, the names of its sheets, and the one that is read
 */

import { listEncodings } from "./encodings.js";
import { loadLibrary } from "./library.js";

/** The largest file, and the largest content of a workbook: all rows are in the memory of the tab. */
export const FILE_BYTES_MAX = 100_000_000;

/** How much is parsed before the tab may do something else; and so, the largest row. */
const STEP_CHARACTERS = 1_000_000;

/** In how many of the first bytes UTF-16 is seen, and one of how many is zero then, at least. */
const SAMPLED_BYTES = 1024;
const UTF16_PART = 8;

/** Among how many rows the first two that are not empty are searched. */
const SEARCHED_ROWS = 10;

/** How many rows are written before the tab may do something else. */
const STEP_ROWS = 5_000;

const WRONG = "Its encoding is wrong here: a character cannot be read";
const OPEN = "A quote is missing or wrong here";
const BROKEN = "This file cannot be read: it is neither CSV nor a workbook (.xlsx, .xls, .ods)";

/** The first line by which a spreadsheet knows the separator. */
const SEPARATOR_LINE = /^"?sep=([,;\t])"?\r?\n/i;

/** Whether a file is a PDF, or its first kilobyte has characters up to U+0008. @param {string} text */
const isBinary = (text) => /^%PDF-|[\0-\b]/.test(text.slice(0, 1024));

/** A file that cannot be read. Its message says why. */
export class UnreadableError extends Error {}

const papa = await loadLibrary("./papaparse.min.js");

/** Let the tab do something else. In a hidden tab, a timer would take seconds. */
export function pause() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => resolve(port1.close());
    port2.postMessage(null);
  });
}

/**
 * Read CSV, or tab-separated text.
 *
 * @param {Uint8Array} bytes
 * @param {string} [encoding] that of the bytes; otherwise it is guessed
 * @returns {Promise<Table>}
 */
export async function readCsv(bytes, encoding) {
  const [encodings, isSure] = guessEncoding(bytes);
  const found = encoding ?? encodings[0][0];
  let text = new TextDecoder(found).decode(bytes).replace(/^\ufeff+/, "");
  if (isBinary(text)) throw new UnreadableError(BROKEN);
  // PapaParse reads one kind of line end.
  if (/\r(?!\n)/.test(text)) text = text.replace(/\r\n?/g, "\n");
  const [line = "", given] = SEPARATOR_LINE.exec(text) ?? [];
  text = text.slice(line.length);
  if (text === "") throw new UnreadableError("The file is empty");
  const separator = given ?? findSeparator(text);
  const table = await parse(text, separator);
  if (text.includes("\ufffd")) {
    for (const [index, cells] of table.rows.entries()) {
      if (cells.some((cell) => cell.includes("\ufffd"))) table.faults.set(index, WRONG);
    }
  }
  return { ...table, separator, encodings: isSure ? [] : encodings };
}

/**
 * Read the cells that a spreadsheet copies: with tabs between them, and with quotes around a cell in
 * which a tab or a line break is. Other quotes belong to the texts.
 *
 * @param {string} text
 * @returns {Table}
 */
export function readPasted(text) {
  /** @type {string[][]} */
  const rows = [[]];
  const lines = text.replace(/\r\n?/g, "\n");
  const [plain, quoted] = [/[^\t\n]*/y, /"([^"]*(?:""[^"]*)*)"(?=[\t\n]|$)/y];
  for (let at = 0; at <= lines.length; at += 1) {
    plain.lastIndex = quoted.lastIndex = at;
    const [all = "", inner = ""] = quoted.exec(lines) ?? [];
    const isQuoted = /[\t\n]/.test(inner);
    const [text] = isQuoted ? [all] : (plain.exec(lines) ?? [""]);
    rows.at(-1)?.push(isQuoted ? inner.replaceAll('""', '"') : text);
    at += text.length;
    if (lines[at] === "\n") rows.push([]);
  }
  return { rows, faults: new Map(), separator: "\t" };
}

/**
 * Return the encodings that bytes may be written in, the most likely first, and whether the first is
 * sure. If most characters beyond ASCII are UTF-8, only some rows are not.
 *
 * @param {Uint8Array} bytes
 * @returns {[string[][], boolean]}
 */
function guessEncoding(bytes) {
  const [first, second] = bytes;
  if (first === 0xff && second === 0xfe) return [[["utf-16le"]], true];
  if (first === 0xfe && second === 0xff) return [[["utf-16be"]], true];
  const isUtf16 = bytes.length % 2 === 0 && findUtf16(bytes.subarray(0, SAMPLED_BYTES));
  if (isUtf16) return [[[isUtf16]], true];
  const text = new TextDecoder().decode(bytes);
  const wrong = text.match(/\ufffd/g)?.length ?? 0;
  const right = text.match(/[^\0-\x7f\ufffd]/g)?.length ?? 0;
  if (wrong === 0) return [[["utf-8"]], true];
  const others = listEncodings(bytes);
  return [wrong > right ? others : [["utf-8", "Unicode (utf-8)", WRONG], ...others], false];
}

/**
 * Return the name of UTF-16 without a byte order mark: one of the two bytes of each ASCII character is
 * zero, always on the same side.
 *
 * @param {Uint8Array} bytes
 */
function findUtf16(bytes) {
  const [even, odd] = [0, 1].map((side) => {
    return bytes.filter((byte, at) => byte === 0 && at % 2 === side).length;
  });
  const isMany = even + odd > bytes.length / UTF16_PART;
  if (!isMany || (even > 0 && odd > 0)) return "";
  return odd > 0 ? "utf-16le" : "utf-16be";
}

/**
 * Return the separator that divides the first row, or, if that is a title, the next one.
 *
 * @param {string} text
 */
function findSeparator(text) {
  const parse = (/** @type {string} */ delimiter) =>
    papa.parse(text.slice(0, STEP_CHARACTERS), {
      delimiter,
      newline: "\n",
      preview: SEARCHED_ROWS,
    });
  const [tabs, semicolons, commas] = ["\t", ";", ","].map((delimiter) =>
    parse(delimiter).data.filter((/** @type {string[]} */ cells) => !isEmpty(cells)),
  );
  const many = (/** @type {string[][]} */ [first]) => first?.length ?? 0;
  if (many(tabs) > 1) return "\t";
  if (many(commas) > 1 || many(semicolons) > 1) {
    const isFirst = many(semicolons) > 1 && text.indexOf(";") < text.indexOf(",");
    return many(semicolons) > many(commas) || isFirst ? ";" : ",";
  }
  // A blank follows a comma within a name.
  const divides = (/** @type {string[][]} */ [, next]) =>
    next?.length > 1 && next.every((cell) => !/^\s/.test(cell));
  if (divides(semicolons)) return ";";
  return !divides(tabs) && divides(commas) ? "," : "\t"; // of one column: tabs are rare in names
}

/** @param {string} text @param {string} delimiter */
async function parse(text, delimiter) {
  /** @type {string[][]} */
  const rows = [];
  const faults = new Map();
  let isTooLarge = false;
  await new Promise((complete) => {
    papa.parse(text, {
      delimiter,
      newline: "\n",
      chunkSize: STEP_CHARACTERS,
      complete,
      chunk: (/** @type {any} */ { data, errors }, /** @type {any} */ parser) => {
        for (const { row } of errors) faults.set(rows.length + row, OPEN);
        for (const cells of data) {
          const last = cells.length - 1;
          if (cells[last].endsWith("\r")) cells[last] = cells[last].slice(0, -1);
          rows.push(cells);
        }
        isTooLarge = data.length === 0;
        if (isTooLarge) parser.abort();
        else {
          parser.pause();
          pause().then(() => parser.resume());
        }
      },
    });
  });
  if (isTooLarge) {
    const row = (rows.length + 1).toLocaleString("en");
    throw new UnreadableError(`Row ${row} has more than a million characters. Is a quote missing?`);
  }
  return { rows, faults };
}

/**
 * Write rows as CSV, with the line ends of RFC 4180.
 *
 * @param {string[][]} rows @param {string} [delimiter]
 * @returns {string}
 */
export function write(rows, delimiter = ",") {
  return `${papa.unparse(rows, { delimiter })}\r\n`;
}

/**
 * Call a function with each row that is not empty, and let the tab do something else now and then.
 *
 * @param {string[][]} rows @param {AbortSignal} signal
 * @param {(cells: string[], index: number) => void} take
 */
export async function forEachRow(rows, signal, take) {
  for (const [index, cells] of rows.entries()) {
    if (index % STEP_ROWS === 0) {
      await pause();
      signal.throwIfAborted();
    }
    if (!isEmpty(cells)) take(cells, index);
  }
}

/** Whether no cell has a text. @param {string[]} cells */
export function isEmpty(cells) {
  return cells.every((cell) => cell.trim() === "");
}

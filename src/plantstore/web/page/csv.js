/**
 * CSV: files in any common encoding, and pasted rows, become rows of cells; and rows become CSV. This
 * module and PapaParse are loaded when the user chooses a file.
 *
 * @typedef {{rows: string[][], faults: Map<number, string>, separator: string, encodings?: string[][],
 *   cellFaults?: Map<number, Map<number, string>>, notes?: string[],
 *   sheets?: string[], sheet?: number}} Table the rows of a file, also the empty ones, so that a row
 *   has the number that a spreadsheet shows; by their index, what is wrong with rows; how CSV is
 *   written, and the encodings to choose from, if none is sure; of a workbook, by row and column, what
 *   is wrong with cells, what the user must know, the names of its sheets, and the one that is read
 */

import { ESCAPE, listEncodings } from "./encodings.js";
import { loadLibrary } from "./library.js";
import { ApiError } from "./requests.js";

/** The largest file, and the largest content of a workbook: all rows are in the memory of the tab. */
export const FILE_BYTES_MAX = 100_000_000;

/** Among how many rows the first two that are not empty are searched, and in how many characters. */
const SEARCHED_ROWS = 10;
const SEARCHED_CHARACTERS = 1_000_000;

const WRONG = "Its encoding is wrong here: a character cannot be read";
const OPEN = "A quote is missing or wrong here";
const BROKEN = "This file cannot be read: it is neither CSV nor a workbook (.xlsx, .xls, .ods)";

/** The numbers or bullets of a list. No name begins so. */
const BULLETS = /^[^\S\n]*(?:\d+[.)]|[-–—*•·▪◦])[^\S\n]+/gm;

/** Whether a file is a PDF, or its first kilobyte has characters up to U+0008. @param {string} text */
const isBinary = (text) => /^%PDF-|[\0-\b]/.test(text.slice(0, 1024));

const papa = await loadLibrary("./papaparse.min.js");

/**
 * Read CSV, or tab-separated text.
 *
 * @param {Uint8Array} bytes
 * @param {string} [encoding] that of the bytes; otherwise it is guessed
 * @returns {Table}
 */
export function readCsv(bytes, encoding) {
  const [encodings, isSure] = guessEncoding(bytes);
  const found = encoding ?? encodings[0][0];
  const text = new TextDecoder(found).decode(bytes).replace(/^\ufeff+/, "");
  if (isBinary(text)) throw new ApiError(BROKEN);
  if (text === "") throw new ApiError("The file is empty");
  // PapaParse reads one kind of line end.
  const lines = /\r(?!\n)/.test(text) ? text.replace(/\r\n?/g, "\n") : text;
  const separator = findSeparator(lines);
  const { data: rows, errors } = papa.parse(lines, { delimiter: separator, newline: "\n" });
  const faults = new Map(errors.map((/** @type {{row: number}} */ { row }) => [row, OPEN]));
  for (const [index, cells] of rows.entries()) {
    const last = cells.length - 1;
    cells[last] = cells[last].replace(/\r$/, "");
    if (cells.some((/** @type {string} */ cell) => cell.includes("\ufffd"))) {
      faults.set(index, WRONG);
    }
  }
  if (/^sep=.?$/i.test(rows[0][0])) rows[0] = []; // It names the separator.
  return { rows, faults, separator, encodings: isSure ? [] : encodings };
}

/**
 * Read the cells that a spreadsheet copies: with tabs between them, and with quotes around a cell in
 * which a tab or a line break is. Other quotes belong to the texts. Of a list of names, the numbers or
 * bullets in front of them are left out.
 *
 * @param {string} text
 * @returns {Table}
 */
export function readPasted(text) {
  /** @type {string[][]} */
  const rows = [[]];
  const all = text.replace(/\r\n?/g, "\n");
  const bare = all.replace(BULLETS, "");
  const many = all.match(BULLETS)?.length ?? 0;
  const isList = many > 1 && !bare.includes("\t");
  const lines = isList ? bare : all;
  const notes = isList ? ["Numbers and bullets in front of the names are left out."] : [];
  const [plain, quoted] = [/[^\t\n]*/y, /"([^"]*(?:""[^"]*)*)"(?=[\t\n]|$)/y];
  for (let at = 0; at <= lines.length; at += 1) {
    plain.lastIndex = quoted.lastIndex = at;
    const [cell = "", inner = ""] = quoted.exec(lines) ?? [];
    const isQuoted = /[\t\n]/.test(inner);
    const [text] = isQuoted ? [cell] : (plain.exec(lines) ?? [""]);
    rows.at(-1)?.push(isQuoted ? inner.replaceAll('""', '"') : text);
    at += text.length;
    if (lines[at] === "\n") rows.push([]);
  }
  return { rows, faults: new Map(), separator: "\t", notes };
}

/**
 * Return the encodings that bytes may be written in, and whether the first is sure. If most characters
 * beyond ASCII are UTF-8, only some rows are not.
 *
 * @param {Uint8Array} bytes
 * @returns {[string[][], boolean]}
 */
function guessEncoding(bytes) {
  const [first, second] = bytes;
  if (first === 0xff && second === 0xfe) return [[["utf-16le"]], true];
  if (first === 0xfe && second === 0xff) return [[["utf-16be"]], true];
  const text = new TextDecoder().decode(bytes);
  const wrong = text.match(/\ufffd/g)?.length ?? 0;
  const right = text.match(/[^\0-\x7f\ufffd]/g)?.length ?? 0;
  if (wrong === 0 && (right > 0 || !text.includes(ESCAPE))) return [[["utf-8"]], true];
  const others = listEncodings(bytes);
  return [wrong > right ? others : [["utf-8", WRONG], ...others], false];
}

/** Return the separator that divides the first row, or, if that is a title, the next one. @param {string} text */
function findSeparator(text) {
  const start = text.slice(0, SEARCHED_CHARACTERS);
  const [tabs, semicolons, commas] = ["\t", ";", ","].map((delimiter) => {
    const { data } = papa.parse(start, { delimiter, newline: "\n", preview: SEARCHED_ROWS });
    return data.filter((/** @type {string[]} */ cells) => !isEmpty(cells));
  });
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

/** Write rows as CSV, with the line ends of RFC 4180. @param {string[][]} rows @param {string} [delimiter] */
export function write(rows, delimiter = ",") {
  return `${papa.unparse(rows, { delimiter })}\r\n`;
}

/** Whether no cell has a text. @param {string[]} cells */
export function isEmpty(cells) {
  return cells.every((cell) => cell.trim() === "");
}

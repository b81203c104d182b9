/**
 * Workbooks of spreadsheets (.xlsx, ECMA-376): a ZIP archive of XML files. This module is loaded with
 * its libraries when the user chooses a workbook. The policy of the page forbids the browser's own XML
 * parser, because it would also make markup from text.
 *
 * @typedef {(name: string, readAttributes: () => Record<string, string>,
 *   decode: (text: string) => string) => void} Open
 */

import { FILE_BYTES_MAX, pause, UnreadableError } from "./csv.js";
import { Unzip, UnzipInflate } from "./fflate.mjs";
import { Parser } from "./saxen.mjs";

const NEEDED = /^xl\/(workbook|_rels\/workbook|sharedStrings|worksheets\/[^/]+)\.xml(\.rels)?$/;

/** The last row of a spreadsheet. */
const ROWS_MAX = 1_048_576;

/** How much is unpacked or parsed before the tab may do something else: bytes, and characters. */
const STEP_BYTES = 1 << 16;
const STEP_CHARACTERS = 1_000_000;

/** An integer beyond this is rounded by spreadsheets, and an id would be another one. */
const EXACT = 1e15;

const BROKEN = "This workbook cannot be read: save it again as .xlsx or as CSV";
const TOO_LARGE = "This workbook is too large: its content has more than 100 MB";

/**
 * Read the cells of a sheet.
 *
 * @param {Uint8Array} bytes
 * @param {number} sheet
 * @returns {Promise<import("./csv.js").Table>}
 */
export async function readWorkbook(bytes, sheet) {
  const files = await unpack(bytes);
  /** @type {{name: string, file: string}[]} */
  const sheets = [];
  const targets = new Map();
  read(files.get("xl/_rels/workbook.xml.rels"), (element, readAttributes) => {
    const { Id, Target = "" } = readAttributes();
    if (element === "Relationship") targets.set(Id, Target.replace(/^\/?(xl\/)?/, "xl/"));
  });
  read(files.get("xl/workbook.xml"), (element, readAttributes, decode) => {
    const { name = "", ...attributes } = readAttributes();
    const id = Object.entries(attributes).find(([key]) => key.endsWith(":id"))?.[1];
    const file = files.get(targets.get(id));
    if (element === "sheet" && file !== undefined) sheets.push({ name: decode(name), file });
  });
  if (!sheets[sheet]) throw new UnreadableError(BROKEN);
  const texts = await readTexts(files.get("xl/sharedStrings.xml") ?? "");
  const rows = await readRows(sheets[sheet].file, texts);
  return { rows, faults: new Map(), separator: ",", sheets: sheets.map(({ name }) => name) };
}

/** Return the files of an archive that are needed, as texts. @param {Uint8Array} bytes */
async function unpack(bytes) {
  /** @type {Map<string, string>} */
  const files = new Map();
  let size = 0;
  const unzip = new Unzip((file) => {
    if (!NEEDED.test(file.name)) return;
    const decoder = new TextDecoder();
    let text = "";
    file.ondata = (error, data, isEnd) => {
      if (error) throw error;
      size += data.length;
      if (size > FILE_BYTES_MAX) throw new UnreadableError(TOO_LARGE);
      text += decoder.decode(data, { stream: !isEnd });
      if (isEnd) files.set(file.name, text);
    };
    file.start();
  });
  unzip.register(UnzipInflate);
  try {
    for (let at = 0; at < bytes.length; at += STEP_BYTES) {
      const end = at + STEP_BYTES;
      unzip.push(bytes.subarray(at, end), end >= bytes.length);
      await pause();
    }
  } catch (error) {
    throw error instanceof UnreadableError ? error : new UnreadableError(BROKEN);
  }
  return files;
}

/**
 * Parse XML. Names of elements lose their prefixes.
 *
 * @param {string|undefined} xml
 * @param {Open} open
 * @param {(text: string) => void} [take] gets the texts
 * @param {(name: string) => void} [close]
 */
function read(xml, open, take, close) {
  const bare = (/** @type {string} */ name) => name.slice(name.indexOf(":") + 1);
  const parser = new Parser();
  parser.on("error", () => {
    throw new UnreadableError(BROKEN);
  });
  parser.on("openTag", (name, readAttributes, decode) => open(bare(name), readAttributes, decode));
  if (take) parser.on("text", (text, decode) => take(decode(text)));
  if (take) parser.on("cdata", take);
  if (close) parser.on("closeTag", (name) => close(bare(name)));
  parser.parse(xml ?? "");
}

/**
 * Parse the elements of a long file that have a name and follow each other, in steps.
 *
 * @param {string} xml @param {string} name
 * @param {Open} open @param {(text: string) => void} take @param {(name: string) => void} close
 */
async function readEach(xml, name, open, take, close) {
  const first = new RegExp(`<(\\w+:)?${name}[\\s/>]`).exec(xml);
  const last = `</${first?.[1] ?? ""}${name}>`;
  for (let from = first?.index ?? 0, end = xml.lastIndexOf(last); from < end; ) {
    const next = xml.indexOf(last, from + STEP_CHARACTERS);
    const to = (next < 0 ? end : next) + last.length;
    read(`<x>${xml.slice(from, to)}</x>`, open, take, close);
    from = to;
    await pause();
  }
}

/** Return the texts that cells refer to. @param {string} xml */
async function readTexts(xml) {
  /** @type {string[]} */
  const texts = [];
  let hidden = 0;
  let isText = false;
  const open = (/** @type {string} */ name) => {
    if (name === "si") texts.push("");
    if (name === "rPh") hidden += 1; // how a text is pronounced
    isText = name === "t" && hidden === 0;
  };
  const take = (/** @type {string} */ text) => {
    if (isText) texts.push(texts.pop() + text);
  };
  await readEach(xml, "si", open, take, (name) => {
    if (name === "rPh") hidden -= 1;
    if (name === "si") texts.push(decodeEscapes(texts.pop() ?? ""));
    isText = false;
  });
  return texts;
}

/** @param {string} xml @param {string[]} texts */
async function readRows(xml, texts) {
  /** @type {string[][]} */
  const rows = [];
  /** @type {string[]} */
  let cells = [];
  let kind = "";
  let column = 0;
  let isValue = false;
  let value = "";
  /** @type {Open} */
  const open = (name, readAttributes) => {
    if (name === "row") {
      const number = Number(readAttributes().r ?? rows.length + 1);
      if (!(number > rows.length && number <= ROWS_MAX)) throw new UnreadableError(BROKEN);
      while (rows.length < number - 1) rows.push([]);
      cells = [];
      rows.push(cells);
    } else if (name === "c") {
      const { r, t = "n" } = readAttributes();
      column = r ? findColumn(r) : cells.length;
      kind = t;
      value = "";
    }
    isValue = name === "v" || name === "t";
  };
  const take = (/** @type {string} */ text) => {
    if (isValue) value += text;
  };
  const close = (/** @type {string} */ name) => {
    isValue = false;
    if (name !== "c" || value === "") return;
    while (cells.length < column) cells.push("");
    cells[column] = show(kind, value, texts);
  };
  await readEach(xml, "row", open, take, close);
  return rows;
}

/** Return the index of the column of a cell: 27 for AB7. @param {string} cell */
function findColumn(cell) {
  const letters = cell.match(/^[A-Z]{1,3}/)?.[0] ?? "A";
  return [...letters].reduce((sum, letter) => sum * 26 + letter.charCodeAt(0) - 64, 0) - 1;
}

/** @param {string} kind @param {string} value @param {string[]} texts */
function show(kind, value, texts) {
  if (kind === "s") return texts[Number(value)] ?? "";
  if (kind === "b") return value === "1" ? "TRUE" : "FALSE";
  if (kind === "n" && Math.abs(Number(value)) < EXACT) return String(Number(value));
  return decodeEscapes(value);
}

/** Replace the escapes of characters that XML cannot hold: `_x000D_`. @param {string} text */
function decodeEscapes(text) {
  return text.replace(/_x([0-9A-F]{4})_/g, (_, digits) =>
    String.fromCharCode(Number.parseInt(digits, 16)),
  );
}

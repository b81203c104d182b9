/**
 * Workbooks (.xlsx, .xlsb, .xls, .ods), read and written by SheetJS. This module is a worker: the page
 * can end it whatever a file makes it do.
 *
 * SheetJS passes over some of what it does not know. Here, a cell has the text that a spreadsheet
 * shows, or a fault, or the file is refused.
 *
 * @typedef {{t: string, v?: any, w?: string, z?: string, f?: string, F?: string}} Cell of SheetJS:
 *   its type, value, shown text, format, and formula
 */

import { recognize, SAMPLED_ROWS } from "./columns.js";
import { loadLibrary } from "./library.js";

/** How many characters the columns of an export are wide: those of the ids, names and tags. */
const WIDTHS = [12, 48, 24];

/** The last row of a spreadsheet. */
const ROWS_MAX = 1_048_576;

/** How much a sheet may have. An empty cell before another one counts: it takes as much memory. */
const CELLS_MAX = 10_000_000;
const CHARACTERS_MAX = 100_000_000;

/** A spreadsheet rounds a number beyond this, and an id would be another one. */
const EXACT = 1e15;

const BROKEN = "This file cannot be read: open it in a spreadsheet, and save it as .xlsx or CSV";
const LOCKED = "This file is protected by a password: save it without one";
const TOO_LARGE = "This workbook is too large: divide it into smaller ones, or save it as CSV";
const NO_RESULT = "A formula without a result: open the file in a spreadsheet, and save it";
const NOT_TOLD = "A formula whose result an .xls does not tell: save it as .xlsx";
const ROUNDED = "Spreadsheets keep 15 digits of a number: format the column as text";

const ERROR = /^(#(N\/A|REF!|VALUE!|DIV\/0!|NAME\?|NUM!|NULL!|SPILL!|CALC!|FIELD!)|Err:\d+)$/;

/** The formats of other numbers than plain ones are shown. */
const PLAIN = /^(general|@|[#?0,.\sE+-]*)$/i;

/** What looks like a character that Excel escapes. */
const ESCAPE = /_(?=x[\da-f]{4}_)/gi;

/** The address of a cell, if no spreadsheet has it. SheetJS would put the cell in another place. */
const WRONG_ADDRESS = /<(\w+:)?c\s([^>]*\s)?r=["'](?![A-Z]{1,3}[1-9]\d*["'])/;

/** What a formula of OpenDocument without a result becomes. */
const NOT_AVAILABLE = 'office:value-type="string" office:string-value="#N/A"';

const OPTIONS = {
  ...{ type: "array", dense: true, cellFormula: true, sheetStubs: true, cellHTML: false },
  ...{ cellNF: true, cellStyles: true }, // adds the formats of numbers, and which rows are hidden
};

/** SheetJS. */
export const library = loadLibrary("./xlsx.core.min.js");

globalThis.onmessage = async ({ data: { bytes, sheet, rows } }) => {
  const made = bytes ? readSheet(bytes, sheet) : makeWorkbook(rows);
  const answer = await made.then(
    (result) => ({ result }),
    ({ message }) => ({ message }),
  );
  globalThis.postMessage(answer);
};

/**
 * Read the cells of a sheet.
 *
 * @param {Uint8Array} bytes
 * @param {number} [chosen] otherwise the first visible sheet in which a column has a usual name of
 *   names, or else the first one with cells
 * @returns {Promise<import("./csv.js").Table>}
 */
export async function readSheet(bytes, chosen) {
  const xlsx = await library;
  const book = read(xlsx, bytes);
  /** @type {string[]} */
  const names = book.SheetNames;
  const isHidden = names.map((_, at) => Boolean(book.Workbook?.Sheets?.[at]?.Hidden));
  const rowsOf = (/** @type {number} */ at) => book.Sheets[names[at]]?.["!data"] ?? [];
  const visible = [...names.keys()].filter((at) => !isHidden[at] && rowsOf(at).length > 0);
  const hasNames = (/** @type {Cell[]} */ row) =>
    recognize(Array.from(row, (cell) => String(cell?.v ?? ""))).name >= 0;
  const named = visible.find((at) => rowsOf(at).slice(0, SAMPLED_ROWS).some(hasNames));
  const sheet = chosen ?? named ?? visible[0] ?? 0;
  const content = book.Sheets[names[sheet]];
  if (!content) throw new Error(BROKEN);
  const table = makeTable();
  const toText = makeReader(xlsx.SSF, book);
  const { "!data": data = [], "!merges": merges = [], "!rows": infos = [] } = content;
  // Only cells that are stored are visited: a row may have one in its last column.
  for (const row of Object.keys(data)) {
    for (const column of Object.keys(data[row])) {
      table.put(Number(row), Number(column), ...toText(data[row][column]));
    }
  }
  for (const { s, e } of merges) table.fill(s, e);
  const { rows, cellFaults, isMerged } = table;
  const hidden = infos.filter(
    (/** @type {any} */ info, /** @type {number} */ at) => info?.hidden && rows[at]?.length > 0,
  );
  const notes = {
    "Merged cells are split: each has their value.": isMerged,
    [`Hidden rows are imported, too: ${hidden.length}.`]: hidden.length > 0,
  };
  return {
    ...{ rows, faults: new Map(), cellFaults, separator: ",", sheet },
    notes: Object.entries(notes).flatMap(([note, isTrue]) => (isTrue ? note : [])),
    sheets: names.map((name, at) => (isHidden[at] ? `${name} (hidden)` : name)),
  };
}

/** @param {any} xlsx @param {Uint8Array} bytes */
function read(xlsx, bytes) {
  try {
    const archive = xlsx.CFB.read(bytes, { type: "array" });
    const find = (/** @type {string} */ path) => xlsx.CFB.find(archive, path)?.content;
    if (find("/EncryptedPackage")) throw new Error("password");
    if (bytes[0] !== 0x50) {
      // Older workbooks than those of Excel 97 have other streams, and texts in many encodings.
      if (!find("/Workbook")) throw new Error(BROKEN);
      return xlsx.read(bytes, OPTIONS);
    }
    const isOpenDocument = find("/META-INF/manifest.xml") !== undefined;
    for (const file of archive.FileIndex) file.content = clean(file.content, isOpenDocument);
    // Without styles, SheetJS takes ten times as long to say so for each cell.
    const cellStyles = archive.FullPaths.some((/** @type {string} */ path) =>
      path.endsWith("styles.xml"),
    );
    const book = xlsx.parse_zip(archive, { ...OPTIONS, cellStyles });
    if (!["xlsx", "xlsb", "ods"].includes(book.bookType)) throw new Error(BROKEN);
    if (isOpenDocument) addHidden(book, new TextDecoder().decode(find("/content.xml")));
    return book;
  } catch (error) {
    const message = error instanceof Error ? error.message : "";
    throw new Error(/password/i.test(message) ? LOCKED : BROKEN);
  }
}

/**
 * Return a file of an archive, as XML that SheetJS reads rightly. It does not know characters beyond
 * U+FFFF that are written as numbers, nor an empty `si`, and finds one text too many. It decodes the
 * text of a formula twice, and makes a number of a date in ISO 8601. In OpenDocument, it decodes the
 * escapes of Excel, too, and passes over formulas without a result.
 *
 * @param {Uint8Array} content @param {boolean} isOpenDocument
 */
function clean(content, isOpenDocument) {
  const start = content?.[0] === 0xef ? 3 : 0; // after a byte order mark
  if (content?.[start] !== 0x3c) return content;
  const xml = new TextDecoder("utf-8", { fatal: true }).decode(content);
  if (/^<\?xml[^>]*encoding=["'](?!utf-?8["'])|<!ENTITY/i.test(xml)) throw new Error(BROKEN);
  if (WRONG_ADDRESS.test(xml)) throw new Error(BROKEN);
  if (isOpenDocument && xml.includes(":encryption-data")) throw new Error("password");
  const quote = (/** @type {string} */ text) =>
    text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
  const plain = xml.replace(
    /<!\[CDATA\[(.*?)\]\]>|&#(x?)([\da-f]+);/gis,
    (_, text, isHex, digits) =>
      quote(text ?? String.fromCodePoint(Number.parseInt(digits, isHex ? 16 : 10))),
  );
  const cleaned = isOpenDocument
    ? plain
        .replace(ESCAPE, "_x005F_")
        .replace(
          /(<table:table-cell(?![^>]*value-type)[^>]*formula="[^>]*)\/>/g,
          `$1 ${NOT_AVAILABLE}/>`,
        )
    : plain
        .replace(/<(\w+:)?si\s*\/>/g, "<$1si></$1si>")
        .replace(/(?=<\/(\w+:)?sst>)/, "<none/>")
        .replace(/(<(?:\w+:)?c\s[^>]*?\bt=["'])d(?=["'])/g, "$1str")
        .replace(/(<(?:\w+:)?v(?:\s[^>]*)?>)([^<]*[&_][^<]*)/g, (_, tag, text) =>
          tag.concat(text.replace(/&(amp|#38);/g, "&amp;amp;").replace(ESCAPE, "_x005F_")),
        );
  return cleaned === xml ? content : new TextEncoder().encode(cleaned);
}

/** Add to a book what SheetJS does not read in OpenDocument. @param {any} book @param {string} xml */
function addHidden(book, xml) {
  const styles = xml.matchAll(
    /<style:style style:name="([^"]*)"[^>]*>\s*<style:table-prop[^>]*display="false"/g,
  );
  const hidden = new Set([...styles].map(([, name]) => name));
  const tables = xml.split(/<table:table(?=\s)/).slice(1);
  book.Workbook.Sheets = tables.map((table) => {
    const [, style = ""] = /^[^>]*table:style-name="([^"]*)"/.exec(table) ?? [];
    return { Hidden: hidden.has(style) };
  });
  for (const [at, name] of book.SheetNames.entries()) {
    /** @type {{hidden: boolean}[]} */
    const rows = [];
    let row = 0;
    for (const [tag] of (tables[at] ?? "").matchAll(/<table:table-row\b[^>]*>/g)) {
      const next = Math.min(row + Number(/rows-repeated="(\d+)"/.exec(tag)?.[1] ?? 1), ROWS_MAX);
      const hidden = /visibility="(collapse|filter)"/.test(tag);
      for (; row < next; row += 1) if (hidden) rows[row] = { hidden };
    }
    book.Sheets[name]["!rows"] = rows;
  }
}

/** Return what takes the cells of a sheet, within the bounds. */
function makeTable() {
  /** @type {string[][]} */
  const rows = [];
  /** @type {Map<number, Map<number, string>>} */
  const cellFaults = new Map();
  const table = { rows, cellFaults, isMerged: false, put, fill };
  let cells = 0;
  let characters = 0;

  /** @param {number} row @param {number} column @param {string} text @param {string} [fault] */
  function put(row, column, text, fault) {
    if (!text && !fault) return;
    if (row >= ROWS_MAX) throw new Error(BROKEN);
    cells += Math.max(0, column + 1 - (rows[row]?.length ?? 0));
    characters += text.length;
    if (cells > CELLS_MAX || characters > CHARACTERS_MAX) throw new Error(TOO_LARGE);
    while (rows.length <= row) rows.push([]);
    while (rows[row].length < column) rows[row].push("");
    rows[row][column] = text;
    if (!fault) return;
    if (!cellFaults.has(row)) cellFaults.set(row, new Map());
    cellFaults.get(row)?.set(column, fault);
  }

  /** Give the cells that are merged into one its value. @param {Place} first @param {Place} last */
  function fill(first, last) {
    const text = rows[first.r]?.[first.c] ?? "";
    const fault = cellFaults.get(first.r)?.get(first.c);
    if (!text && !fault) return;
    for (let row = first.r; row <= last.r; row += 1) {
      for (let column = first.c; column <= last.c; column += 1) put(row, column, text, fault);
    }
    table.isMerged = true;
  }

  return table;
}

/** @typedef {{r: number, c: number}} Place */

/**
 * Return what tells the text of a cell, and what is wrong with it.
 *
 * @param {any} formats the part of SheetJS for formats
 * @param {any} book
 */
function makeReader(formats, { Workbook = {}, bookType }) {
  const { date1904 } = Workbook.WBProps ?? {};
  // No spreadsheet has calculated it. An .xls does not say so, and has no result of some texts.
  const isXls = !bookType;
  const isOpen = isXls || ["1", "true"].includes(Workbook.CalcPr?.fullCalcOnLoad);

  return (/** @type {Cell} */ { t, v, w = "", z = "General", f, F }) => {
    const isFormula = f !== undefined || F !== undefined;
    const isEmpty = t === "z" && bookType !== "ods"; // There, it is an empty text.
    const isUnknown = isEmpty || (isOpen && v === 0) || (isXls && v === "");
    if (isFormula && isUnknown) return told(w, isXls ? NOT_TOLD : NO_RESULT);
    if (t === "z") return told("");
    if (t === "e" || (isFormula && ERROR.test(v))) {
      return told(w || String(v), `An error of the spreadsheet: ${w || v}`);
    }
    if (t === "b") return told(v ? "TRUE" : "FALSE");
    if (t === "s" && typeof v === "string") return told(v);
    if (t !== "n" || !Number.isFinite(v)) throw new Error(BROKEN);
    if (Math.abs(v) >= EXACT) return told(String(v), ROUNDED);
    const [format] = z.replace(/\[[^\]]*\]|[_*]./g, "").split(";");
    const letters = format.replace(/"[^"]*"|\\./g, "");
    if (formats.is_date(z) && /[dy]/i.test(letters)) return told(toDate(v, letters));
    const isPlain = PLAIN.test(format) && !/^0[0,]/.test(format) && !/\p{L}{2}/u.test(w);
    return told(isPlain || w === "" ? String(round(v)) : w.trim());
  };

  /** @param {number} value @param {string} format */
  function toDate(value, format) {
    const { y, m, d, H, M, S } = formats.parse_date_code(value, { date1904 }) ?? {};
    if (y === undefined) throw new Error(BROKEN);
    const join = (/** @type {number[]} */ parts, /** @type {string} */ separator) =>
      parts.map((part) => String(part).padStart(2, "0")).join(separator);
    const time = join(S ? [H, M, S] : [H, M], ":");
    return `${String(y).padStart(4, "0")}-${join([m, d], "-")}${/[hs]/i.test(format) ? ` ${time}` : ""}`;
  }
}

/** @param {string} text @param {string} [fault] */
const told = (text, fault) => /** @type {[string, string?]} */ ([text, fault]);

/** Return a number as spreadsheets keep it. @param {number} value */
const round = (value) => Number(value.toPrecision(15));

/**
 * Make a workbook in which each cell is a text, so that a spreadsheet changes none.
 *
 * @param {string[][]} rows
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export async function makeWorkbook(rows) {
  const { utils, write } = await library;
  const toCell = (/** @type {string} */ text) => {
    // What looks like an escape of Excel is one otherwise.
    const v = text.replace(ESCAPE, "_x005F_");
    return text === "" ? undefined : { t: "s", v, z: "@" };
  };
  const end = { r: rows.length - 1, c: rows[0].length - 1 };
  const sheet = {
    "!cols": WIDTHS.map((wch) => ({ wch })),
    "!data": rows.map((cells) => cells.map(toCell)),
    "!ref": utils.encode_range({ s: { r: 0, c: 0 }, e: end }),
  };
  const book = utils.book_new(sheet, "Plants");
  return new Uint8Array(write(book, { type: "array", bookSST: true, compression: true }));
}

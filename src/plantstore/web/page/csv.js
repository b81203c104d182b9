/**
 * CSV: files in any common encoding, and pasted rows, become rows of cells; and rows become CSV for
 * the service. This module and PapaParse are loaded when the user chooses a file.
 *
 * @typedef {{rows: string[][], faults: Map<number, string>, separator: string, encoding?: string,
 *   isGuessed?: boolean, sheets?: string[]}} Table the rows of a file, also the empty ones, so that a
 *   row has the number that a spreadsheet shows; by their index, what is wrong with rows; how CSV is
 *   written, and whether this encoding may be wrong; and the names of the sheets of a workbook
 */

export const ENCODINGS = [
  "UTF-8",
  "UTF-16LE",
  "UTF-16BE",
  "Windows-1250",
  "Windows-1251",
  "Windows-1252",
];

/** The largest file, and the largest content of a workbook: all rows are in the memory of the tab. */
export const FILE_BYTES_MAX = 100_000_000;

/** How much is parsed before the tab may do something else; and so, the largest row. */
const STEP_CHARACTERS = 1_000_000;

/** How many rows are written before the tab may do something else. */
const STEP_ROWS = 5_000;

const WRONG = "Its encoding is wrong here: a character cannot be read";
const OPEN = "A quote is missing or wrong here";

/** The first line by which a spreadsheet knows the separator. */
const SEPARATOR_LINE = /^"?sep=([,;\t])"?\r?\n/i;

/** What no text begins with. */
const isControl = (/** @type {number} */ byte) => byte < 9 || (byte > 13 && byte < 32);

/** A file that cannot be read. Its message says why. */
export class UnreadableError extends Error {}

const papa = await loadPapa();

/** PapaParse has the form of an AMD module: it calls `define`. */
async function loadPapa() {
  /** @type {any} */
  let library;
  const define = (/** @type {unknown} */ _needs, /** @type {() => any} */ make) => {
    library = make();
  };
  Object.assign(globalThis, { define: Object.assign(define, { amd: true }) });
  await import("./papaparse.min.js");
  Object.assign(globalThis, { define: undefined });
  return library;
}

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
  if (!encoding && !isMarked(bytes) && bytes.subarray(0, 8).some(isControl)) {
    throw new UnreadableError("This is neither CSV nor an Excel workbook (.xlsx)");
  }
  const guess = guessEncoding(bytes);
  const found = encoding ?? guess;
  let text = new TextDecoder(found).decode(bytes).replace(/^\ufeff+/, "");
  // PapaParse reads one kind of line end.
  if (/\r(?!\n)/.test(text)) text = text.replace(/\r\n?/g, "\n");
  const [line = "", given] = SEPARATOR_LINE.exec(text) ?? [];
  text = text.slice(line.length);
  const separator = given ?? findSeparator(text);
  const table = await parse(text, separator);
  if (text.includes("\ufffd")) {
    for (const [index, cells] of table.rows.entries()) {
      if (cells.some((cell) => cell.includes("\ufffd"))) table.faults.set(index, WRONG);
    }
  }
  return { ...table, separator, encoding: found, isGuessed: guess.startsWith("Windows") };
}

/** Whether bytes begin with the byte order mark of UTF-16. @param {Uint8Array} bytes */
function isMarked([first, second]) {
  return (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff);
}

/**
 * Return the encoding of a text. What is not UTF-8 is in one of the single-byte encodings of Windows,
 * unless most of its characters beyond ASCII are UTF-8: then only some rows are not.
 *
 * @param {Uint8Array} bytes
 */
function guessEncoding(bytes) {
  if (isMarked(bytes)) return bytes[0] === 0xff ? "UTF-16LE" : "UTF-16BE";
  const as = (/** @type {string} */ encoding) => new TextDecoder(encoding).decode(bytes);
  const text = as("UTF-8");
  const wrong = text.match(/\ufffd/g)?.length ?? 0;
  if (wrong === 0 || wrong <= (text.match(/[^\0-\x7f\ufffd]/g)?.length ?? 0)) return "UTF-8";
  if (/[а-яё]{3}/i.test(as("Windows-1251"))) return "Windows-1251";
  // In 1252, these are signs that stand beside no letter: ł, ą and ż of 1250.
  return /\p{L}[¹³¿]/u.test(as("Windows-1252")) ? "Windows-1250" : "Windows-1252";
}

/** Return the separator that divides the first row. @param {string} text */
function findSeparator(text) {
  const many = (/** @type {string} */ delimiter) =>
    papa.parse(text.slice(0, STEP_CHARACTERS), { delimiter, newline: "\n", preview: 1 }).data[0]
      ?.length;
  if (many("\t") > 1) return "\t";
  const [commas, semicolons] = [many(","), many(";")];
  if (commas === 1 && semicolons === 1) return "\t"; // There is one column. Tabs are rare in names.
  const isFirst = semicolons > 1 && text.indexOf(";") < text.indexOf(",");
  return semicolons > commas || isFirst ? ";" : ",";
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

/**
 * CSV files of spreadsheets, as far as the service does not take them: their encoding, the line
 * `sep=;`, and rows without ids.
 *
 * @typedef {{file: File, encoding: string, body: Blob, skipped: number, header: string,
 *   separator: string, columns: string[]}} Csv a file in UTF-8, what it was in, its part that the
 *   service reads, how many lines precede this part, and its header
 */

/** The possible separators, as in the service. */
const SEPARATORS = [",", ";", "\t"];

/** How much of a file is read to detect its encoding. */
const SCANNED_BYTES = 16 * 1024 * 1024;

/** A row has at most 16 KiB, so the header is within this part of a file. */
const ROW_BYTES_MAX = 16 * 1024;

/** The first line by which a spreadsheet knows the separator. */
const SEPARATOR_LINE = /^"?sep=([,;\t])"?(\r\n|\r|\n)/i;

/** The first bytes of files in UTF-16, with their byte order mark. */
const MARKS = { fffe: "UTF-16LE", feff: "UTF-16BE" };

/** The first bytes of workbooks: .xlsx is a ZIP archive. */
const WORKBOOKS = ["504b0304", "d0cf11e0"];

/** What no text begins with. The service says what is wrong with such a file. */
const isControl = (/** @type {number} */ byte) => byte < 9 || (byte > 13 && byte < 32);

/** A file that is not CSV, but a workbook of a spreadsheet. */
export class WorkbookError extends Error {}

/**
 * Read how a file is written, and decode it if it is not in UTF-8.
 *
 * @param {File} file
 * @returns {Promise<Csv>}
 */
export async function readCsv(file) {
  const encoding = await detect(file);
  const decoded = encoding === "UTF-8" ? file : await decode(file, encoding);
  const start = (await decoded.slice(0, ROW_BYTES_MAX).text()).replace(/^\ufeff/, "");
  const [line = "", separator] = SEPARATOR_LINE.exec(start) ?? [];
  const body = line ? decoded.slice((await sizeOfMark(decoded)) + line.length) : decoded;
  const header = /^[^\r\n]*(\r\n|\r|\n)?/.exec(start.slice(line.length))?.[0] ?? "";
  const csv = { file: decoded, encoding, body, skipped: line ? 1 : 0, header };
  const parsed = (separator ? [separator] : SEPARATORS).map((each) => ({
    separator: each,
    columns: splitRow(header, each).map((name) => name.trim().toLowerCase()),
  }));
  return { ...csv, ...(parsed.find(({ columns }) => columns.includes("name")) ?? parsed[0]) };
}

/**
 * Return the encoding of a file. A file that is not UTF-8 is Windows-1252, unless most of its
 * characters beyond ASCII are UTF-8: then only some rows are not, and the service names them.
 *
 * @param {File} file
 */
async function detect(file) {
  const bytes = new Uint8Array(await file.slice(0, SCANNED_BYTES).arrayBuffer());
  const first = Array.from(bytes.slice(0, 4), (byte) => byte.toString(16).padStart(2, "0")).join(
    "",
  );
  if (WORKBOOKS.includes(first)) throw new WorkbookError();
  const mark = MARKS[/** @type {keyof typeof MARKS} */ (first.slice(0, 4))];
  if (mark) return mark;
  if (bytes.subarray(0, 8).some(isControl)) return "UTF-8";
  const text = new TextDecoder().decode(bytes, { stream: true }); // The last character may be cut.
  const wrong = text.match(/\ufffd/g)?.length ?? 0;
  const right = wrong && (text.match(/[^\0-\x7f\ufffd]/g)?.length ?? 0);
  return wrong > right ? "Windows-1252" : "UTF-8";
}

/** Return a file in UTF-8. @param {File} file @param {string} encoding */
async function decode(file, encoding) {
  const decoded = file.stream().pipeThrough(new TextDecoderStream(encoding));
  const blob = await new Response(decoded.pipeThrough(new TextEncoderStream())).blob();
  return new File([blob], file.name);
}

/** Return the size of the byte order marks that a file begins with. @param {Blob} file */
async function sizeOfMark(file) {
  const bytes = new Uint8Array(await file.slice(0, 6).arrayBuffer());
  const marks = String(bytes).match(/^(239,187,191\b,?){0,2}/)?.[0] ?? "";
  return 3 * (marks.match(/191/g)?.length ?? 0);
}

/** Return the cells of a row of one line. @param {string} line @param {string} separator */
function splitRow(line, separator) {
  const cells = line.match(new RegExp(`(?<=^|${separator})(${makeCell(separator)})`, "g")) ?? [];
  return cells.map((cell) => cell.replace(/^"(.*)"$/s, "$1").replaceAll('""', '"'));
}

/** Return the pattern of a cell. @param {string} separator */
function makeCell(separator) {
  return `"(?:[^"]|"")*"|(?!")[^${separator}\\r\\n]*`;
}

/**
 * Call a function with each row after the header that is not empty, and whether its name is empty.
 * If a row is not CSV, each of its lines is a row: after a correction they are.
 *
 * @param {Csv} csv
 * @param {(row: string, isNameless: boolean) => void} take
 */
async function forEachRow({ body, separator, columns }, take) {
  const cell = makeCell(separator);
  const before = `(?:(?:${cell})${separator}){${columns.indexOf("name")}}`;
  const row = `${before}(${cell})(?:${separator}(?:${cell}))*(?:\\r\\n|\\r|\\n|$)`;
  const pattern = new RegExp(`${row}|[^\\r\\n]*(?:\\r\\n|\\r|\\n|$)`, "y");
  const empty = `(?:"\\s*"|[^\\S\\r\\n${separator}]*)`;
  const emptyRow = new RegExp(`^${empty}(?:${separator}${empty})*(?:\\r\\n|\\r|\\n)?$`);
  const reader = body.stream().pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  let isHeader = true;
  for (let isEnd = false; !isEnd; ) {
    const { done, value = "" } = await reader.read();
    isEnd = done;
    held += value;
    // What begins before this is complete.
    const limit = isEnd ? held.length : held.length - ROW_BYTES_MAX;
    pattern.lastIndex = 0;
    while (pattern.lastIndex < limit) {
      const [text, name] = /** @type {RegExpExecArray} */ (pattern.exec(held));
      if (!isHeader && !emptyRow.test(text)) take(text, name === "" || name === '""');
      isHeader = false;
    }
    held = held.slice(pattern.lastIndex);
  }
}

/** Return how many rows have an empty name. @param {Csv} csv */
export async function countNameless(csv) {
  let many = 0;
  if (csv.columns.includes("name")) {
    await forEachRow(csv, (_row, isNameless) => {
      if (isNameless) many += 1;
    });
  }
  return many;
}

/** Return the rows of a file. @param {Csv} csv */
export async function readRows(csv) {
  /** @type {string[]} */
  const rows = [];
  await forEachRow(csv, (row) => rows.push(row));
  return rows;
}

/**
 * Return a file whose rows have these ids.
 *
 * @param {Csv} csv @param {string[]} rows @param {Iterator<string>} ids
 */
export function numberRows({ file, header, separator }, rows, ids) {
  const lines = rows.map((row) => `${ids.next().value}${separator}${row}`);
  const name = `${file.name.replace(/\.[^.]*$/, "")}-with-ids.csv`;
  return new File(["\ufeff", `id${separator}${header}`, ...lines], name);
}

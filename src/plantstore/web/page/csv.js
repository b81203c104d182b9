/**
 * Plants as CSV (RFC 4180) with a header, by the same rules as `plantstore import`.
 *
 * The header names `id` and `name`, and may name `tag`, in any order and any case. Commas,
 * semicolons or tabs separate the cells: the first of these under which the header names the
 * columns. Other columns are ignored with a warning. An empty cell means no tag. If a row is not
 * CSV, its first line is refused, and the next line is read as a new row.
 * tests/support/csv_cases.json has the test cases for this file and for `plantstore import`.
 */

const SEPARATORS = [",", ";", "\t"];
const COLUMNS = ["id", "name", "tag"];

/** A longer row probably has an open quote: the default limit of a request body is 1 MiB. */
const ROW_CHARACTERS_MAX = 2 ** 20 + 1000;

/** How many ignored columns a warning names, and how many characters of each. */
const NAMED_COLUMNS_MAX = 5;
const NAMED_CHARACTERS_MAX = 40;

/** How much of an invalid header a message quotes. */
const QUOTED_CHARACTERS_MAX = 100;

/** A cell and what follows it, for each separator. */
const CELLS = new Map(
  SEPARATORS.map((separator) => [
    separator,
    new RegExp(
      `(?:"([^"]*(?:""[^"]*)*)"|([^"${separator}\\r\\n][^${separator}\\r\\n]*|))` +
        `(${separator}|\\r\\n|\\r|\\n|$)`,
      "y",
    ),
  ]),
);
const LINE = /[^\r\n]*(?:\r\n|\r|\n|$)/y;

/**
 * A row: the number of its first line, from 1; its text, and its size in the file in bytes; and
 * its plant or its problem. The header and blank rows have neither. The header may have a
 * warning.
 *
 * @typedef {{line: number, text: string, bytes: number,
 *   plant?: import("./client.js").Plant, problem?: string, warning?: string}} Row
 * @typedef {{end: number, cells?: string[], problem?: string, separator?: string}} Reading where a
 *   row ends, and its cells or its problem
 */

/** The file is not a CSV file of plants. */
export class FileError extends Error {}

/**
 * @param {Blob} file
 * @returns {AsyncGenerator<Row>} the rows, with the header
 * @throws {FileError}
 */
export async function* readPlants(file) {
  /** @type {string[]|undefined} */
  let header;
  for await (const { cells, ...row } of readRows(file)) {
    if (header === undefined) {
      const names = cells ?? [];
      header = names.map((name) => name.toLowerCase());
      row.warning = describeIgnored(names.filter((name) => !COLUMNS.includes(name.toLowerCase())));
    } else if (cells && !/^[\r\n]*$/.test(row.text)) {
      if (cells.length === header.length) row.plant = makePlant(header, cells);
      else row.problem = `The row has ${cells.length} cells, but the header has ${header.length}`;
    }
    yield row;
  }
  if (header === undefined) throw new FileError("The file is empty");
}

/**
 * @param {string[]} header
 * @param {string[]} cells
 */
function makePlant(header, cells) {
  /** @param {string} name */
  const cell = (name) => cells[header.indexOf(name)];
  return { id: cell("id"), name: cell("name"), tag: cell("tag") || undefined };
}

/**
 * Whether cells are a header: `id` and `name` once, and `tag` at most once.
 *
 * @param {string[]} cells
 */
function isHeader(cells) {
  const names = cells.map((cell) => cell.toLowerCase());
  /** @param {string} name */
  const count = (name) => names.filter((each) => each === name).length;
  return count("id") === 1 && count("name") === 1 && count("tag") <= 1;
}

/** @param {string[]} names */
function describeIgnored(names) {
  if (names.length === 0) return undefined;
  const shown = names
    .slice(0, NAMED_COLUMNS_MAX)
    .map((name) => `"${shorten(name, NAMED_CHARACTERS_MAX)}"`);
  if (names.length > NAMED_COLUMNS_MAX) shown.push("...");
  const subject = names.length === 1 ? `Column ${shown[0]} is` : `Columns ${shown.join(", ")} are`;
  return `${subject} ignored; known columns are id, name and tag`;
}

/**
 * @param {string} text
 * @param {number} charactersMax
 */
function shorten(text, charactersMax) {
  const characters = [...text];
  return characters.length > charactersMax
    ? `${characters.slice(0, charactersMax).join("")}...`
    : text;
}

/**
 * Yield each row with its cells or its problem; the first row is the header.
 *
 * @param {Blob} file
 * @returns {AsyncGenerator<Row & Reading>}
 */
async function* readRows(file) {
  const encoder = new TextEncoder();
  let buffer = "";
  let line = 1;
  /** @type {string|undefined} */
  let separator; // unknown before the header
  let isCut = false; // whether the buffer begins with the rest of a line that was given up

  /**
   * @param {number} start
   * @returns {Reading}
   */
  function readNext(start) {
    if (isCut) return { end: endOfLine(buffer, start) };
    if (separator !== undefined) return readRow(buffer, start, separator);
    return readHeader(buffer, start);
  }

  /** @param {boolean} isEnd */
  function* takeRows(isEnd) {
    let start = 0;
    while (start < buffer.length) {
      const { separator: found, ...row } = readNext(start);
      const mayGoOn = row.problem !== undefined || row.end === buffer.length;
      const isLarge = buffer.length - start > ROW_CHARACTERS_MAX;
      if (mayGoOn && !isCut && !isEnd && !isLarge) break;
      if (separator === undefined && found === undefined) throw new FileError(row.problem);
      separator ??= found;
      const text = buffer.slice(start, row.end);
      yield { line, text, bytes: encoder.encode(text).length, ...row };
      line += text.match(/\r\n|\r|\n/g)?.length ?? 0;
      isCut = !/[\r\n]$/.test(text);
      start = row.end;
    }
    buffer = buffer.slice(start);
  }

  for await (const text of readText(file)) {
    buffer += text;
    yield* takeRows(false);
  }
  yield* takeRows(true);
}

/**
 * Yield the text of a file, piece by piece.
 *
 * @param {Blob} file
 */
async function* readText(file) {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const reader = file.stream().getReader();
  try {
    for (let isLast = false; !isLast; ) {
      const { done, value } = await reader.read().catch(() => {
        throw new FileError("The file cannot be read: it is a folder, or does not exist any more");
      });
      isLast = done;
      yield decode(decoder, value, done);
    }
  } finally {
    reader.cancel().catch(() => {}); // The rest of the file is not needed.
  }
}

/**
 * @param {TextDecoder} decoder
 * @param {Uint8Array|undefined} bytes
 * @param {boolean} isLast
 */
function decode(decoder, bytes, isLast) {
  try {
    return decoder.decode(bytes, { stream: !isLast });
  } catch {
    throw new FileError("The file is not UTF-8: save it as “CSV UTF-8”");
  }
}

/**
 * Read the header that starts here, under the first separator with which it is one.
 *
 * @param {string} text
 * @param {number} start
 * @returns {Reading}
 */
function readHeader(text, start) {
  for (const separator of SEPARATORS) {
    const row = readRow(text, start, separator);
    if (row.cells && isHeader(row.cells)) return { ...row, separator };
  }
  const end = endOfLine(text, start);
  const problem =
    "The first line of a CSV file must name the columns id and name, and may name tag; each " +
    "once, separated by commas, semicolons or tabs; " +
    `got "${shorten(text.slice(start, end).trimEnd(), QUOTED_CHARACTERS_MAX)}"`;
  return { end, problem };
}

/**
 * Read the row that starts here: its end, and its cells or its problem.
 *
 * @param {string} text
 * @param {number} start
 * @param {string} separator
 * @returns {Reading}
 */
function readRow(text, start, separator) {
  const cells = [];
  const pattern = /** @type {RegExp} */ (CELLS.get(separator));
  pattern.lastIndex = start;
  for (let cell = pattern.exec(text); cell; cell = pattern.exec(text)) {
    const end = pattern.lastIndex;
    if (end - start > ROW_CHARACTERS_MAX) {
      return { end: endOfLine(text, start), problem: "The row is larger than a request may be" };
    }
    cells.push(cell[1]?.replaceAll('""', '"') ?? cell[2]);
    if (cell[3] !== separator) return { end, cells };
  }
  const problem = "The row is not CSV: a quote is open, or is closed too early";
  return { end: endOfLine(text, start), problem };
}

/**
 * @param {string} text
 * @param {number} start
 */
function endOfLine(text, start) {
  LINE.lastIndex = start;
  LINE.exec(text);
  return LINE.lastIndex;
}

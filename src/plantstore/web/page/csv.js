/**
 * Plants as CSV (RFC 4180), with a header, as `plantstore import` takes them: `id` and
 * `name` and maybe `tag`, other columns passed over; an empty cell means no tag. Where a row
 * breaks the rules, its first line is refused, and the next line is read as a row again.
 */

/** A row that is longer has an open quote: a body holds a mebibyte, unless set otherwise. */
const ROW_CHARACTERS_MAX = 2 ** 20 + 1000;

const CELL = /(?:"([^"]*(?:""[^"]*)*)"|([^",\r\n][^,\r\n]*|))(,|\r\n|\r|\n|$)/y;
const LINE = /[^\r\n]*(?:\r\n|\r|\n|$)/y;

/**
 * A row: the line that it begins on, from 1; its text, and the bytes that it takes of the
 * file; and the plant that it holds, or its problem, or neither.
 *
 * @typedef {{line: number, text: string, bytes: number,
 *   plant?: import("./client.js").Plant, problem?: string}} Row
 */

/** A file that is none of plants. */
export class FileError extends Error {}

/**
 * @param {Blob} file
 * @returns {AsyncGenerator<Row>} the header among them
 * @throws {FileError}
 */
export async function* readPlants(file) {
  let header;
  for await (const { cells, ...row } of readRows(file)) {
    if (header === undefined) {
      header = readHeader(cells ?? [], row.text);
    } else if (cells && !/^[\r\n]*$/.test(row.text)) {
      if (cells.length === header.length) row.plant = makePlant(header, cells);
      else row.problem = `Expected ${header.length} cells, got ${cells.length}`;
    }
    yield row;
  }
  if (header === undefined) throw new FileError("The file is empty");
}

function makePlant(header, cells) {
  const cell = (name) => cells[header.indexOf(name)];
  return { id: cell("id"), name: cell("name"), tag: cell("tag") || undefined };
}

function readHeader(cells, text) {
  const count = (name) => cells.filter((cell) => cell === name).length;
  if (count("id") !== 1 || count("name") !== 1 || count("tag") > 1) {
    throw new FileError(
      "The header of the CSV file must name id and name once, and may name tag; " +
        `got ${text.trim().slice(0, 100)}`,
    );
  }
  return cells;
}

/** Yield each row with its cells, or with the problem that it has. */
async function* readRows(file) {
  const encoder = new TextEncoder();
  let buffer = "";
  let line = 1;
  let isCut = false; // whether the buffer begins with the rest of a line that was given up

  function* takeRows(isEnd) {
    let start = 0;
    while (start < buffer.length) {
      const row = isCut ? { end: endOfLine(buffer, start) } : readRow(buffer, start);
      const mayGoOn = row.problem !== undefined || row.end === buffer.length;
      const isLarge = buffer.length - start > ROW_CHARACTERS_MAX;
      if (mayGoOn && !isCut && !isEnd && !isLarge) break;
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

/** Yield the text of a file, piece by piece. */
async function* readText(file) {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const reader = file.stream().getReader();
  try {
    for (let isLast = false; !isLast; ) {
      const { done, value } = await reader.read().catch(() => {
        throw new FileError("The file cannot be read: it is a folder, or gone");
      });
      isLast = done;
      yield decode(decoder, value, done);
    }
  } finally {
    reader.cancel().catch(() => {}); // Whoever stops early has no use for the rest.
  }
}

function decode(decoder, bytes, isLast) {
  try {
    return decoder.decode(bytes, { stream: !isLast });
  } catch {
    throw new FileError("The file is not UTF-8: save it as “CSV UTF-8”");
  }
}

/** Read the row that starts here: its end, and its cells or its problem. */
function readRow(text, start) {
  const cells = [];
  CELL.lastIndex = start;
  for (let cell = CELL.exec(text); cell; cell = CELL.exec(text)) {
    const end = CELL.lastIndex;
    if (end - start > ROW_CHARACTERS_MAX) {
      return { end: endOfLine(text, start), problem: "The row is larger than a request may be" };
    }
    cells.push(cell[1]?.replaceAll('""', '"') ?? cell[2]);
    if (cell[3] !== ",") return { end, cells };
  }
  const problem = "The row is no CSV: a quote is open, or closed too early";
  return { end: endOfLine(text, start), problem };
}

function endOfLine(text, start) {
  LINE.lastIndex = start;
  LINE.exec(text);
  return LINE.lastIndex;
}

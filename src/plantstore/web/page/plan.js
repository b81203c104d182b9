/**
 * The plan of an import: the columns of the file's rows, and the CSV that is made of them for the
 * service.
 *
 * @typedef {import("./client.js").Plant} Plant
 * @typedef {{id: number, name: number, tag: number}} Columns the index of each column, or -1
 * @typedef {{file: File, isPasted: boolean, encoding?: string, sheet?: number,
 *   table?: import("./csv.js").Table, top: number, isHeaded?: boolean, columns?: Columns,
 *   isGuess?: boolean, isWrong?: boolean, plan?: Plan, named?: Map<string, Plant>, same: Set<string>,
 *   stored: Map<string, Plant[]>, isRead: boolean, isSent?: boolean, isDone?: boolean,
 *   conflict?: import("./client.js").Conflict, twins?: "skip"|"import",
 *   refused?: import("./refused.js").Refused, saved?: {name: string, url: string},
 *   run: AbortController}} Preview what the user chose, and what became of it; the index of the first
 *   row that is used; whether only its values tell the column of ids, and whether they were none; by
 *   their ids, the plants, which keep their names; the ids of plants that are the same but for blanks
 *   at the ends; by its folded name, the plants that have it already; `isRead` if the table is what was
 *   chosen; `isSent` and `isDone` if the import has begun, and has ended; what becomes of rows whose
 *   id a plant has already, and of those that get an id and whose name a plant has; and a file with
 *   the refused rows
 * @typedef {{file: File, base: string, table: import("./csv.js").Table, columns: Columns,
 *   header: string[], conflict?: import("./client.js").Conflict, ids: string[], indexes: number[],
 *   lines: number[], readSent: (at: number) => Plant, unnumbered: number, same: number,
 *   twins: Plant[][], left: number, faults: Map<number, string>, shown: string[][],
 *   result?: import("./client.js").ImportResult, changing: Changing[],
 *   action?: import("./sets.js").Action,
 *   giveIds?: (ids: Iterator<string>, signal: AbortSignal) => Promise<Plan>}} Plan the CSV that is
 *   sent; of each of its rows the id, the index of the row that it comes from, the line on which it
 *   begins, and the plant; how many rows are the same as their plants but for blanks at the ends; the
 *   plants whose names rows without an id have, and how many of these rows are left out; what is not
 *   sent, and why; what a dry run says, or the import; and some plants that change
 * @typedef {{old: Plant, plant: Plant}} Changing before and after
 */

import { fold, MAYBE_ID, recognize, SAMPLED_ROWS } from "./columns.js";
import { forEachRow, isEmpty, write } from "./csv.js";
import { number } from "./elements.js";
import { fold as foldName } from "./names.js";

/** A column that has one of these, or no usual name, is no column of ids because it has numbers. */
const COUNTS =
  /^(qty|quantity|count|stock|pieces|price|anzahl|menge|stück|preis|quantité|prix|cantidad)/;

export const INTEGER = /^\s*-?\d+\s*$/;

/** A number or a date. */
const NO_NAME =
  /^[\d\s.,:/+%\p{Sc}-]*$|^\d{4}-\d\d-\d\dT|^\d{1,2}[\s.-]+\p{L}{3,9}[\s.,-]+(\d\d){1,2}$/u;

const SHOWN_ROWS = 5;

/** The largest row that the service takes, in characters. */
const ROW_CHARACTERS_MAX = 16 * 1024;

/** The first of the ids that stand for those that the service gives later. */
const PLACEHOLDER = -(2n ** 63n);

/**
 * Choose the row with the names of the columns, and the columns by their usual names, or by their order.
 *
 * @param {Preview} preview @param {number} [top] the first row that is used
 */
export function suggest(preview, top) {
  const { rows } = /** @type {import("./csv.js").Table} */ (preview.table);
  const sample = listSample(rows);
  preview.isWrong = false;
  preview.top = top ?? findTop(rows, sample, preview.isPasted);
  const first = rows[preview.top];
  const found = recognize(first);
  const below = rows.slice(preview.top + 1);
  const isOverIds = /^\D+$/.test(first[0]) && areIds(below, below.slice(0, SAMPLED_ROWS));
  preview.isHeaded =
    top !== undefined || Object.values(found).some((column) => column >= 0) || isOverIds;
  const start = findStart(preview);
  const plants = sample.filter((at) => at >= start).map((at) => rows[at]);
  const list = (/** @type {number} */ column) =>
    plants.map((cells) => cells[column]?.trim() ?? "").filter((cell) => cell !== "");
  const hasInteger = (/** @type {number} */ column) =>
    list(column).some((cell) => INTEGER.test(cell));
  const maybe = first.findIndex((cell, at) => MAYBE_ID.includes(fold(cell)) && hasInteger(at));
  if (found.id < 0) found.id = maybe;
  const isFree = (/** @type {number} */ column) => !Object.values(found).includes(column);
  const isCount = preview.isHeaded && COUNTS.test(fold(first[0]));
  preview.isGuess = found.id < 0 && isFree(0) && !isCount && areIds(rows.slice(start), plants);
  if (preview.isGuess) found.id = 0;
  const isNames = (/** @type {number} */ column) => {
    const cells = list(column);
    return cells.length === 0 ? plants.length === 0 : !cells.every((cell) => NO_NAME.test(cell));
  };
  const isExport = found.name >= 0 && fold(first[found.name]) === "name";
  if (!isExport && (found.name < 0 || !isNames(found.name))) {
    found.name = first.findIndex((_, column) => isFree(column) && isNames(column));
  }
  if (!preview.isHeaded && found.name >= 0 && found.name + 1 < first.length) {
    found.tag = found.name + 1;
  }
  preview.columns = found;
}

/** Return the index of the first row with a plant. @param {Preview} preview */
export function findStart({ isHeaded, top }) {
  return isHeaded ? top + 1 : top;
}

/** Return the indexes of the first rows that are not empty. @param {string[][]} rows */
export function listSample(rows) {
  const sample = [];
  for (let at = 0; at < rows.length && sample.length < SAMPLED_ROWS; at += 1) {
    if (!isEmpty(rows[at])) sample.push(at);
  }
  return sample;
}

/**
 * Return the first row that is no title: the one that names the most columns; or else, in a table of
 * three columns or more, the first that is more than half as wide. Copied rows without such names have
 * no title.
 *
 * @param {string[][]} rows @param {number[]} sample @param {boolean} isPasted
 */
function findTop(rows, sample, isPasted) {
  // Merged cells of a title have the same text.
  const widths = sample.map((at) => new Set(rows[at].filter((cell) => cell.trim() !== "")).size);
  let [best, most] = [-1, 0];
  for (const [index, at] of sample.entries()) {
    const many = Object.values(recognize(rows[at])).filter((column) => column >= 0).length;
    // A plant may have one of the names by chance.
    const isWider = widths.slice(0, index).every((width) => width < widths[index]);
    if (many > most && (isWider || many === widths[index])) [best, most] = [at, many];
  }
  if (best >= 0 || isPasted) return best >= 0 ? best : sample[0];
  const widest = Math.max(...widths);
  return sample[widths.findIndex((width) => widest < 3 || width > widest / 2)];
}

/**
 * Whether the first column has ids: most are integers, and none of these is there twice.
 *
 * @param {string[][]} rows @param {string[][]} sample
 */
function areIds(rows, sample) {
  const list = (/** @type {string[][]} */ all) => all.map(([cell = ""]) => cell.trim());
  const cells = list(sample).filter((cell) => cell !== "");
  const integers = cells.filter((cell) => INTEGER.test(cell));
  if (integers.length <= cells.length / 2) return false;
  const ids = list(rows).filter((cell) => INTEGER.test(cell));
  return new Set(ids).size === ids.length;
}

/**
 * Make the CSV that the service gets: the columns id, name and, if there is one, tag.
 *
 * @param {Preview} preview
 * @param {AbortSignal} signal
 * @param {Iterator<string>} [given] the ids of the rows that have none
 * @returns {Promise<Plan>}
 */
export async function makePlan(preview, signal, given) {
  const { file, isPasted, named, same, stored, twins } = preview;
  const table = /** @type {import("./csv.js").Table} */ (preview.table);
  const columns = /** @type {Columns} */ (preview.columns);
  const base = isPasted ? "pasted-rows" : file.name.replace(/\.[^.]*$/, "");
  const header = makeHeader(preview);
  const start = findStart(preview);
  const fields = columns.tag < 0 ? ["id", "name"] : ["id", "name", "tag"];
  const parts = [write([fields])];
  /** @type {Plan} */
  const plan = {
    ...{ file, base, table, columns, header, shown: [], changing: [] },
    ...{ ids: [], indexes: [], lines: [], unnumbered: 0, same: 0, twins: [], left: 0 },
    conflict: named ? "replace" : preview.conflict,
    faults: new Map(table.faults),
    readSent: (at) => ({ ...readRow(table.rows[plan.indexes[at]]), id: plan.ids[at] }),
  };
  const readRow = (/** @type {string[]} */ cells) => {
    // Blanks at the ends, also those that do not break, would make another plant of it.
    const read = (/** @type {number} */ column) => cells[column]?.trim() ?? "";
    const id = read(columns.id);
    return {
      id,
      name: named?.get(id)?.name ?? read(columns.name),
      tag: read(columns.tag) || undefined,
    };
  };
  const check = (/** @type {string[]} */ cells, /** @type {number} */ index) =>
    plan.faults.get(index) ?? findFault(index, readRow(cells).name, preview, header);
  const repeated = await findRepeated(table.rows, signal, (cells, index) =>
    index < start || check(cells, index) ? undefined : readRow(cells),
  );
  /** @type {string[][]} */
  const others = [];
  let line = 2;
  const ids = given ?? enumerate();
  await forEachRow(table.rows, signal, (cells, index) => {
    if (index < start) return;
    const { id: own, name, tag = "" } = readRow(cells);
    const { first = index, last = index } = repeated.get(own) ?? {};
    const other = index === last ? first : last;
    const repeat = other === index ? "" : `Row ${number(other + 1)} has this id, too`;
    const fault = check(cells, index) || repeat;
    if (fault) plan.faults.set(index, fault);
    const isSame = !fault && same.has(own);
    const alike = (!fault && own === "" && stored.get(foldName(name))) || [];
    const exact = alike.filter((plant) => plant.name.trim() === name);
    const isLeft = alike.length > 0 && twins === "skip";
    if (isSame) plan.same += 1;
    if (alike.length > 0) plan.twins.push(exact.length > 0 ? exact : alike);
    if (isLeft) plan.left += 1;
    const isNew = !fault && own === "" && !isLeft;
    const id = isNew ? ids.next().value : own;
    if (fault || isLeft) return;
    if (isNew) plan.unnumbered += 1;
    const text = write([[id, name, tag].slice(0, fields.length)]);
    // By other letters than those of English, one sees whether the encoding is right.
    const shown = !table.encodings?.length || /[^\0-\x7f]/.test(text) ? plan.shown : others;
    if (shown.length < SHOWN_ROWS && INTEGER.test(id)) shown.push([isNew ? "new" : id, name, tag]);
    if (isSame) return;
    parts.push(text);
    plan.ids.push(id);
    plan.indexes.push(index);
    plan.lines.push(line);
    line += text.split(/\r\n|\r|\n/).length - 1;
  });
  plan.shown = [...plan.shown, ...others].slice(0, SHOWN_ROWS);
  plan.file = new File(parts, file.name);
  if (given || plan.unnumbered === 0) return plan;
  plan.giveIds = async (real, stop) => {
    return { ...(await makePlan(preview, stop, real)), result: plan.result };
  };
  return plan;
}

/**
 * Return why a row is not sent, or "".
 *
 * @param {number} index @param {string} name @param {Preview} preview @param {string[]} header
 */
function findFault(index, name, { table, columns, isHeaded, named }, { length: width }) {
  const cells = table?.rows[index] ?? [];
  const used = Object.values(columns ?? {});
  const picked = used.map((column) => cells[column] ?? "");
  const wrong = table?.cellFaults?.get(index);
  const fault = used.map((column) => wrong?.get(column)).find(Boolean);
  if (fault) return fault;
  // A separator within a name moves what follows it into other columns.
  const isWide = isHeaded && !table?.sheets && cells.length > width;
  if (isWide && !isEmpty(cells.slice(width))) return "It has more cells than the first row";
  if (name === "") return named ? "No plant has this id" : "The name is missing";
  return picked.join().length > ROW_CHARACTERS_MAX ? "It has more than 16,384 characters" : "";
}

/**
 * Return the first and the last row of each id with which rows have different plants.
 *
 * @param {string[][]} rows @param {AbortSignal} signal
 * @param {(cells: string[], index: number) => Plant|undefined} read returns the plant of a row
 */
async function findRepeated(rows, signal, read) {
  /** @type {Map<string, number>} */
  const firsts = new Map();
  /** @type {Map<string, {first: number, last: number}>} */
  const repeated = new Map();
  await forEachRow(rows, signal, (cells, index) => {
    const plant = read(cells, index);
    if (!plant || plant.id === "") return;
    const { id, name, tag } = plant;
    const first = firsts.get(id) ?? index;
    const other = read(rows[first], first);
    if (first === index) firsts.set(id, index);
    else if (repeated.has(id) || name !== other?.name || tag !== other?.tag)
      repeated.set(id, { first, last: index });
  });
  return repeated;
}

/** Ids that no plant should have. */
function* enumerate() {
  for (let id = PLACEHOLDER; ; id += 1n) yield String(id);
}

/** Return the names of the columns of a file, also if it does not have them. @param {Preview} preview */
function makeHeader({ table, columns, isHeaded, top }) {
  const { rows = [], sheets } = table ?? {};
  const first = rows[top] ?? [];
  const fields = Object.entries(columns ?? {});
  const nameOf = (/** @type {number} */ index) =>
    isHeaded ? first[index] : fields.find(([, column]) => column === index)?.[0];
  // A row of CSV with more cells than its header is a fault. A sheet may have columns without names.
  const below = listSample(rows).filter((at) => sheets && at > top);
  const length = Math.max(first.length, ...below.map((at) => rows[at].length));
  return Array.from({ length }, (_, index) => nameOf(index) ?? "");
}

/**
 * The plan of an import: the columns of the file's rows, and the CSV that is made of them for the
 * service.
 *
 * @typedef {import("./client.js").Plant} Plant
 * @typedef {{id: number, name: number, tag: number}} Columns the index of each column, or -1
 *
 * @typedef {object} Preview what the user chose, and what became of it
 * @property {File} file
 * @property {boolean} isPasted
 * @property {string} [encoding]
 * @property {number} [sheet]
 * @property {boolean} isRead whether the table is what was chosen
 * @property {import("./csv.js").Table} [table]
 * @property {number} top the index of the first row that is used
 * @property {boolean} [isHeaded] whether this row has the names of the columns
 * @property {Columns} [columns]
 * @property {boolean} [isGuess] whether only its values tell the column of ids
 * @property {boolean} [isWrong] whether they were none
 * @property {boolean} [takesTotal] whether a row of totals is a plant
 * @property {Map<string, Plant>} [named] by their ids, the plants of a file without names
 * @property {Map<string, Plant[]>} stored the plants that have a name already, by this name folded
 * @property {Set<string>} same the ids of plants that are the same but for blanks at the ends
 * @property {import("./client.js").Conflict} [conflict] what becomes of rows whose id a plant has
 * @property {"skip"|"import"} [twins] what becomes of rows without an id whose name a plant has
 * @property {Plan} [plan]
 * @property {import("./refused.js").Refused} [refused]
 * @property {boolean} [isSent] whether the import has begun
 * @property {boolean} [isDone] whether it has ended
 * @property {{name: string, url: string}} [saved] a file with the refused rows
 * @property {AbortController} run ends what finds out about the rows
 *
 * @typedef {object} Plan the CSV that is sent, and what becomes of the rows
 * @property {File} file
 * @property {string} base the name of the file that was chosen, without its ending
 * @property {import("./csv.js").Table} table
 * @property {Columns} columns
 * @property {string[]} header
 * @property {import("./client.js").Conflict} [conflict]
 * @property {Sent[]} sent the rows of the CSV
 * @property {string[][]} shown the first plants
 * @property {Map<number, string>} faults by the indexes of rows, why they are not sent
 * @property {number} same how many rows are the same as their plants but for blanks at the ends
 * @property {Plant[][]} twins for each row without an id, the plants that have its name, if there are any
 * @property {number} total the index of a row of totals, or -1
 * @property {number} left how many rows are left out
 * @property {Changing[]} changing the plants that change
 * @property {import("./client.js").Change[]} [changes] of them, if they are to be updated
 * @property {import("./client.js").ImportResult} [result] what a dry run says, or the import
 * @property {import("./sets.js").Action} [action]
 *
 * @typedef {{index: number, line: number, plant: Plant}} Sent a row of the CSV: the index of the row
 *   that it comes from, the line on which it begins, and its plant, whose id is "" until it gets one
 * @typedef {{old: Plant, plant: Plant}} Changing before and after
 */

import { fold, isTotal, MAYBE_ID, recognize, SAMPLED_ROWS } from "./columns.js";
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

/** The first of the ids, which no plant should have, that stand for those that the service gives later. */
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
  const filled = rows.keys().filter((at) => !isEmpty(rows[at]));
  return filled.take(SAMPLED_ROWS).toArray();
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
 * Return the index of the last row if it has the totals of the others, or -1. A plant with such a name
 * may have an id.
 *
 * @param {Preview} preview
 */
function findTotal(preview) {
  const { rows } = /** @type {import("./csv.js").Table} */ (preview.table);
  const { id, name } = /** @type {Columns} */ (preview.columns);
  const at = rows.findLastIndex((cells) => !isEmpty(cells));
  if (at <= findStart(preview) || INTEGER.test(rows[at][id] ?? "")) return -1;
  const first = rows[at].find((cell) => cell.trim() !== "");
  return isTotal(first) || isTotal(rows[at][name]) ? at : -1;
}

/**
 * Find out what becomes of the rows, and make the CSV that the service gets.
 *
 * @param {Preview} preview @param {AbortSignal} signal
 * @returns {Promise<Plan>}
 */
export async function makePlan(preview, signal) {
  const { file, isPasted, named, same, stored, twins } = preview;
  const table = /** @type {import("./csv.js").Table} */ (preview.table);
  const columns = /** @type {Columns} */ (preview.columns);
  const base = isPasted ? "pasted-rows" : file.name.replace(/\.[^.]*$/, "");
  const header = makeHeader(preview);
  const start = findStart(preview);
  /** @type {Plan} */
  const plan = {
    ...{ file, base, table, columns, header, shown: [], changing: [] },
    ...{ sent: [], same: 0, twins: [], left: 0 },
    total: findTotal(preview),
    conflict: named ? "replace" : preview.conflict,
    faults: new Map(table.faults),
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
  await forEachRow(table.rows, signal, (cells, index) => {
    if (index < start) return;
    if (index === plan.total && !preview.takesTotal) {
      plan.left += 1;
      return;
    }
    const plant = readRow(cells);
    const { id, name, tag = "" } = plant;
    const { first = index, last = index } = repeated.get(id) ?? {};
    const other = index === last ? first : last;
    const repeat = other === index ? "" : `Row ${number(other + 1)} has this id, too`;
    const fault = check(cells, index) || repeat;
    if (fault) {
      plan.faults.set(index, fault);
      return;
    }
    const alike = (id === "" && stored.get(foldName(name))) || [];
    const exact = alike.filter((other) => other.name.trim() === name);
    if (alike.length > 0) plan.twins.push(exact.length > 0 ? exact : alike);
    if (alike.length > 0 && twins === "skip") {
      plan.left += 1;
      return;
    }
    if (plan.shown.length < SHOWN_ROWS && (id === "" || INTEGER.test(id))) {
      plan.shown.push([id || "new", name, tag]);
    }
    if (same.has(id)) plan.same += 1;
    else plan.sent.push({ index, line: 0, plant });
  });
  await writePlan(plan, enumerate(PLACEHOLDER, 0n), signal);
  return plan;
}

/**
 * Write the CSV of a plan, with the columns id, name and, if there is one, tag.
 *
 * @param {Plan} plan @param {Iterator<string>} ids of the rows that have none @param {AbortSignal} signal
 */
export async function writePlan(plan, ids, signal) {
  const fields = plan.columns.tag < 0 ? ["id", "name"] : ["id", "name", "tag"];
  const rows = plan.sent.map(({ plant: { id, name, tag = "" } }) => [id, name, tag]);
  const parts = [write([fields])];
  let line = 2;
  await forEachRow(rows, signal, ([id, ...cells], at) => {
    const text = write([[id || ids.next().value, ...cells].slice(0, fields.length)]);
    parts.push(text);
    plan.sent[at].line = line;
    line += text.split(/\r\n|\r|\n/).length - 1;
  });
  plan.file = new File(parts, plan.file.name);
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
    if (!plant || !INTEGER.test(plant.id)) return;
    const { id, name, tag } = plant;
    const first = firsts.get(id) ?? index;
    const other = read(rows[first], first);
    if (first === index) firsts.set(id, index);
    else if (repeated.has(id) || name !== other?.name || tag !== other?.tag)
      repeated.set(id, { first, last: index });
  });
  return repeated;
}

/** Yield the ids from a first to a last one. @param {bigint} first @param {bigint} last */
export function* enumerate(first, last) {
  for (let id = first; id <= last; id += 1n) yield String(id);
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

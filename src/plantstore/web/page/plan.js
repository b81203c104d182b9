/**
 * The plan of an import: the columns of a file, and what becomes of each of its rows.
 *
 * @typedef {import("./client.js").Plant} Plant
 * @typedef {{id: number, name: number, tag: number}} Columns the index of each column, or -1
 *
 * @typedef {object} Preview what the user chose, and what is known of the rows
 * @property {File} file
 * @property {boolean} isPasted
 * @property {string} [encoding]
 * @property {number} [sheet]
 * @property {import("./csv.js").Table} [table] undefined until what was chosen is read
 * @property {number} top the index of the first row that is used
 * @property {boolean} [isHeaded] whether this row has the names of the columns
 * @property {Columns} [columns]
 * @property {boolean} [isGuess] whether only its values tell the column of ids
 * @property {boolean} [isWrong] whether they were none
 * @property {Map<number, string>} ids that the service gave, by the indexes of rows
 * @property {Map<string, Plant[]>} named the plants that have a name already, by this name folded
 * @property {"replace"|"skip"} [conflict] what becomes of rows whose id a plant has
 * @property {"import"|"replace"|"skip"} [twins] what becomes of rows without an id whose name a plant has
 * @property {Row[]} [rows]
 * @property {{already_stored: number}} [result] of a dry run of all rows; undefined
 *   until it is known
 * @property {boolean} [isDone] whether the import has ended
 * @property {AbortController} run ends what finds out about the rows
 *
 * @typedef {object} Row
 * @property {number} index
 * @property {Plant} plant whose id is "" until it gets one
 * @property {string} fault why it is refused, or ""
 * @property {boolean} [isSame] whether its plant is there already
 * @property {Plant} [old] the other plant that has its id
 * @property {Plant[]} [twins] if it has no id, the plants that have its name: none if only a row above
 *   it has it
 * @property {boolean} [isShared] whether several plants or several rows have this name
 * @property {{before: ?Plant, after: Plant}} [retagged] otherwise the change of the tag of its plant
 */

import { findGenus, fold, isTotal, MAYBE_ID, recognize, SAMPLED_ROWS } from "./columns.js";
import { isEmpty } from "./csv.js";
import { clean, number } from "./elements.js";

/** A column that has one of these, or no usual name, is no column of ids because it has numbers. */
const COUNTS =
  /^(qty|quantity|count|stock|pieces|price|anzahl|menge|stück|preis|quantité|prix|cantidad)/;

/** A character that no text has, unless its encoding is wrong. */
const CONTROL = /(?![\t\n\r])\p{Cc}/u;

const INTEGER = /^\s*-?\d+\s*$/;

/** A number or a date. */
const NO_NAME =
  /^[\d\s.,:/+%\p{Sc}-]*$|^\d{4}-\d\d-\d\dT|^\d{1,2}[\s.-]+\p{L}{3,9}[\s.,-]+(\d\d){1,2}$/u;

/** The largest row that the service takes, in characters. */
const ROW_CHARACTERS_MAX = 16 * 1024;

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

/** Whether a file has ids and tags, but no names: then it changes the tags of plants. @param {Preview} preview */
export function isOfTags({ columns }) {
  return columns !== undefined && columns.name < 0 && columns.id >= 0;
}

/** Read the rows of a file that are not empty. @param {Preview} preview @returns {Row[]} */
export function readRows(preview) {
  const table = /** @type {import("./csv.js").Table} */ (preview.table);
  const columns = /** @type {Columns} */ (preview.columns);
  const { length: width } = listHeader(preview);
  const genus = findGenus(preview);
  const used = [...Object.values(columns), genus];
  const start = findStart(preview);
  const last = table.rows.findLastIndex((cells) => !isEmpty(cells));
  const rows = [...table.rows.entries()].flatMap(([index, cells]) => {
    if (index < start || isEmpty(cells)) return [];
    const read = (/** @type {number} */ column) => clean(cells[column]);
    const digits = read(columns.id) || (preview.ids.get(index) ?? "");
    const id = INTEGER.test(digits) ? String(BigInt(digits)) : digits; // without zeros before it
    const text = read(columns.name);
    // The name of a genus has a capital.
    const name = /^[\p{Ll}×]/u.test(text) ? clean(`${read(genus)} ${text}`) : text;
    const plant = { id, name, tag: read(columns.tag) || undefined };
    const wrong = table.cellFaults?.get(index);
    // A separator within a name moves what follows it into other columns.
    const isWide = preview.isHeaded && !table.sheets && !isEmpty(cells.slice(width));
    const isSum = index === last && index > start && !INTEGER.test(id);
    const fault =
      table.faults.get(index) ||
      used.map((column) => wrong?.get(column)).find(Boolean) ||
      (used.some((column) => CONTROL.test(cells[column] ?? "")) && "It has a control character") ||
      (isWide && "It has more cells than the first row") ||
      (isSum && hasTotal(cells, plant.name) && "It has the totals of the other rows") ||
      (id !== "" && findFault(id)) ||
      (plant.name === "" && !isOfTags(preview) && "The name is missing") ||
      (used.map((column) => cells[column]).join().length > ROW_CHARACTERS_MAX &&
        "It has more than 16,384 characters") ||
      "";
    return [{ index, plant, fault }];
  });
  compareRepeated(rows);
  return rows;
}

/** @param {string} id */
function findFault(id) {
  if (!INTEGER.test(id)) return "The id must be a whole number";
  return BigInt.asIntN(64, BigInt(id)) === BigInt(id) ? "" : "The id has too many digits";
}

/** Whether a row has the totals of those above it. @param {string[]} cells @param {string} name */
function hasTotal(cells, name) {
  return isTotal(cells.find((cell) => cell.trim() !== "")) || isTotal(name);
}

/** Find rows whose id other rows have: with another plant, this is a fault. @param {Row[]} rows */
function compareRepeated(rows) {
  const numbered = rows.filter(({ plant, fault }) => plant.id !== "" && !fault);
  for (const all of Map.groupBy(numbered, ({ plant }) => plant.id).values()) {
    const [first] = all;
    const last = all[all.length - 1];
    const isSame = all.every(
      ({ plant }) => plant.name === first.plant.name && plant.tag === first.plant.tag,
    );
    for (const row of all) {
      const other = row === last ? first : last;
      if (isSame) Object.assign(row, { isSame: row !== first });
      else row.fault = `Row ${number(other.index + 1)} has this id, too`;
    }
  }
}

/** @typedef {"new"|"the same"|"change"|"skipped"|"refused"} Outcome */

/** Return what becomes of a row. @param {Row} row @param {Preview} preview @returns {Outcome} */
export function outcomeOf({ fault, isSame, old, ...row }, { conflict, twins }) {
  if (fault) return "refused";
  if (isSame) return "the same";
  if (old) return conflict === "skip" ? "skipped" : "change";
  if (row.retagged && twins === "replace") return "change";
  return row.twins && twins && twins !== "import" ? "skipped" : "new";
}

/**
 * Return how a row would be stored.
 *
 * @param {Row} row @param {Preview} preview
 * @returns {NonNullable<Row["retagged"]>}
 */
export function changeOf({ plant, old, retagged }, { twins }) {
  return retagged && twins === "replace" ? retagged : { before: old ?? null, after: plant };
}

/** Return the rows by what becomes of them. @param {Preview} preview */
export function listOutcomes(preview) {
  return Map.groupBy(preview.rows ?? [], (row) => outcomeOf(row, preview));
}

/**
 * Return how many rows have each outcome. The service has counted those whose plants are there.
 *
 * @param {Preview} preview
 * @returns {Record<Outcome, number>}
 */
export function countOutcomes(preview) {
  const outcomes = listOutcomes(preview);
  const count = (/** @type {Outcome} */ outcome) => outcomes.get(outcome)?.length ?? 0;
  const same = preview.result?.already_stored ?? 0;
  return {
    ...{ new: count("new") - same, "the same": count("the same") + same },
    ...{ change: count("change"), skipped: count("skipped"), refused: count("refused") },
  };
}

/** Say what becomes of rows. @param {Record<string, number>} counts */
export function describe(counts) {
  const shown = Object.entries(counts).filter(([, many]) => many > 0);
  return shown.map(([what, many]) => `${number(many)} ${what}`).join(", ") || "no rows";
}

/** Return the scope that the undo of an import needs. @param {Preview} preview */
export function findScope(preview) {
  return countOutcomes(preview).new > 0 ? "plants:delete" : "plants:update";
}

/** Return the names of the columns of a file, also if it does not have them. @param {Preview} preview */
export function listHeader({ table, columns, isHeaded, top }) {
  const { rows = [], sheets } = table ?? {};
  const first = rows[top] ?? [];
  const fields = Object.entries(columns ?? {});
  const nameOf = (/** @type {number} */ index) =>
    isHeaded ? first[index] : fields.find(([, column]) => column === index)?.[0];
  // A row of CSV with more cells than its header is a fault. Other columns may have no names.
  const below = listSample(rows).filter((at) => (sheets || !isHeaded) && at > top);
  const length = Math.max(first.length, ...below.map((at) => rows[at].length));
  return Array.from({ length }, (_, index) => nameOf(index) ?? "");
}

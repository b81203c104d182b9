/**
 * The plan of an import: the columns of the file's rows, and the CSV that is made of them for the
 * service.
 *
 * @typedef {import("./client.js").Plant} Plant
 * @typedef {{id: number, name: number, tag: number}} Columns the index of each column, or -1
 * @typedef {{file: File, isPasted: boolean, encoding?: string, sheet: number,
 *   table?: import("./csv.js").Table, isHeaded?: boolean, columns?: Columns, plan?: Plan,
 *   names?: Map<string, string>, isRead: boolean, replaces: boolean, takesLast: boolean,
 *   refused?: import("./refused.js").Refused, run: AbortController}} Preview what the user chose, and
 *   what became of it; by their ids, the names that plants keep; `isRead` if the table is what was
 *   chosen, `replaces` if plants that exist are updated, and `takesLast` if the last row of an id is
 *   sent
 * @typedef {{file: File, base: string, table: import("./csv.js").Table, columns: Columns,
 *   header: string[], replaces: boolean, ids: string[], indexes: number[], lines: number[],
 *   readSent: (at: number) => Plant, unnumbered: number, faults: Map<number, string>,
 *   isRepeating: boolean, shown: string[][], result?: import("./client.js").ImportResult,
 *   changing?: Changing[], action?: import("./sets.js").Action,
 *   own?: File, giveIds?: (ids: Iterator<string>, signal: AbortSignal) => Promise<Plan>}} Plan the
 *   CSV that is sent; of each of its rows the id, the index of the row that it comes from, the line
 *   on which it begins, and the plant; what is not sent, and why; whether rows have the same id; what
 *   a dry run says; some plants that change; and if rows get ids, the user's file with them
 * @typedef {{old: Plant, plant: Plant}} Changing before and after
 */

import { forEachRow, isEmpty, write } from "./csv.js";
import { number } from "./elements.js";

/** The usual names of the columns, in several languages. */
const USUAL = {
  id: ["id", "nr", "no", "number", "nummer", "num", "número", "numer", "č", "номер", "#"],
  name: ["name", "plant", "species", "taxon", "scientific name", "pflanze", "art", "nom"],
  tag: ["tag", "genus", "gattung", "genre", "género", "rodzaj", "род", "group", "category"],
};

export const INTEGER = /^\s*-?\d+\s*$/;

const SHOWN_ROWS = 5;

/** How many rows tell whether a column has ids. */
const SAMPLED_ROWS = 20;

/** The largest row that the service takes, in characters. */
const ROW_CHARACTERS_MAX = 16 * 1024;

/** The first of the ids that stand for those that the service gives later. */
const PLACEHOLDER = -(2n ** 63n);

/** Choose the columns by their usual names, or by their order. @param {Preview} preview */
export function suggest(preview) {
  const { rows } = /** @type {import("./csv.js").Table} */ (preview.table);
  const [first, ...sample] = rows.filter((cells) => !isEmpty(cells)).slice(0, SAMPLED_ROWS);
  const fold = (/** @type {string} */ text) => text.trim().toLowerCase().replace(/[.:]$/, "");
  const names = first.map(fold);
  const find = (/** @type {"id"|"name"|"tag"} */ field) =>
    names.indexOf(USUAL[field].find((usual) => names.includes(usual)) ?? "\0");
  const found = { id: find("id"), name: find("name"), tag: find("tag") };
  preview.isHeaded =
    Object.values(found).some((column) => column >= 0) ||
    (!preview.isPasted && !first.some((cell) => INTEGER.test(cell)));
  const plants = preview.isHeaded ? sample : [first, ...sample];
  const hasIds = plants.length > 0 && plants.every(([cell]) => INTEGER.test(cell));
  if (found.id < 0 && hasIds) found.id = 0;
  const taken = Object.values(found);
  const free = first.findIndex((_, column) => !taken.includes(column));
  if (found.name < 0) found.name = free; // Ids and tags are no names.
  if (!preview.isHeaded && found.name + 1 < first.length) found.tag = found.name + 1;
  preview.columns = found;
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
  const { file, isHeaded, isPasted, replaces, takesLast, names } = preview;
  const table = /** @type {import("./csv.js").Table} */ (preview.table);
  const columns = /** @type {Columns} */ (preview.columns);
  const base = isPasted ? "pasted-rows" : file.name.replace(/\.[^.]*$/, "");
  const header = makeHeader(preview);
  const top = isHeaded ? table.rows.findIndex((cells) => !isEmpty(cells)) : -1;
  const fields = columns.tag < 0 ? ["id", "name"] : ["id", "name", "tag"];
  const parts = [write([fields])];
  const head = columns.id < 0 ? ["id", ...header] : header;
  const numbered = [`\ufeff${write([head], table.separator)}`];
  /** @type {Plan} */
  const plan = {
    ...{ file, base, table, columns, header, replaces, shown: [] },
    ...{ ids: [], indexes: [], lines: [], unnumbered: 0, faults: new Map(table.faults) },
    isRepeating: false,
    readSent: (at) => ({ ...readRow(table.rows[plan.indexes[at]]), id: plan.ids[at] }),
  };
  const readRow = (/** @type {string[]} */ cells) => {
    const id = cells[columns.id] ?? "";
    const name = names?.get(id.trim()) ?? cells[columns.name] ?? "";
    return { id, name, tag: cells[columns.tag] || undefined };
  };
  const check = (/** @type {string[]} */ cells, /** @type {number} */ index) =>
    plan.faults.get(index) ?? findFault(cells, readRow(cells).name, preview, header);
  const repeated = await findRepeated(table.rows, signal, (cells, index) =>
    index === top || check(cells, index) ? undefined : readRow(cells),
  );
  plan.isRepeating = repeated.size > 0;
  /** @type {string[][]} */
  const others = [];
  let line = 2;
  const ids = given ?? enumerate();
  await forEachRow(table.rows, signal, (cells, index) => {
    if (index === top) return;
    const { id: own, name, tag = "" } = readRow(cells);
    const { first = index, last = index } = repeated.get(own) ?? {};
    const other = index === last ? first : last;
    const isRepeated = other !== index && !(takesLast && index === last);
    const repeat = isRepeated ? `Row ${number(other + 1)} has this id, too` : "";
    const fault = check(cells, index) || repeat;
    if (fault) plan.faults.set(index, fault);
    const isNew = !fault && own.trim() === "";
    const id = isNew ? ids.next().value : own;
    if (given) numbered.push(write([withId(cells, columns.id, id)], table.separator));
    if (fault) return;
    if (isNew) plan.unnumbered += 1;
    const text = write([[id, name, tag].slice(0, fields.length)]);
    parts.push(text);
    plan.ids.push(id);
    plan.indexes.push(index);
    plan.lines.push(line);
    line += text.split(/\r\n|\r|\n/).length - 1;
    // By other letters than those of English, one sees whether the encoding is right.
    const shown = !table.isGuessed || /[^\0-\x7f]/.test(text) ? plan.shown : others;
    if (shown.length < SHOWN_ROWS && INTEGER.test(id)) shown.push([isNew ? "new" : id, name, tag]);
  });
  plan.shown = [...plan.shown, ...others].slice(0, SHOWN_ROWS);
  plan.file = new File(parts, file.name);
  if (given) plan.own = new File(numbered, `${base}-with-ids.csv`);
  if (given || plan.unnumbered === 0) return plan;
  plan.giveIds = async (real, stop) => {
    return { ...(await makePlan(preview, stop, real)), result: plan.result };
  };
  return plan;
}

/**
 * Return why a row is not sent, or "".
 *
 * @param {string[]} cells @param {string} name @param {Preview} preview @param {string[]} header
 */
function findFault(cells, name, { table, columns, isHeaded, names }, { length: width }) {
  const picked = Object.values(columns ?? {}).map((column) => cells[column] ?? "");
  // A separator within a name moves what follows it into other columns.
  const isWide = isHeaded && !table?.sheets && cells.length > width;
  if (isWide && !isEmpty(cells.slice(width))) return "It has more cells than the first row";
  if (name === "") return names ? "No plant has this id" : "The name is missing";
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
    if (!plant || plant.id.trim() === "") return;
    const { id, name, tag } = plant;
    const first = firsts.get(id) ?? index;
    const other = read(rows[first], first);
    if (first === index) firsts.set(id, index);
    else if (repeated.has(id) || name !== other?.name || tag !== other?.tag)
      repeated.set(id, { first, last: index });
  });
  return repeated;
}

/**
 * Return a row with an id in a column, or in front of it if there is no such column.
 *
 * @param {string[]} cells @param {number} column @param {string} id
 */
function withId(cells, column, id) {
  if (column < 0) return [id, ...cells];
  const length = Math.max(cells.length, column + 1);
  return Array.from({ length }, (_, at) => (at === column ? id : (cells[at] ?? "")));
}

/** Ids that no plant should have. */
function* enumerate() {
  for (let id = PLACEHOLDER; ; id += 1n) yield String(id);
}

/** Return the names of the columns of a file, also if it does not have them. @param {Preview} preview */
function makeHeader({ table, columns, isHeaded }) {
  const first = table?.rows.find((cells) => !isEmpty(cells)) ?? [];
  const fields = Object.entries(columns ?? {});
  if (isHeaded) return first;
  return first.map((_, index) => fields.find(([, column]) => column === index)?.[0] ?? "");
}

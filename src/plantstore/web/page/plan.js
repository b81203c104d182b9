/**
 * The plan of an import: the columns of the file's rows, and the CSV that is made of them for the
 * service.
 *
 * @typedef {import("./client.js").Plant} Plant
 * @typedef {{id: number, name: number, tag: number}} Columns the index of each column, or -1
 * @typedef {{file: File, isPasted: boolean, encoding?: string, sheet: number,
 *   table?: import("./csv.js").Table, isHeaded?: boolean, columns?: Columns, plan?: Plan,
 *   names?: Map<string, string>, isRead: boolean, replaces: boolean,
 *   refused?: import("./refused.js").Refused, run: AbortController}} Preview what the user chose, and
 *   what became of it; by their ids, the names that plants keep; `isRead` if the table is what was
 *   chosen, and `replaces` if plants that exist are updated
 * @typedef {{file: File, base: string, table: import("./csv.js").Table, columns: Columns,
 *   header: string[], replaces: boolean, ids: string[], indexes: number[], lines: number[],
 *   readSent: (at: number) => Plant, unnumbered: number, faults: Map<number, string>,
 *   shown: string[][], result?: import("./client.js").ImportResult, changing?: Changing[],
 *   own?: File, giveIds?: (ids: Iterator<string>, signal: AbortSignal) => Promise<Plan>,
 *   restorable?: ?import("./importing.js").Restorable}} Plan the CSV that is sent; of each of its
 *   rows the id, the index of the row that it comes from, the line on which it begins, and the
 *   plant; what is not sent, and why; what a dry run says; some plants that change; and if rows get
 *   ids, the user's file with them
 * @typedef {{old: Plant, plant: Plant}} Changing before and after
 */

import { forEachRow, isEmpty, write } from "./csv.js";

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
  const { file, isHeaded, isPasted, replaces, names } = preview;
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
    readSent: (at) => {
      const [id, cells] = [plan.ids[at], table.rows[plan.indexes[at]]];
      const name = names?.get(id) ?? cells[columns.name] ?? "";
      return { id, name, tag: cells[columns.tag] || undefined };
    },
  };
  /** @type {string[][]} */
  const others = [];
  let line = 2;
  const ids = given ?? enumerate();
  await forEachRow(table.rows, signal, (cells, index) => {
    if (index === top) return;
    const { [columns.id]: own = "", [columns.tag]: tag = "" } = cells;
    const name = names?.get(own.trim()) ?? cells[columns.name] ?? "";
    const fault = plan.faults.get(index) ?? findFault(cells, name, preview, header);
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

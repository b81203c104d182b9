/**
 * The preview of an import: what would be stored, which the user can correct, and what the service
 * says about it. Nothing is stored before the user has seen it.
 *
 * @typedef {{id: number, name: number, tag: number}} Columns the index of each column, or -1
 * @typedef {{file: File, isPasted: boolean, encoding?: string, sheet: number,
 *   table?: import("./csv.js").Table, isHeaded?: boolean, columns?: Columns, plan?: Plan,
 *   names?: Map<string, string>, isRead: boolean, replaces: boolean, refused?: import("./refused.js").Refused,
 *   run: AbortController}} Preview what the user chose, and what became of it; the names that
 *   plants keep, by their ids; `isRead` if the table is what was chosen, and `replaces` if plants that exist are updated
 * @typedef {{file: File, base: string, table: import("./csv.js").Table, columns: Columns,
 *   header: string[], replaces: boolean, ids: string[], indexes: number[], lines: number[],
 *   unnumbered: number, faults: Map<number, string>, shown: string[][],
 *   result?: import("./client.js").ImportResult, changing?: Changing[], own?: File,
 *   readSent: (at: number) => import("./client.js").Plant, giveIds?: (ids: Iterator<string>, signal: AbortSignal) => Promise<Plan>,
 *   restorable?: ?import("./importing.js").Restorable}} Plan the CSV that is sent; of each of its
 *   rows the id, the index of the row that it comes from, the line on which it begins, and all
 *   of it; what is not sent, and why; what a dry run says; some plants that change; and if rows get ids, the user's
 *   file with them
 * @typedef {{old: import("./client.js").Plant, plant: import("./client.js").Plant}} Changing before and
 *   after
 */

import { forEach } from "./changes.js";
import { client } from "./client.js";
import {
  ENCODINGS,
  FILE_BYTES_MAX,
  forEachRow,
  isEmpty,
  readCsv,
  UnreadableError,
  write,
} from "./csv.js";
import { Frame, open } from "./dialogs.js";
import { number } from "./elements.js";
import { html } from "./html.js";
import { findReplaced, ID_TAKEN, isBeyondUndo, startImport } from "./importing.js";
import { RefusedRows, readRefused } from "./refused.js";
import { ApiError, hasStatus, messageOf, NOT_FOUND } from "./requests.js";
import { state, update } from "./state.js";

/** The usual names of the columns, in several languages. */
const USUAL = {
  id: ["id", "nr", "no", "number", "nummer", "num", "número", "numer", "č", "номер", "#"],
  name: ["name", "plant", "species", "taxon", "scientific name", "pflanze", "art", "nom"],
  tag: ["tag", "genus", "gattung", "genre", "género", "rodzaj", "род", "group", "category"],
};

const FIELDS = /** @type {["id"|"name"|"tag", string, string][]} */ ([
  ["id", "Id", "New ids"],
  ["name", "Name", ""],
  ["tag", "Tag", "None"],
]);

const INTEGER = /^\s*-?\d+\s*$/;

const SHOWN_ROWS = 5;

/** How many of the plants that change are shown: each is read. */
const SHOWN_CHANGES = 50;

/** How many plants keep their names, which are read, if the file has none. */
const NAMES_MAX = 1000;

/** How many rows tell whether a column has ids. */
const SAMPLED_ROWS = 20;

/** How many columns can be chosen, and how many that are not used are named. */
const COLUMNS_MAX = 100;
const NAMED_MAX = 5;

/** The largest row that the service takes, in characters. */
const ROW_CHARACTERS_MAX = 16 * 1024;

/** The first of the ids that stand for those that the service gives later. */
const PLACEHOLDER = -(2n ** 63n);

/** Show the plants of a file or of pasted rows, and import them if asked. @param {File} file */
export function openPreview(file, isPasted = false) {
  /** @type {Preview} */
  const preview = {
    ...{ file, isPasted, sheet: 0, isRead: false, replaces: false },
    run: new AbortController(),
  };
  /** @type {import("./dialogs.js").Act} */
  const act = async (_typed, { value }) => {
    if (value !== "import") return refresh(preview).then(() => "");
    setTimeout(startImport, 0, preview.plan); // It takes the focus when this dialog is closed.
    return undefined;
  };
  open({ View: PreviewView, title: `Import ${file.name}`, content: { preview }, act });
  if (state.dialog) state.dialog.isTouched = isPasted;
  refresh(preview);
}

/** Ask for rows that are copied from a spreadsheet, and show them. */
export function pasteRows() {
  /** @type {import("./dialogs.js").Act} */
  const act = async ({ rows = "" }) => {
    if (rows.trim() === "") return "Paste some rows first.";
    openPreview(new File([rows], "Pasted rows"), true);
    return undefined;
  };
  open({ View: PasteView, title: "Paste rows", content: {}, act });
}

function PasteView() {
  return html`
    <${Frame} id="paste" fields=${["rows"]} buttons=${[["preview", "Preview", "primary"]]}>
      <label for="pasted">Rows of a spreadsheet</label>
      <textarea id="pasted" name="rows" rows="8" dir="auto" spellcheck=${false} autofocus
        aria-describedby="paste-hint" />
      <p id="paste-hint" class="hint">
        Copy the cells with ids, names and tags there, and paste them here.
      </p>
    <//>
  `;
}

/** Change what the user has chosen. @param {Preview} preview @param {Partial<Preview>} changes */
function choose(preview, changes) {
  if (state.dialog) state.dialog.isTouched = true;
  Object.assign(preview, changes);
  refresh(preview);
}

/** Read the file as chosen, and ask what would become of it. @param {Preview} preview */
async function refresh(preview) {
  const { dialog } = state;
  preview.run.abort();
  preview.run = new AbortController();
  const { signal } = preview.run;
  if (preview.plan) preview.plan.result = undefined;
  Object.assign(dialog ?? {}, { error: null });
  update();
  try {
    if (!preview.isRead) {
      const table = await read(preview);
      signal.throwIfAborted();
      Object.assign(preview, { table, isRead: true });
      suggest(preview);
    }
    await readNames(preview, signal);
    const plan = await makePlan(preview, signal);
    preview.plan = plan;
    update();
    const result = await client.import(plan.file, plan.replaces, signal, () => {}, true);
    signal.throwIfAborted();
    plan.result = result;
    preview.refused = readRefused(plan, result);
    update();
    if (plan.replaces && result.replaced > 0) plan.changing = await readChanging(plan, signal);
  } catch (error) {
    if (signal.aborted) return;
    const isKnown = error instanceof UnreadableError || error instanceof ApiError;
    const message = isKnown ? error.message : "The file cannot be read: was it changed or removed?";
    Object.assign(dialog ?? {}, { error: new ApiError(message) });
  }
  update();
}

/**
 * Read the names of plants of which a file that updates them has only ids and tags. They are few
 * enough to undo the update.
 *
 * @param {Preview} preview @param {AbortSignal} signal
 */
async function readNames(preview, signal) {
  const { table, columns = { id: -1, name: -1, tag: -1 }, replaces } = preview;
  const ids = (table?.rows ?? []).map((cells) => cells[columns.id]?.trim() ?? "");
  const names = new Map();
  preview.names = undefined;
  if (!replaces || columns.name >= 0 || columns.tag < 0 || ids.length > NAMES_MAX) return;
  await forEach(
    [...new Set(ids)].filter((id) => INTEGER.test(id)),
    async (id) => {
      signal.throwIfAborted();
      const { plant } = await client.read(id, signal).catch((error) => {
        if (!hasStatus(error, NOT_FOUND)) throw error;
        return { plant: null };
      });
      if (plant) names.set(id, plant.name);
    },
  );
  preview.names = names;
}

/** Return the first plants that change, as they are. @param {Plan} plan @param {AbortSignal} signal */
async function readChanging(plan, signal) {
  const { ids, columns } = plan;
  const { replaced } = await findReplaced(plan, signal);
  const read = async (/** @type {string} */ id) => {
    // It may be deleted, or the token permits only changes.
    const old = await client.read(id).then(({ plant }) => plant, messageOf);
    if (typeof old === "string") return [];
    const sent = plan.readSent(ids.lastIndexOf(id));
    const plant = { ...sent, tag: columns.tag < 0 ? old.tag : sent.tag };
    return old.name === plant.name && old.tag === plant.tag ? [] : [{ old, plant }];
  };
  return (await Promise.all(replaced.slice(0, SHOWN_CHANGES).map(read))).flat();
}

/** @param {Preview} preview */
async function read({ file, encoding, isPasted, sheet }) {
  if (file.size > FILE_BYTES_MAX) {
    throw new UnreadableError("This file is larger than 100 MB: divide it into smaller ones");
  }
  const bytes = new Uint8Array(await file.arrayBuffer());
  const start = String.fromCharCode(...bytes.subarray(0, 4));
  if (start === "\xd0\xcf\x11\xe0") {
    throw new UnreadableError("This is an old workbook (.xls): save it as .xlsx");
  }
  const isWorkbook = start === "PK\x03\x04";
  const table = isWorkbook
    ? await (await import("./workbook.js")).readWorkbook(bytes, sheet)
    : await readCsv(bytes, isPasted ? "UTF-8" : encoding);
  if (table.rows.every(isEmpty)) throw new UnreadableError("The file has no rows");
  return table;
}

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

/** @param {{preview: Preview}} props */
function PreviewView({ preview }) {
  const { table, plan, refused } = preview;
  const error = state.dialog?.error;
  const buttons = error ? [["check", "Try again"]] : [];
  const isUsable = plan?.result && isNamed(preview);
  if (isUsable) buttons.push(["import", "Import", "primary"]);
  const doing = error ? "" : table ? "Checking…" : "Reading…";
  return html`
    <${Frame} id="preview" buttons=${buttons}>
      ${table && html`<${Choices} preview=${preview} />`}
      ${plan && html`<${Plants} preview=${preview} />`}
      <p id="preview-said" role="status">${plan?.result ? describeCheck(plan) : doing}</p>
      ${plan?.result && plan.changing && html`<${Changes} plan=${plan} />`}
      ${plan && describeNotes(preview).map((note) => html`<p class="hint">${note}</p>`)}
      ${isUsable && refused && html`<${RefusedRows} ...${refused} />`}
    <//>
  `;
}

/** @param {{preview: Preview}} props */
function Choices({ preview }) {
  const { encoding, sheets } = /** @type {import("./csv.js").Table} */ (preview.table);
  const makeChoice = (/** @type {string} */ label, /** @type {SelectProps} */ props) =>
    props.options.length > 1 &&
    html`<label class="choice">${label} <${Select} ...${props} /></label>`;
  const encodings = encoding && !preview.isPasted ? ENCODINGS : [];
  const ofEncoding = {
    value: encoding ?? "",
    options: encodings.map((name) => [name, name]),
    choose: (/** @type {string} */ name) => choose(preview, { encoding: name, isRead: false }),
  };
  const ofSheet = {
    value: String(preview.sheet),
    options: sheets?.map((name, at) => [String(at), name]) ?? [],
    choose: (/** @type {string} */ at) => choose(preview, { sheet: Number(at), isRead: false }),
  };
  return html`
    <div class="tools">
      ${makeChoice("Encoding", ofEncoding)} ${makeChoice("Sheet", ofSheet)}
      <label class="choice">
        <input type="checkbox" checked=${preview.isHeaded}
          onchange=${() => choose(preview, { isHeaded: !preview.isHeaded })} />
        ${" "}The first row has the names of the columns
      </label>
      <label class="choice" data-needs="plants:update">
        <input type="checkbox" checked=${preview.replaces}
          onchange=${() => choose(preview, { replaces: !preview.replaces })} />
        ${" "}Update plants that exist
      </label>
    </div>
  `;
}

/** The first plants as they will be stored, and their columns. @param {{preview: Preview}} props */
function Plants({ preview }) {
  const plan = /** @type {Plan} */ (preview.plan);
  const columns = /** @type {Columns} */ (preview.columns);
  const { rows } = plan.table;
  const length = Math.min(plan.header.length, COLUMNS_MAX);
  const names = Array.from({ length }, (_, index) => [
    String(index),
    (preview.isHeaded && plan.header[index]) || `Column ${index + 1}`,
  ]);
  const makeHead = (/** @type {typeof FIELDS[number]} */ [field, label, none]) => {
    const pick = (/** @type {string} */ index) =>
      choose(preview, { columns: { ...columns, [field]: Number(index) } });
    const isMissing = columns[field] < 0;
    const missing = none || (isNamed(preview) ? "Unchanged" : "Choose…");
    const options = none || isMissing ? [["-1", missing], ...names] : names;
    return html`
      <th scope="col">
        <label>${label} <${Select} value=${String(columns[field])} options=${options} choose=${pick} /></label>
      </th>
    `;
  };
  const makeRow = (/** @type {string[]} */ plant) => html`
    <tr>${FIELDS.map((_, at) => html`<td><bdi>${plant[at]}</bdi></td>`)}</tr>
  `;
  return html`
    <div id="preview-plants" role="region" aria-label="The first plants" tabindex="0">
      <table aria-label="The first plants" aria-rowcount=${rows.length}>
        <thead><tr>${FIELDS.map(makeHead)}</tr></thead>
        <tbody>${plan.shown.map(makeRow)}</tbody>
      </table>
    </div>
  `;
}

/** Some plants that change, before and after. @param {{plan: Plan}} props */
function Changes({ plan: { changing = [], result } }) {
  const more = (result?.replaced ?? 0) - changing.length;
  const describe = (/** @type {import("./client.js").Plant} */ { name, tag }) =>
    html`<bdi>${tag ? `${name} (${tag})` : name}</bdi>`;
  const makeItem = (/** @type {Changing} */ { old, plant }) => html`
    <li>${old.id}: ${describe(old)} → ${describe(plant)}</li>
  `;
  return html`
    <ul id="preview-changes" aria-label="Plants that change" tabindex="0">
      ${changing.map(makeItem)} ${more > 0 && html`<li>and ${number(more)} more</li>`}
    </ul>
  `;
}

/** @typedef {{value: string, options: string[][], choose: (value: string) => void}} SelectProps */

/** @param {SelectProps} props */
function Select({ value, options, choose }) {
  const change = (/** @type {On<HTMLSelectElement>} */ { currentTarget }) =>
    choose(currentTarget.value);
  return html`
    <select onchange=${change}>
      ${options.map(
        ([key, name]) => html`<option value=${key} selected=${key === value}>${name}</option>`,
      )}
    </select>
  `;
}

/** Whether the names are known. @param {Preview} preview */
function isNamed({ columns, names }) {
  return (columns?.name ?? -1) >= 0 || names !== undefined;
}

/** Say what the service answers to a dry run. @param {Plan} plan */
function describeCheck({ result, faults }) {
  const { stored = 0, already_stored = 0, replaced = 0, refused = 0 } = result ?? {};
  const all = refused + faults.size;
  const counts = { new: stored, "the same": already_stored, change: replaced, refused: all };
  const parts = Object.entries(counts).filter(([what, many]) => many > 0 || what === "new");
  return parts.map(([what, many]) => `${number(many)} ${what}`).join(", ");
}

/** @param {Preview} preview */
function describeNotes(preview) {
  const { plan: made, isHeaded } = preview;
  const plan = /** @type {Plan} */ (made);
  const { header, giveIds, replaces, table, columns, result } = plan;
  const used = Object.values(columns);
  const others = header.filter((name, index) => isHeaded && name && !used.includes(index));
  const named = others.slice(0, NAMED_MAX).join(", ");
  const more = others.length > NAMED_MAX ? ` and ${others.length - NAMED_MAX} more` : "";
  const notes = {
    "Choose the encoding with which these names are right.": table.isGuessed,
    [`Not used: ${named}${more}`]: others.length > 0,
    "Plants that exist keep their tags.": replaces && columns.tag < 0,
    "Plants with some of these ids exist. Choose “Update plants that exist” to change them.":
      !replaces && result?.errors.some(({ error }) => error === ID_TAKEN),
    [`${columns.id < 0 ? "Each row gets" : "Rows without an id get"} a new id. If you import this file twice, these plants are stored twice: save the file with its ids afterwards, and use it from then on.`]:
      giveIds !== undefined,
    "Choose the column of the names, or “Update plants that exist” to set their tags only.":
      !isNamed(preview),
    "Plants that exist keep their names.": preview.names !== undefined,
    "This import cannot be undone here: it is of more than 10,000 new plants, or 1,000 that change. Export the plants before.":
      isBeyondUndo(plan),
  };
  return Object.entries(notes).flatMap(([note, isTrue]) => (isTrue ? note : []));
}

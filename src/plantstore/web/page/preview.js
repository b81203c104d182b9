/**
 * The preview of an import: what would be stored, which the user can correct, and what the service
 * says about it. Nothing is stored before the user has seen it.
 *
 * @typedef {import("./plan.js").Preview} Preview
 * @typedef {import("./plan.js").Plan} Plan
 * @typedef {import("./plan.js").Columns} Columns
 * @typedef {import("./plan.js").Changing} Changing
 */

import { client } from "./client.js";
import { ENCODINGS, FILE_BYTES_MAX, isEmpty, readCsv, readPasted, UnreadableError } from "./csv.js";
import { Frame, open } from "./dialogs.js";
import { number } from "./elements.js";
import { html } from "./html.js";
import { INTEGER, listSample, makePlan, suggest } from "./plan.js";
import { RefusedRows, readRefused } from "./refused.js";
import { ApiError, hasStatus, ID_TAKEN, messageOf, NOT_FOUND } from "./requests.js";
import { explainNoUndo, findScope } from "./sets.js";
import { state, update } from "./state.js";

const FIELDS = /** @type {["id"|"name"|"tag", string, string][]} */ ([
  ["id", "Id", "New ids"],
  ["name", "Name", ""],
  ["tag", "Tag", "None"],
]);

/** How many of the plants that change are shown: each is read. */
const SHOWN_CHANGES = 50;

/** How many plants keep their names, which are read, if the file has none. */
const NAMES_MAX = 1000;

/** How many plants are read at once: as many as a browser opens connections. */
const PARALLEL = 6;

/** How many columns can be chosen, and how many that are not used are named. */
const COLUMNS_MAX = 100;
const NAMED_MAX = 5;

/** The status of an error that is none of the service: it stays when the service responds. */
const UNREADABLE = 400;

/** How many characters of a row tell which one it is. */
const ROW_SHOWN = 60;

/**
 * Show the plants of a file or of pasted rows, and import them if asked.
 *
 * @param {File} file @param {(plan: Plan) => void} start begins the import
 */
export function openPreview(file, start, isPasted = false) {
  /** @type {Preview} */
  const preview = {
    ...{ file, isPasted, top: 0, isRead: false, replaces: false, takesLast: false },
    run: new AbortController(),
  };
  /** @type {import("./dialogs.js").Act} */
  const act = async (_typed, { value }) => {
    if (value !== "import") return refresh(preview).then(() => "");
    setTimeout(start, 0, preview.plan); // It takes the focus when this dialog is closed.
    return undefined;
  };
  open({ View: PreviewView, title: `Import ${file.name}`, content: { preview }, act });
  if (state.dialog) state.dialog.isTouched = isPasted;
  refresh(preview);
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
      Object.assign(preview, { table, sheet: table.sheet, isRead: true });
      suggest(preview);
    }
    await readNames(preview, signal);
    const plan = await makePlan(preview, signal);
    preview.plan = plan;
    update();
    const { file, replaces } = plan;
    const { result } = await client.import(file, { replaces, signal, isDry: true });
    signal.throwIfAborted();
    plan.result = result;
    preview.refused = readRefused(plan, result);
    update();
    if (plan.replaces && result.replaced > 0) plan.changing = await readChanging(plan, signal);
  } catch (error) {
    if (signal.aborted) return;
    const isKnown = error instanceof UnreadableError;
    const message = isKnown ? error.message : "The file cannot be read: was it changed or removed?";
    const shown = error instanceof ApiError ? error : new ApiError(message, UNREADABLE);
    Object.assign(dialog ?? {}, { error: shown });
  }
  update();
}

/**
 * Read the names of the plants, up to a maximum, if a file that updates them has only ids and tags.
 *
 * @param {Preview} preview @param {AbortSignal} signal
 */
async function readNames(preview, signal) {
  const { table, columns = { id: -1, name: -1, tag: -1 }, replaces } = preview;
  const cells = (table?.rows ?? []).map((row) => row[columns.id]?.trim() ?? "");
  const ids = new Set(cells.filter((cell) => INTEGER.test(cell)));
  const names = new Map();
  preview.names = undefined;
  if (!replaces || columns.name >= 0 || columns.tag < 0 || ids.size > NAMES_MAX) return;
  await forEach([...ids], async (id) => {
    signal.throwIfAborted();
    const { plant } = await client.read(id, signal).catch((error) => {
      if (!hasStatus(error, NOT_FOUND)) throw error;
      return { plant: null };
    });
    if (plant) names.set(id, plant.name);
  });
  preview.names = names;
}

/**
 * Return the first plants that change, as they are. A dry run without updates refuses them.
 *
 * @param {Plan} plan @param {AbortSignal} signal
 */
async function readChanging(plan, signal) {
  const { file, ids, lines, columns } = plan;
  const { result } = await client.import(file, { replaces: false, signal, isDry: true });
  const taken = result.errors.filter(({ error }) => error === ID_TAKEN);
  const replaced = [...new Set(taken.map(({ line }) => ids[lines.indexOf(line)]))];
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

/** Do something with each of many, some at once. @param {string[]} all @param {(one: string) => Promise<void>} work */
async function forEach(all, work) {
  const queue = all.values();
  const workers = Array.from({ length: PARALLEL }, async () => {
    for (const one of queue) await work(one);
  });
  await Promise.all(workers);
}

/** @param {Preview} preview */
async function read({ file, encoding, isPasted, sheet }) {
  if (file.size > FILE_BYTES_MAX) {
    throw new UnreadableError("This file is larger than 100 MB: divide it into smaller ones");
  }
  const bytes = new Uint8Array(await file.arrayBuffer());
  const start = String.fromCharCode(...bytes.subarray(0, 4));
  const isWorkbook = ["PK\x03\x04", "\xd0\xcf\x11\xe0"].includes(start);
  const table = isPasted
    ? readPasted(await file.text())
    : isWorkbook
      ? await (await import("./workbook.js")).readWorkbook(bytes, sheet)
      : await readCsv(bytes, encoding);
  if (table.rows.every(isEmpty)) throw new UnreadableError("The file has no rows");
  return table;
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
  const { rows, encoding, isGuessed, sheets } = /** @type {import("./csv.js").Table} */ (
    preview.table
  );
  const makeChoice = (/** @type {string} */ label, /** @type {SelectProps} */ props) =>
    props.options.length > 1 &&
    html`<label class="choice">${label} <${Select} ...${props} /></label>`;
  const ofEncoding = {
    value: encoding ?? "",
    options: isGuessed ? ENCODINGS : [],
    choose: (/** @type {string} */ name) => choose(preview, { encoding: name, isRead: false }),
  };
  const ofSheet = {
    value: String(preview.sheet),
    options: sheets?.map((name, at) => [String(at), name]) ?? [],
    choose: (/** @type {string} */ at) => choose(preview, { sheet: Number(at), isRead: false }),
  };
  const ofHeader = {
    value: preview.isHeaded ? String(preview.top) : "",
    options: [["", "None"], ...listSample(rows).map((at) => [String(at), describeRow(rows, at)])],
    choose: (/** @type {string} */ at) => chooseHeader(preview, at),
  };
  return html`
    <div class="tools">
      ${makeChoice("Encoding", ofEncoding)} ${makeChoice("Sheet", ofSheet)}
      ${makeChoice("Header", ofHeader)}
      ${
        preview.plan?.isRepeating &&
        html`<label class="choice">
          <input type="checkbox" checked=${preview.takesLast}
            onchange=${() => choose(preview, { takesLast: !preview.takesLast })} />
          ${" "}Of rows with the same id, import the last one
        </label>`
      }
      <label class="choice" data-needs="plants:update">
        <input type="checkbox" checked=${preview.replaces}
          onchange=${() => choose(preview, { replaces: !preview.replaces })} />
        ${" "}Update plants that exist
      </label>
    </div>
  `;
}

/** Take the names of the columns from a row, or from none. @param {Preview} preview @param {string} at */
function chooseHeader(preview, at) {
  if (at !== "") suggest(preview, Number(at));
  choose(preview, at === "" ? { isHeaded: false } : {});
}

/** @param {string[][]} rows @param {number} at */
function describeRow(rows, at) {
  const text = rows[at].filter((cell) => cell.trim() !== "").join(" · ");
  return `Row ${number(at + 1)}: ${text.length > ROW_SHOWN ? `${text.slice(0, ROW_SHOWN)}…` : text}`;
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
  const makeAbove = (/** @type {number} */ at) => html`
    <tr class="above" onclick=${() => chooseHeader(preview, String(at))}>
      <td colspan=${FIELDS.length}><bdi>${describeRow(rows, at)}</bdi></td>
    </tr>
  `;
  const above = listSample(rows).filter((at) => at < preview.top);
  return html`
    <div id="preview-plants" role="region" aria-label="The first plants" tabindex="0">
      <table aria-label="The first plants" aria-rowcount=${rows.length}>
        <thead><tr>${FIELDS.map(makeHead)}</tr></thead>
        <tbody>${above.map(makeAbove)} ${plan.shown.map(makeRow)}</tbody>
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
  const isOther = (/** @type {number} */ index) =>
    isHeaded && !used.includes(index) && table.rows[preview.top][index] !== "";
  const others = header.flatMap((name, at) => (isOther(at) ? name || `Column ${at + 1}` : []));
  const named = others.slice(0, NAMED_MAX).join(", ");
  const more = others.length > NAMED_MAX ? ` and ${others.length - NAMED_MAX} more` : "";
  const notes = {
    "Choose the encoding with which these names are right.": table.isGuessed,
    [`Not used: ${named}${more}`]: others.length > 0,
    "The grey rows above the header are not imported.": preview.top > 0,
    "Plants that exist keep their tags.": replaces && columns.tag < 0,
    "Plants with some of these ids exist. Choose “Update plants that exist” to change them.":
      !replaces && result?.errors.some(({ error }) => error === ID_TAKEN),
    [`${columns.id < 0 ? "Each row gets" : "Rows without an id get"} a new id. If you import this file twice, these plants are stored twice: save the file with its ids afterwards, and use it from then on.`]:
      giveIds !== undefined,
    "Choose the column of the names, or “Update plants that exist” to set their tags only.":
      !isNamed(preview) && !replaces,
    "Choose the column of the names. Without names, a file can set the tags of 1,000 plants.":
      !isNamed(preview) && replaces,
    "Plants that exist keep their names.": preview.names !== undefined,
    [explainNoUndo(findScope(plan.result))]: explainNoUndo(findScope(plan.result)) !== "",
  };
  const own = Object.entries(notes).flatMap(([note, isTrue]) => (isTrue ? note : []));
  return [...(table.notes ?? []), ...own];
}

/**
 * The preview of an import: what would be stored, which the user can correct, and what the service
 * says about it. Nothing is stored before the user has seen it.
 *
 * @typedef {import("./plan.js").Preview} Preview
 * @typedef {import("./plan.js").Plan} Plan
 * @typedef {import("./plan.js").Columns} Columns
 * @typedef {import("./plan.js").Changing} Changing
 * @typedef {import("./client.js").Plant} Plant
 */

import { client } from "./client.js";
import { FILE_BYTES_MAX, isEmpty, readCsv, readPasted, UnreadableError } from "./csv.js";
import { Choice, Frame, open } from "./dialogs.js";
import { countPlants, focus, number } from "./elements.js";
import { findStored, readChanging, readPlants } from "./existing.js";
import { html, renew } from "./html.js";
import { pick } from "./listing.js";
import { fold } from "./names.js";
import { findStart, listSample, makePlan, suggest } from "./plan.js";
import { RefusedRows, readRefused } from "./refused.js";
import { ApiError, ID_TAKEN } from "./requests.js";
import { describeResult, importPlants, SentView } from "./sending.js";
import { explainNoUndo, findScope } from "./sets.js";
import { change, may, state, update } from "./state.js";

const FIELDS = /** @type {["id"|"name"|"tag", string, string][]} */ ([
  ["id", "Id", "New ids"],
  ["name", "Name", ""],
  ["tag", "Tag", "None"],
]);

/** What becomes of rows whose id, or whose name, a plant has already. */
const CONFLICTS = [
  ["replace", "Update"],
  ["skip", "Skip"],
];
const TWINS = [
  ["skip", "Skip"],
  ["import", "Import as new plants"],
];

/** How many columns can be chosen, and how many that are not used are named. */
const COLUMNS_MAX = 100;
const NAMED_MAX = 5;

/** The status of an error that is none of the service: it stays when the service responds. */
const UNREADABLE = 400;

/** How many of the plants that change are shown. */
const SHOWN_CHANGES = 50;

/** How many characters of a row tell which one it is. */
const ROW_SHOWN = 60;

/** Show the plants of a file or of pasted rows, and import them if asked. @param {File} file */
export function openPreview(file, isPasted = false) {
  /** @type {Preview} */
  const preview = {
    ...{ file, isPasted, top: 0, isRead: false },
    ...{ same: new Set(), stored: new Map(), run: new AbortController() },
  };
  /** @type {import("./dialogs.js").Act} */
  const act = async (_typed, { value }) => {
    if (value === "import") return await importPlants(preview);
    if (value === "select") return pick(listFound(preview));
    await refresh(preview);
    return "";
  };
  const retry = () => preview.isSent || refresh(preview);
  const title = `Import ${file.name}`;
  open({ View: PreviewView, title, content: { preview }, act, isTouched: isPasted, retry });
  refresh(preview);
}

/** Change what the user has chosen. @param {Preview} preview @param {Partial<Preview>} changes */
function choose(preview, changes) {
  change(state.dialog, { isTouched: true });
  Object.assign(preview, changes);
  refresh(preview);
}

/** Read the file as chosen, and ask what would become of it. @param {Preview} preview */
async function refresh(preview) {
  const { dialog } = state;
  preview.run.abort();
  preview.run = new AbortController();
  const { signal } = preview.run;
  preview.same = new Set();
  if (preview.plan) preview.plan.result = undefined;
  change(dialog, { error: null });
  try {
    if (!preview.isRead) {
      const table = await read(preview);
      signal.throwIfAborted();
      Object.assign(preview, { table, sheet: table.sheet, isRead: true });
      suggest(preview);
    }
    await readPlants(preview, signal);
    await findStored(preview, signal);
    await check(preview, signal);
    const isFound = preview.isPasted && !isNeeded(preview) && listFound(preview).length > 0;
    const title = isFound ? "Select plants" : `Import ${preview.file.name}`;
    change(dialog, { title });
  } catch (error) {
    if (signal.aborted) return;
    const isKnown = error instanceof UnreadableError;
    const message = isKnown ? error.message : "The file cannot be read: was it changed or removed?";
    const shown = error instanceof ApiError ? error : new ApiError(message, UNREADABLE);
    change(dialog, { error: shown });
  }
  // Enter does what the main button says, if nothing is to be decided.
  if (document.activeElement?.matches("#preview menu button")) {
    focus("#preview fieldset :is(select, :invalid), #preview form:valid menu .primary");
  }
}

/**
 * Ask what would become of the rows, also if plants that exist were updated.
 *
 * @param {Preview} preview @param {AbortSignal} signal
 */
async function check(preview, signal) {
  let plan = await makePlan(preview, signal);
  const { twins, sent } = plan;
  if (!preview.twins && twins.length > 0 && twins.length === sent.length) {
    preview.twins = "skip"; // The file seems to be imported already.
    plan = await makePlan(preview, signal);
  }
  preview.plan = plan;
  update();
  // Plants that cannot be compared are not overwritten.
  const conflict = may("plants:update") && may("plants:read") ? "replace" : "refuse";
  const { result } = await client.import(plan.file, { conflict, signal, isDry: true });
  const refused = result.errors.filter(({ error }) => error === ID_TAKEN);
  const taken = result.replaced + refused.length;
  const known = preview.same.size;
  if (taken > 0) plan.changing = await readChanging(plan, preview, signal);
  signal.throwIfAborted();
  if (preview.same.size > known) return check(preview, signal); // without these rows
  const isAlike = (/** @type {Changing} */ { old, plant }) => fold(old.name) === fold(plant.name);
  const alike = plan.changing.filter(isAlike).length / (plan.changing.length || 1);
  const others = taken * (1 - alike);
  if (preview.isGuess && others > result.already_stored + plan.same + taken * alike) {
    // Most plants that have these numbers are others, so they are no ids.
    Object.assign(preview, { columns: { ...plan.columns, id: -1 }, isGuess: false, isWrong: true });
    await findStored(preview, signal);
    return check(preview, signal);
  }
  plan.result = result;
  preview.refused = readRefused(plan, result);
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
  if (preview.isSent) return html`<${SentView} preview=${preview} />`;
  const error = state.dialog?.error;
  const buttons = error ? [["check", "Try again"]] : [];
  const isUsable = plan?.result && isNamed(preview);
  const found = isUsable ? listFound(preview) : [];
  if (isNeeded(preview)) buttons.push(["import", "Import", "primary"]);
  const selects = renew(`Select ${countPlants(found.length)}`);
  if (!isNeeded(preview) && found.length > 0) buttons.push(["select", selects, "primary"]);
  const idle = isNeeded(preview) || !isUsable ? "" : "Nothing to import: ";
  const select =
    isNeeded(preview) &&
    found.length > 0 &&
    html`<li class="apart"><button value="select" formnovalidate>${selects}</button></li>`;
  const doing = error ? "" : table ? "Checking…" : "Reading…";
  return html`
    <${Frame} id="preview" cancel=${idle ? "Close" : "Cancel"} buttons=${buttons} more=${select}>
      ${table && html`<${Choices} preview=${preview} />`}
      ${plan && html`<${Plants} preview=${preview} />`}
      <p id="preview-said" role="status">${plan?.result ? `${idle}${describeResult(plan)}` : doing}</p>
      ${plan && !error && isNamed(preview) && html`<${Questions} preview=${preview} />`}
      ${plan && describeNotes(preview).map((note) => html`<p class="hint">${renew(note)}</p>`)}
      ${isUsable && refused && html`<${RefusedRows} ...${refused} />`}
    <//>
  `;
}

/** @param {{preview: Preview}} props */
function Choices({ preview }) {
  const {
    rows,
    encodings = [],
    sheets = [],
  } = /** @type {import("./csv.js").Table} */ (preview.table);
  const headers = listSample(rows).map((at) => [String(at), describeRow(rows, at)]);
  return html`
    ${
      encodings.length > 0 &&
      html`<fieldset>
        <legend>In which encoding are the names right?</legend>
        <${Select} label="Encoding" value=${preview.encoding ?? ""} isRequired
          options=${[["", "Choose…"], ...encodings.map(describeEncoding)]}
          choose=${(/** @type {string} */ name) => choose(preview, { encoding: name, isRead: false })} />
      </fieldset>`
    }
    <div class="tools">
      <${Select} label="Sheet" value=${String(preview.sheet)}
        options=${sheets.length > 1 ? sheets.map((name, at) => [String(at), name]) : []}
        choose=${(/** @type {string} */ at) => choose(preview, { sheet: Number(at), isRead: false })} />
      <${Select} label="Header" value=${preview.isHeaded ? String(preview.top) : ""}
        options=${[["", "None"], ...headers]}
        choose=${(/** @type {string} */ at) => chooseHeader(preview, at)} />
    </div>
  `;
}

/** @param {string[]} encoding */
function describeEncoding([name, label, example]) {
  return [name, `${example} – ${label}`];
}

/**
 * Choose what becomes of plants that exist. The dry run has told the result of both.
 *
 * @param {Preview} preview @param {"replace"|"skip"} conflict
 */
function chooseConflict(preview, conflict) {
  Object.assign(preview, { conflict });
  Object.assign(preview.plan ?? {}, { conflict });
  change(state.dialog, { isTouched: true });
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
        <${Select} label=${label} value=${String(columns[field])} options=${options} choose=${pick} />
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
  const more = plan.sent.length + plan.same - plan.shown.length;
  const takeTotal = (/** @type {On<HTMLInputElement>} */ { currentTarget: { checked } }) =>
    choose(preview, { takesTotal: checked });
  const above = listSample(rows).filter((at) => at < findStart(preview));
  return html`
    <div id="preview-plants" role="region" aria-label="The first plants" tabindex="0">
      <table aria-label="The first plants" aria-rowcount=${rows.length}>
        <thead><tr>${FIELDS.map(makeHead)}</tr></thead>
        <tbody>
          ${above.map(makeAbove)} ${plan.shown.map(makeRow)}
          ${more > 0 && html`<tr><td class="hint" colspan=${FIELDS.length}>${renew(`… and ${number(more)} more`)}</td></tr>`}
        </tbody>
      </table>
    </div>
    ${
      plan.total >= 0 &&
      html`<label class="choice">
        <input type="checkbox" checked=${preview.takesTotal} onchange=${takeTotal} />
        <span>Import the total as a plant. <bdi>${describeRow(rows, plan.total)}</bdi></span>
      </label>`
    }
  `;
}

/** Ask what becomes of rows whose plants exist, or whose names plants have. @param {{preview: Preview}} props */
function Questions({ preview }) {
  const plan = /** @type {Plan} */ (preview.plan);
  const { twins, changing, result } = plan;
  const existing = result?.replaced ?? 0;
  const named = [...new Set(twins.flat())].map((old) => ({ old }));
  const are = twins.length === 1 ? "is" : "are";
  const at =
    named.length > 1 && named.length !== twins.length ? `: ${countPlants(named.length)}` : "";
  return [
    existing > 0 &&
      html`<${Question} legend="${countPlants(existing)} ${existing === 1 ? "exists" : "exist"}"
        label="Plants that change" plants=${changing} total=${existing}
        name="conflict" options=${preview.named ? [] : CONFLICTS} chosen=${preview.conflict ?? ""}
        pick=${(/** @type {any} */ value) => chooseConflict(preview, value)} />`,
    named.length > 0 &&
      html`<${Question}
        legend="${number(twins.length)} of the names ${are} there already${at}"
        label="Plants that have these names" plants=${named} total=${named.length}
        name="twins" options=${TWINS} chosen=${preview.twins ?? ""}
        pick=${(/** @type {any} */ value) => choose(preview, { twins: value })} />`,
  ];
}

/**
 * A choice about plants, of which some are shown, and what they will be if they change.
 *
 * @param {{legend: string, label: string, plants: {old: Plant, plant?: Plant}[], total: number}} props
 *   and those of the choice
 */
function Question({ legend, label, plants, total, ...choice }) {
  const shown = plants.slice(0, SHOWN_CHANGES);
  const more = total - shown.length;
  const describe = (/** @type {Plant} */ { name, tag }) =>
    html`<bdi>${tag ? `${name} (${tag})` : name}</bdi>`;
  const makeItem = (/** @type {typeof plants[number]} */ { old, plant }) => html`
    <li key=${old.id}>${old.id}: ${describe(old)} ${plant && html`→ ${describe(plant)}`}</li>
  `;
  return html`
    <fieldset>
      <legend>${renew(legend)}</legend>
      <ul class="listed" aria-label=${label} tabindex="0">
        ${shown.map(makeItem)} ${more > 0 && html`<li>and ${number(more)} more</li>`}
      </ul>
      <${Choice} ...${choice} />
    </fieldset>
  `;
}

/**
 * A choice, if there is one.
 *
 * @param {{label: string, value: string, options: string[][], isRequired?: boolean,
 *   choose: (value: string) => void}} props
 */
function Select({ label, value, options, isRequired = false, choose }) {
  if (options.length === 0) return null;
  const change = (/** @type {On<HTMLSelectElement>} */ { currentTarget }) =>
    choose(currentTarget.value);
  return html`
    <label class="choice">
      ${label}${" "}
      <select onchange=${change} required=${isRequired}>
        ${options.map(
          ([key, name]) =>
            html`<option key="${key} ${name}" value=${key} selected=${key === value}>${name}</option>`,
        )}
      </select>
    </label>
  `;
}

/** Whether the names are known. @param {Preview} preview */
function isNamed({ columns, named }) {
  return (columns?.name ?? -1) >= 0 || named !== undefined;
}

/** Return the plants whose ids, or names, are all that a file has. @param {Preview} preview */
function listFound({ plan, columns, named }) {
  if ((columns?.tag ?? -1) >= 0) return [];
  return [...new Set(named ? named.values() : (plan?.twins.flat() ?? []))];
}

/** Whether an import would store or change plants. @param {Preview} preview */
function isNeeded(preview) {
  const { plan } = preview;
  return Boolean(plan?.result && isNamed(preview) && countChanges(plan) > 0);
}

/** Return how many plants an import would store or change. @param {Plan} plan */
function countChanges(plan) {
  const { stored = 0, replaced = 0 } = plan.result ?? {};
  return stored + (plan.conflict === "skip" ? 0 : replaced);
}

/** @param {Preview} preview */
function describeNotes(preview) {
  const { plan: made, isHeaded } = preview;
  const plan = /** @type {Plan} */ (made);
  const { header, sent, table, columns } = plan;
  const used = Object.values(columns);
  const isOther = (/** @type {number} */ index) =>
    isHeaded && !used.includes(index) && table.rows[preview.top][index] !== "";
  const others = header.flatMap((name, at) => (isOther(at) ? name || `Column ${at + 1}` : []));
  const named = others.slice(0, NAMED_MAX).join(", ");
  const more = others.length > NAMED_MAX ? ` and ${others.length - NAMED_MAX} more` : "";
  const notes = {
    [`Not used: ${named}${more}`]: others.length > 0,
    [`${columns.id < 0 ? "Each row gets" : "Rows without an id get"} a new id. To change these plants with a file later, export them.`]:
      sent.some(({ plant }) => plant.id === ""),
    "The plants that have the numbers of the first column as ids have other names. If these are their ids, choose the column.":
      preview.isWrong === true && columns.id < 0,
    "Choose the column of the names.": !isNamed(preview),
    [explainNoUndo(findScope(plan.result))]: explainNoUndo(findScope(plan.result)) !== "",
  };
  const own = Object.entries(notes).flatMap(([note, isTrue]) => (isTrue ? note : []));
  return [...(table.notes ?? []), ...own];
}

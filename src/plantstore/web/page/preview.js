/**
 * The preview of an import: what would be stored, which the user can correct, and what the service
 * says about it. Nothing is stored before the user has seen it.
 *
 * @typedef {import("./plan.js").Preview} Preview
 * @typedef {import("./plan.js").Columns} Columns
 * @typedef {import("./plan.js").Row} Row
 * @typedef {import("./client.js").Plant} Plant
 */

import { make } from "./changes.js";
import { findGenus } from "./columns.js";
import { FILE_BYTES_MAX, isEmpty, readCsv, readPasted } from "./csv.js";
import { Choice, Frame, open } from "./dialogs.js";
import { focus, Listed, number } from "./elements.js";
import { findByIds, findByNames } from "./existing.js";
import { html, renew } from "./html.js";
import { fold } from "./names.js";
import {
  changeOf,
  countOutcomes,
  describe,
  findScope,
  findStart,
  isOfTags,
  listHeader,
  listOutcomes,
  listSample,
  outcomeOf,
  readRows,
  suggest,
} from "./plan.js";
import { RefusedRows } from "./refused.js";
import { ApiError } from "./requests.js";
import { explainNoUndo, makeAction } from "./sets.js";
import { change, state, update } from "./state.js";

const FIELDS = /** @type {["id"|"name"|"tag", string, string][]} */ ([
  ["id", "Id", "New ids"],
  ["name", "Name", ""],
  ["tag", "Tag", "None"],
]);

/** What becomes of rows whose id a plant has already. */
const CONFLICTS = [
  ["replace", "Update"],
  ["skip", "Skip"],
];

/** How many columns can be chosen, and how many that are not used are named. */
const COLUMNS_MAX = 100;
const NAMED_MAX = 5;

/** How many of the plants that exist, and of the rows, are shown. */
const SHOWN_PLANTS = 50;
const SHOWN_ROWS = 5;

/** How many characters of a row tell which one it is. */
const ROW_SHOWN = 60;

/** Show the plants of a file or of pasted rows, and import them if asked. @param {File} file */
export function openPreview(file, isPasted = false) {
  /** @type {Preview} */
  const preview = {
    ...{ file, isPasted, top: 0, run: new AbortController() },
    ...{ ids: new Map(), named: new Map() },
  };
  /** @type {import("./dialogs.js").Act} */
  const act = async (_typed, { value }) => {
    const said = value === "import" ? await importPlants(preview) : "";
    if (!preview.isDone) await refresh(preview);
    return said;
  };
  const retry = () => preview.isDone || refresh(preview);
  const title = `Import ${file.name}`;
  open({ View: PreviewView, title, content: { preview }, act, isTouched: isPasted, retry });
  refresh(preview);
}

/**
 * Import what the user has seen. If it fails or is stopped, the rows are checked again: what was sent is
 * there already then.
 *
 * @param {Preview} preview
 * @returns {Promise<string|undefined>} what to say if something is left to do
 */
async function importPlants(preview) {
  const { dialog } = state;
  const outcomes = listOutcomes(preview);
  const same = preview.result?.already_stored ?? 0;
  const rows = [...(outcomes.get("new") ?? []), ...(outcomes.get("change") ?? [])];
  const unnumbered = rows.filter(({ plant }) => plant.id === "");
  /** @type {import("./client.js").Change[]} */
  const changes = rows.map((row) => changeOf(row, preview));
  const count = (made = changes) => {
    const changed = made.filter(({ before }) => before).length;
    return { new: made.length - changed - same, changed };
  };
  /** @type {import("./sets.js").Tell} */
  const tell = (made) => `${describe(count(made))}: ${preview.file.name}`;
  const action = { ...makeAction(tell, rows.length - same, findScope(preview), true), same };
  preview.result = undefined;
  preview.named.clear();
  const { left, error, isStopped } = await make(changes, action).finally(() => {
    // If it is tried again, the plants have the same ids.
    for (const { index, plant } of unnumbered) preview.ids.set(index, plant.id);
  });
  if (error) throw error;
  if (isStopped || left.length > 0) return "Stopped";
  preview.isDone = true;
  change(dialog, { isDisposable: true });
  const refused = outcomes.get("refused")?.length ?? 0;
  return refused > 0
    ? `Imported: ${describe({ ...count([...action.made.values()]), refused })}`
    : undefined;
}

/** Change what the user has chosen. @param {Preview} preview @param {Partial<Preview>} changes */
function choose(preview, changes) {
  Object.assign(preview, changes);
  change(state.dialog, { isTouched: true });
}

/** Change what is read, or its columns. @param {Preview} preview @param {Partial<Preview>} changes */
function readAgain(preview, changes) {
  choose(preview, changes);
  refresh(preview);
}

/** Read the file as chosen, and ask what would become of it. @param {Preview} preview */
async function refresh(preview) {
  const { dialog } = state;
  preview.run.abort();
  preview.run = new AbortController();
  preview.result = undefined;
  const { signal } = preview.run;
  change(dialog, { error: null });
  try {
    if (!preview.table) {
      const table = await read(preview);
      signal.throwIfAborted();
      Object.assign(preview, { table, sheet: table.sheet });
      suggest(preview);
    }
    await check(preview, signal);
  } catch (error) {
    if (signal.aborted) return;
    const lost = new ApiError("The file cannot be read: was it changed or removed?");
    change(dialog, { error: error instanceof ApiError ? error : lost });
  }
  // Enter does what the main button says, if nothing is to be decided.
  if (document.activeElement?.matches("#preview menu button")) {
    focus("#preview fieldset :is(select, :invalid), #preview form:valid menu .primary");
  }
}

/** Find out what becomes of the rows. @param {Preview} preview @param {AbortSignal} signal */
async function check(preview, signal) {
  preview.rows = readRows(preview);
  update();
  await findByNames(preview, signal);
  const result = await findByIds(preview, signal);
  const valid = preview.rows.filter(({ fault }) => !fault);
  const others = valid.flatMap(({ old, plant }) =>
    old ? fold(old.name) === fold(plant.name) : [],
  );
  const alike = others.filter(Boolean).length;
  const known = result.already_stored + valid.filter(({ isSame }) => isSame).length + alike;
  if (preview.isGuess && others.length - alike > known) {
    // Most plants that have these numbers are others, so they are no ids.
    const columns = { .../** @type {Columns} */ (preview.columns), id: -1 };
    return check(Object.assign(preview, { columns, isGuess: false, isWrong: true }), signal);
  }
  // If all names are there, the file seems to be imported already.
  if (valid.length > 0 && valid.every(({ twins, retagged }) => twins && !retagged)) {
    preview.twins ??= "skip";
  }
  preview.result = result;
  update();
}

/** @param {Preview} preview @returns {Promise<import("./csv.js").Table>} */
async function read({ file, encoding, isPasted, sheet }) {
  if (file.size > FILE_BYTES_MAX) {
    throw new ApiError("This file is larger than 100 MB: divide it into smaller ones");
  }
  const bytes = new Uint8Array(await file.arrayBuffer());
  const start = String.fromCharCode(...bytes.subarray(0, 4));
  const isWorkbook = ["PK\x03\x04", "\xd0\xcf\x11\xe0"].includes(start);
  const table = isPasted
    ? readPasted(await file.text())
    : isWorkbook
      ? await (await import("./workbook.js")).readWorkbook(bytes, sheet)
      : readCsv(bytes, encoding);
  if (table.rows.every(isEmpty)) throw new ApiError("The file has no rows");
  return table;
}

/** @param {{preview: Preview}} props */
function PreviewView({ preview }) {
  const { table, rows, result, isDone } = preview;
  const { error, stop } = state.dialog ?? {};
  const counts = countOutcomes(preview);
  const isKnown = result !== undefined && isUsable(preview);
  const isNeeded = isKnown && counts.new + counts.change > 0;
  const buttons = error ? [["check", "Try again"]] : [];
  if (isNeeded && !isDone) buttons.push(["import", "Import", "primary"]);
  const idle = isKnown && !isNeeded ? "Nothing to import: " : "";
  const doing = error ? "" : table ? "Checking…" : "Reading…";
  const content = html`
    ${table && html`<${Choices} preview=${preview} />`}
    ${rows && html`<${Plants} preview=${preview} />`}
    <p id="preview-said" role="status">${result ? `${idle}${describe(counts)}` : doing}</p>
    ${isKnown && html`<${Questions} preview=${preview} />`}
    ${rows && listNotes(preview).map((note) => html`<p class="hint">${renew(note)}</p>`)}
  `;
  // The buttons may cover the choice that is missing.
  const show = (/** @type {Event} */ { target }) =>
    /** @type {Element} */ (target).scrollIntoView({ block: "center" });
  return html`
    <${Frame} id="preview" cancel=${idle || isDone ? "Close" : "Cancel"} buttons=${buttons}
        oninvalidCapture=${show}>
      ${stop ? html`<progress aria-label="Import" />` : !isDone && content}
      ${(isKnown || isDone) && !stop && html`<${RefusedRows} preview=${preview} />`}
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
          options=${[["", "Choose…"], ...encodings.map(([name, example]) => [name, `${example} – ${name}`])]}
          choose=${(/** @type {string} */ encoding) => readAgain(preview, { encoding, table: undefined })} />
      </fieldset>`
    }
    <div class="tools">
      <${Select} label="Sheet" value=${String(preview.sheet)}
        options=${sheets.length > 1 ? sheets.map((name, at) => [String(at), name]) : []}
        choose=${(/** @type {string} */ at) => readAgain(preview, { sheet: Number(at), table: undefined })} />
      <${Select} label="Header" value=${preview.isHeaded ? String(preview.top) : ""}
        options=${[["", "None"], ...headers]}
        choose=${(/** @type {string} */ at) => chooseHeader(preview, at)} />
    </div>
  `;
}

/** Take the names of the columns from a row, or from none. @param {Preview} preview @param {string} at */
function chooseHeader(preview, at) {
  if (at !== "") suggest(preview, Number(at));
  readAgain(preview, at === "" ? { isHeaded: false } : {});
}

/** @param {string[][]} rows @param {number} at */
function describeRow(rows, at) {
  const text = rows[at].filter((cell) => cell.trim() !== "").join(" · ");
  return `Row ${number(at + 1)}: ${text.length > ROW_SHOWN ? `${text.slice(0, ROW_SHOWN)}…` : text}`;
}

/** The first plants as they will be stored, and their columns. @param {{preview: Preview}} props */
function Plants({ preview }) {
  const columns = /** @type {Columns} */ (preview.columns);
  const { rows = [] } = preview.table ?? {};
  const header = listHeader(preview).slice(0, COLUMNS_MAX);
  const names = header.map((name, index) => [
    String(index),
    (preview.isHeaded && name) || `Column ${index + 1}`,
  ]);
  const makeHead = (/** @type {typeof FIELDS[number]} */ [field, label, none]) => {
    const pick = (/** @type {string} */ index) =>
      readAgain(preview, { columns: { ...columns, [field]: Number(index) } });
    const missing = none || (isUsable(preview) ? "Unchanged" : "Choose…");
    const options = none || columns[field] < 0 ? [["-1", missing], ...names] : names;
    return html`
      <th scope="col">
        <${Select} label=${label} value=${String(columns[field])} options=${options} choose=${pick} />
      </th>
    `;
  };
  const counts = countOutcomes(preview);
  const plants = (preview.rows ?? []).flatMap((row) =>
    ["refused", "skipped"].includes(outcomeOf(row, preview)) ? [] : changeOf(row, preview).after,
  );
  const makeRow = (/** @type {Plant} */ { id, name, tag }) => html`
    <tr>${[id || "new", name, tag].map((text) => html`<td><bdi>${text}</bdi></td>`)}</tr>
  `;
  const makeAbove = (/** @type {number} */ at) => html`
    <tr class="above" onclick=${() => chooseHeader(preview, String(at))}>
      <td colspan=${FIELDS.length}><bdi>${describeRow(rows, at)}</bdi></td>
    </tr>
  `;
  const more = counts.new + counts.change - SHOWN_ROWS;
  const above = listSample(rows).filter((at) => at < findStart(preview));
  return html`
    <div id="preview-plants" role="region" aria-label="The first plants" tabindex="0">
      <table aria-label="The first plants" aria-rowcount=${rows.length}>
        <thead><tr>${FIELDS.map(makeHead)}</tr></thead>
        <tbody>
          ${above.map(makeAbove)} ${plants.slice(0, SHOWN_ROWS).map(makeRow)}
          ${more > 0 && html`<tr><td class="hint" colspan=${FIELDS.length}>${renew(`… and ${number(more)} more`)}</td></tr>`}
        </tbody>
      </table>
    </div>
  `;
}

/** Ask what becomes of rows whose plants exist, or whose names plants have. @param {{preview: Preview}} props */
function Questions({ preview }) {
  const rows = (preview.rows ?? []).filter(({ fault }) => !fault);
  const changing = rows.flatMap(({ old, plant }) => (old ? { old, plant } : []));
  const there = rows.filter(({ twins = [] }) => twins.length > 0);
  const known = there.flatMap(({ twins = [], retagged }) =>
    twins.map((old) => ({ old, plant: retagged?.after })),
  );
  const named = new Map(known.map((each) => [each.old, each]));
  const repeated = rows.filter(({ twins }) => twins?.length === 0);
  const own = repeated.map(({ plant, index }) => ({ old: plant, index }));
  const tell = (/** @type {number} */ many, /** @type {string} */ what) =>
    many > 0 ? [`${number(many)} of the names ${many === 1 ? "is" : "are"} ${what}`] : [];
  const shared = there.filter(({ isShared }) => isShared).length;
  const except = shared > 0 ? `, except the ${number(shared)} whose name is not unique` : "";
  const isTagged = there.some(({ retagged }) => retagged);
  const twins = [
    ["skip", "Skip"],
    ...(isTagged ? [["replace", `Update their tags${except}`]] : []),
    ["import", "Import as new plants"],
  ];
  return [
    changing.length > 0 &&
      html`<${Question}
        legend="${number(changing.length)} stored ${changing.length === 1 ? "plant differs" : "plants differ"}"
        label="Plants that change" plants=${changing}
        name="conflict" options=${isOfTags(preview) ? [] : CONFLICTS} chosen=${preview.conflict ?? ""}
        pick=${(/** @type {any} */ conflict) => choose(preview, { conflict })} />`,
    there.length + own.length > 0 &&
      html`<${Question}
        legend=${[...tell(there.length, "there already"), ...tell(own.length, "repeated")].join("; ")}
        label="Plants and rows that have these names" plants=${[...named.values(), ...own]}
        name="twins" options=${twins} chosen=${preview.twins ?? ""}
        pick=${(/** @type {any} */ twins) => choose(preview, { twins })} />`,
  ];
}

/**
 * A choice about plants, of which some are shown, and what they will be if they change.
 *
 * @param {{legend: string, label: string, plants: {old: Plant, plant?: Plant, index?: number}[]}}
 *   props and those of the choice; a row that repeats a name has its index
 */
function Question({ legend, label, plants, ...choice }) {
  const render = (/** @type {Plant} */ { name, tag }) =>
    html`<bdi>${tag ? `${name} (${tag})` : name}</bdi>`;
  const show = (/** @type {typeof plants[number]} */ { old, plant, index }) =>
    html`${index === undefined ? old.id : `Row ${number(index + 1)}`}: ${render(old)} ${plant && html`→ ${render(plant)}`}`;
  return html`
    <fieldset>
      <legend>${renew(legend)}</legend>
      <${Listed} aria-label=${label} items=${plants} max=${SHOWN_PLANTS} show=${show} />
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

/** Whether the columns that are needed are chosen. @param {Preview} preview */
function isUsable(preview) {
  return isOfTags(preview) || (preview.columns?.name ?? -1) >= 0;
}

/** @param {Preview} preview */
function listNotes(preview) {
  const { table, rows = [], isHeaded, top } = preview;
  if (!table) return []; // It is being read again.
  const { rows: cells } = table;
  const columns = /** @type {Columns} */ (preview.columns);
  const genus = findGenus(preview);
  const used = [...Object.values(columns), genus];
  const header = listHeader(preview);
  const read = rows.flatMap(({ index, fault }) => (fault ? [] : index));
  const filled = (isHeaded ? [top, ...read] : read).flatMap((index) =>
    cells[index].flatMap((cell, at) => (cell.trim() && !used.includes(at) ? at : [])),
  );
  const others = [...new Set(filled)].map((at) => header[at] || `Column ${at + 1}`);
  const named = others.slice(0, NAMED_MAX).join(", ");
  const more = others.length > NAMED_MAX ? ` and ${others.length - NAMED_MAX} more` : "";
  const noUndo = explainNoUndo(findScope(preview));
  const notes = {
    [`Not used: ${named}${more}`]: others.length > 0,
    [`The names begin with the column ${header[genus]}.`]: genus >= 0,
    "Plants without an id get one. To change these plants with a file later, export them.":
      rows.some((row) => row.plant.id === "" && outcomeOf(row, preview) === "new"),
    "The plants that have the numbers of the first column as ids have other names. If these are their ids, choose the column.":
      preview.isWrong === true && columns.id < 0,
    "Choose the column of the names.": !isUsable(preview),
    [noUndo]: noUndo !== "",
  };
  const own = Object.entries(notes).flatMap(([note, isTrue]) => (isTrue ? note : []));
  return [...(table?.notes ?? []), ...own];
}

/**
 * The rows of a file that are refused: a table, and a file in the form of the imported one, so that it
 * can be corrected and imported.
 */

import { write } from "./csv.js";
import { Listed, number, saveFile } from "./elements.js";
import { html } from "./html.js";
import { listHeader, listOutcomes } from "./plan.js";

/** @typedef {import("./plan.js").Preview} Preview */

/** How many rows are shown. */
const SHOWN_MAX = 1000;

/** A longer text is cut in the table: a row may have 16 KiB, or more. */
const CHARACTERS_MAX = 500;

/**
 * Return the refused rows as they are in the file, with the reason in a column behind those of the
 * header, before cells that have none. A column `reason` of the last import is left out.
 *
 * @param {Preview} preview
 */
export function listRefused(preview) {
  const header = listHeader(preview);
  const reason = header.indexOf("reason");
  const add = (/** @type {string[]} */ cells, /** @type {string} */ text) => {
    const own = Array.from(header, (_, index) => cells[index] ?? "");
    return [...own.filter((_, at) => at !== reason), text, ...cells.slice(header.length)];
  };
  const rows = listOutcomes(preview).get("refused") ?? [];
  const cellsOf = (/** @type {number} */ index) => preview.table?.rows[index] ?? [];
  return [add(header, "reason"), ...rows.map(({ index, fault }) => add(cellsOf(index), fault))];
}

/** @param {Preview} preview */
function save(preview) {
  const rows = write(listRefused(preview), preview.table?.separator);
  const name = preview.isPasted ? "pasted-rows" : preview.file.name.replace(/\.[^.]*$/, "");
  saveFile(`${name}-refused.csv`, new Blob(["\ufeff", rows], { type: "text/csv" }));
}

/** @param {{preview: Preview}} props */
export function RefusedRows({ preview }) {
  const rows = listOutcomes(preview).get("refused") ?? [];
  if (rows.length === 0) return null;
  const cellsOf = (/** @type {number} */ index) => preview.table?.rows[index].join(" · ") ?? "";
  const show = (/** @type {import("./plan.js").Row} */ { index, fault }) => html`
    <strong>${`Row ${number(index + 1)}:`}</strong> ${fault}<br />
    <bdi class="hint">${cellsOf(index).slice(0, CHARACTERS_MAX)}</bdi>
  `;
  return html`
    <${Listed} id="import-refused" aria-label="Refused rows" items=${rows} max=${SHOWN_MAX} show=${show} />
    <p><button type="button" onclick=${() => save(preview)}>Save the refused rows</button></p>
  `;
}

/**
 * The rows of an import that are refused, by this page or by the service: a table, and a file in the
 * form of the imported one, so that it can be corrected and imported.
 *
 * @typedef {{row: number, message: string, cells: string[]}} RefusedRow the number that a
 *   spreadsheet shows
 * @typedef {{rows: RefusedRow[], total: number}} Refused the first rows, and how many there are
 * @typedef {import("./plan.js").Plan} Plan
 */

import { number } from "./elements.js";
import { html } from "./html.js";
import { ID_TAKEN } from "./requests.js";

/** How many rows are shown. The service reports as many. */
const SHOWN_MAX = 1000;

/** A longer text is cut in the table: a row may have 16 KiB, or more. */
const CHARACTERS_MAX = 500;

/**
 * @param {Plan} plan
 * @param {import("./client.js").ImportResult} result
 * @returns {Refused|undefined} undefined if no row was refused
 */
export function readRefused(plan, { errors, refused }) {
  const total = refused + plan.faults.size;
  if (total === 0) return undefined;
  let at = 0;
  const told = errors.map((error) => {
    while (plan.sent[at + 1]?.line <= error.line) at += 1;
    return /** @type {[number, string]} */ ([plan.sent[at].index, explain(error)]);
  });
  const rows = [...new Map([...told, ...plan.faults])]
    .sort(([one], [other]) => one - other)
    .map(([index, message]) => ({ row: index + 1, message, cells: plan.table.rows[index] }));
  return { rows, total };
}

/** @param {import("./client.js").RowError} error */
function explain({ error, message }) {
  if (error === ID_TAKEN) return "Another plant has this id";
  if (message.endsWith('got ""')) return "The id is missing";
  if (/^`id` must be an integer.* got -?\d+$/.test(message)) return "The id has too many digits";
  if (message.startsWith("`id` must be an integer")) return "The id must be a whole number";
  return message.replace(/^`(id|name|tag)`/, "The $1");
}

/**
 * Return the refused rows as they are in the file, with the reason in a column behind those of the
 * header, before cells that have none. A column `reason` of the last import is left out.
 *
 * @param {Plan} plan @param {Refused} refused
 * @returns {string[][]}
 */
export function listRefused({ header }, { rows }) {
  const reason = header.indexOf("reason");
  const add = (/** @type {string[]} */ cells, /** @type {string} */ text) => {
    const own = Array.from(header, (_, index) => cells[index] ?? "");
    return [...own.filter((_, at) => at !== reason), text, ...cells.slice(header.length)];
  };
  return [add(header, "reason"), ...rows.map(({ message, cells }) => add(cells, message))];
}

/** @param {Refused} refused */
export function RefusedRows({ rows, total }) {
  const shown = rows.slice(0, SHOWN_MAX);
  const advice =
    `These are the first ${number(shown.length)} of the ${number(total)} refused rows. ` +
    "Correct them and import the file again to see the others.";
  return html`
    ${total > shown.length && html`<p id="import-shown" class="hint">${advice}</p>`}
    <div id="import-refused" role="region" aria-label="Refused rows" tabindex="0">
      <table id="rejects" role="table" aria-label="Refused rows">
        <thead role="rowgroup">
          <tr role="row">
            <th role="columnheader" scope="col">Row</th>
            <th role="columnheader" scope="col">Reason</th>
            <th role="columnheader" scope="col">Cells</th>
          </tr>
        </thead>
        <tbody role="rowgroup">${shown.map(Row)}</tbody>
      </table>
    </div>
  `;
}

/** @param {RefusedRow} row */
function Row({ message, row, cells }) {
  return html`
    <tr role="row">
      <th role="rowheader" scope="row">${number(row)}</th>
      <td role="cell" class="reason">${message}</td>
      <td role="cell" class="source"><bdi>${cells.join(" · ").slice(0, CHARACTERS_MAX)}</bdi></td>
    </tr>
  `;
}

/**
 * The rows that the service refused: a table, and a CSV file for a spreadsheet.
 *
 * @typedef {import("./client.js").RowError & {row: string}} RefusedRow
 * @typedef {{rows: RefusedRow[], total: number, name: string, url: string}} Refused the first rows,
 *   how many there are, and the CSV file
 */

import { html } from "./html.js";

/**
 * Where a spreadsheet would see a formula: at the start of a cell. Some spreadsheets separate
 * cells at semicolons or tabs, so a formula may also be within a row.
 */
const FORMULA = /((?:^|[,;\t\r\n])["' ]*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])/g;

/** A longer line is cut: a row may have a mebibyte. */
const LINE_CHARACTERS_MAX = 500;

/**
 * @param {File} file
 * @param {import("./client.js").ImportResult} result
 * @returns {Promise<Refused|undefined>} undefined if no row was refused
 */
export async function readRefused(file, { errors, refused: total }) {
  if (errors.length === 0) return undefined;
  const numbers = errors.map(({ line }) => line);
  const lines = await readLines(file, numbers);
  const rows = errors.map((error) => ({ ...error, row: lines.get(error.line) ?? "" }));
  const url = URL.createObjectURL(new Blob([makeCsv(rows)], { type: "text/csv" }));
  return { rows, total, name: `${file.name.replace(/\.[^.]*$/, "")}-refused.csv`, url };
}

/** @param {Refused} refused */
export function RefusedRows({ rows, total }) {
  const [many, all] = [rows.length, total].map((number) => number.toLocaleString("en"));
  const advice =
    `These are the first ${many} of the ${all} refused rows. ` +
    "Correct them and import the file again to see the others.";
  return html`
    ${total > rows.length && html`<p id="import-shown" class="hint">${advice}</p>`}
    <div id="import-refused" role="region" aria-label="Refused rows" tabindex="0">
      <table id="rejects" role="table" aria-label="Refused rows">
        <thead role="rowgroup">
          <tr role="row">
            <th role="columnheader" scope="col">Line</th>
            <th role="columnheader" scope="col">Reason</th>
            <th role="columnheader" scope="col">Row</th>
          </tr>
        </thead>
        <tbody role="rowgroup">${rows.map(Row)}</tbody>
      </table>
    </div>
  `;
}

/** @param {RefusedRow} row */
function Row({ line, message, row }) {
  return html`
    <tr role="row">
      <th role="rowheader" scope="row">${line.toLocaleString("en")}</th>
      <td role="cell" class="reason">${message}</td>
      <td role="cell" class="source"><code dir="auto">${row}</code></td>
    </tr>
  `;
}

/** Return CSV. By the byte order mark, spreadsheets detect UTF-8. @param {RefusedRow[]} rows */
function makeCsv(rows) {
  const cells = rows.map(({ line, error, message, row }) => [`${line}`, `${error}`, message, row]);
  const lines = [["line", "error", "message", "row"], ...cells];
  return `\ufeff${lines.map((line) => `${line.map(quote).join(",")}\r\n`).join("")}`;
}

/** @param {string} text */
function quote(text) {
  return `"${text.replace(FORMULA, "$1'").replaceAll('"', '""')}"`;
}

/**
 * Return the text of some lines of a file, by their numbers, from 1. LF, CRLF or CR ends a line,
 * as in the service.
 *
 * @param {Blob} file
 * @param {number[]} numbers
 * @returns {Promise<Map<number, string>>} the lines that cannot be read are empty
 */
async function readLines(file, numbers) {
  const lines = new Map(numbers.map((number) => [number, ""]));
  const last = Math.max(...numbers);
  const reader = file.stream().pipeThrough(new TextDecoderStream()).getReader();
  let number = 1;
  let held = ""; // A CR at the end of a piece may be the first half of a CRLF.
  try {
    while (number <= last) {
      const { done, value } = await reader.read();
      if (done) break;
      const piece = held + value;
      held = piece.endsWith("\r") ? "\r" : "";
      const parts = piece.slice(0, piece.length - held.length).split(/\r\n|\r|\n/);
      for (const [index, part] of parts.entries()) {
        if (index > 0) number += 1;
        const line = lines.get(number);
        if (line !== undefined) lines.set(number, shorten(line + part));
      }
    }
  } catch {
    // The file was changed or removed.
  }
  reader.cancel().catch(() => {}); // The rest of the file is not needed.
  return lines;
}

/** Copy the first characters. A slice would keep the whole text. @param {string} text */
function shorten(text) {
  const characters = [...text.slice(0, 2 * LINE_CHARACTERS_MAX + 2)];
  if (characters.length <= LINE_CHARACTERS_MAX) return characters.join("");
  return `${characters.slice(0, LINE_CHARACTERS_MAX).join("")}…`;
}

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

/** A longer row is cut: it may have 16 KiB. */
const ROW_CHARACTERS_MAX = 500;

/**
 * @param {File} file
 * @param {import("./client.js").ImportResult} result
 * @returns {Promise<Refused|undefined>} undefined if no row was refused
 */
export async function readRefused(file, { errors, refused: total }) {
  if (errors.length === 0) return undefined;
  const rows = await readRows(file, errors);
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
function Row({ message, row, ...lines }) {
  return html`
    <tr role="row">
      <th role="rowheader" scope="row">${nameLines(lines, (line) => line.toLocaleString("en"))}</th>
      <td role="cell" class="reason">${message}</td>
      <td role="cell" class="source"><code dir="auto">${row}</code></td>
    </tr>
  `;
}

/** @param {{line: number, last_line?: number}} lines @param {(line: number) => string} show */
function nameLines({ line, last_line }, show) {
  return last_line ? `${show(line)} to ${show(last_line)}` : show(line);
}

/** Return CSV. By the byte order mark, spreadsheets detect UTF-8. @param {RefusedRow[]} rows */
function makeCsv(rows) {
  const cells = rows.map(({ error, message, row, ...lines }) => {
    return [nameLines(lines, String), `${error}`, message, row];
  });
  const lines = [["line", "error", "message", "row"], ...cells];
  return `\ufeff${lines.map((line) => `${line.map(quote).join(",")}\r\n`).join("")}`;
}

/** @param {string} text */
function quote(text) {
  return `"${text.replace(FORMULA, "$1'").replaceAll('"', '""')}"`;
}

/**
 * Return the rows with their texts. LF, CRLF or CR ends a line, as in the service.
 *
 * @param {Blob} file
 * @param {import("./client.js").RowError[]} errors in the order of their lines
 * @returns {Promise<RefusedRow[]>} the rows that cannot be read are empty
 */
async function readRows(file, errors) {
  const rows = errors.map((error) => ({ ...error, row: "" }));
  const reader = file.stream().pipeThrough(new TextDecoderStream()).getReader();
  let number = 1;
  let at = 0; // The position of the first row that does not end before this line.
  let held = ""; // A CR at the end of a piece may be the first half of a CRLF.
  try {
    while (at < rows.length) {
      const { done, value } = await reader.read();
      if (done) break;
      const piece = held + value;
      held = piece.endsWith("\r") ? "\r" : "";
      const parts = piece.slice(0, piece.length - held.length).split(/\r\n|\r|\n/);
      for (const [index, part] of parts.entries()) {
        if (index > 0) number += 1;
        if (at < rows.length && number > (rows[at].last_line ?? rows[at].line)) at += 1;
        const row = rows[at];
        if (!row || number < row.line || isCut(row.row)) continue;
        const lineEnd = index > 0 && number > row.line ? "\n" : "";
        row.row = shorten(row.row + lineEnd + part);
      }
    }
  } catch {
    // The file was changed or removed.
  }
  reader.cancel().catch(() => {}); // The rest of the file is not needed.
  return rows;
}

/** @param {string} text */
function isCut(text) {
  return text.length > ROW_CHARACTERS_MAX && text.endsWith("…");
}

/** Copy the first characters. A slice would keep the whole text. @param {string} text */
function shorten(text) {
  const characters = [...text.slice(0, 2 * ROW_CHARACTERS_MAX + 2)];
  if (characters.length <= ROW_CHARACTERS_MAX) return characters.join("");
  return `${characters.slice(0, ROW_CHARACTERS_MAX).join("")}…`;
}

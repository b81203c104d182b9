/** The rows that the service refused: a table, and a CSV file for a spreadsheet. */

import { copyTemplate, element, within } from "./elements.js";
import { readLines } from "./lines.js";

/** @typedef {import("./client.js").RowError & {row: string}} Refused */

/**
 * Where a spreadsheet would see a formula: at the start of a cell. Some spreadsheets separate
 * cells at semicolons or tabs, so a formula may also be within a row.
 */
const FORMULA = /((?:^|[,;\t\r\n])["' ]*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])/g;

/** Clear the table. */
export function hideRefused() {
  fill([]);
  element("import-shown").textContent = "";
}

/**
 * Show the refused rows of a file.
 *
 * @param {File} file
 * @param {import("./client.js").RowError[]} errors of the first of them
 * @param {number} refused how many there are
 */
export async function showRefused(file, errors, refused) {
  const numbers = errors.map(({ line }) => line);
  const lines = await readLines(file, numbers);
  const rows = errors.map((error) => ({ ...error, row: lines.get(error.line) ?? "" }));
  fill(rows);
  element("import-shown").textContent =
    refused > rows.length
      ? `These are the first ${rows.length.toLocaleString("en")} of the ` +
        `${refused.toLocaleString("en")} refused rows. Correct them and import the file again ` +
        "to see the others."
      : "";
  const link = element("import-rejects", HTMLAnchorElement);
  URL.revokeObjectURL(link.href);
  link.href = URL.createObjectURL(new Blob([makeCsv(rows)], { type: "text/csv" }));
  link.download = `${file.name.replace(/\.[^.]*$/, "")}-refused.csv`;
}

/** @param {Refused[]} rows */
function fill(rows) {
  element("import-refused").hidden = rows.length === 0;
  element("import-rejects").hidden = rows.length === 0;
  const shown = rows.map(({ line, message, row }) => {
    const copy = copyTemplate("reject");
    within(copy, "th").textContent = line.toLocaleString("en");
    within(copy, ".reason").textContent = message;
    within(copy, "code").textContent = row;
    return copy;
  });
  within(element("rejects"), "tbody").replaceChildren(...shown);
}

/**
 * Return rows as CSV. It begins with a byte order mark, by which spreadsheets detect UTF-8.
 *
 * @param {Refused[]} rows
 */
function makeCsv(rows) {
  const cells = rows.map(({ line, error, message, row }) => [`${line}`, `${error}`, message, row]);
  const lines = [["line", "error", "message", "row"], ...cells];
  return `\ufeff${lines.map((line) => `${line.map(quote).join(",")}\r\n`).join("")}`;
}

/** @param {string} text */
function quote(text) {
  return `"${text.replace(FORMULA, "$1'").replaceAll('"', '""')}"`;
}

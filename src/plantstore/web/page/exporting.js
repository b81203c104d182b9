/** The export on the page: the selected plants, or those of the list, are saved as CSV or for Excel. */

import { entitle, LISTED, select } from "./address.js";
import { client } from "./client.js";
import { saveFile, say } from "./elements.js";
import { ApiError } from "./requests.js";
import { state } from "./state.js";

/** How much of a search names its file. Browsers replace what a file system does not allow. */
const NAMED_CHARACTERS_MAX = 50;

/** How many rows a spreadsheet has. */
const ROWS_MAX = 1_048_576;

const EXCEL = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";

/**
 * Save the selected plants as they were shown, or those of the list, of all its pages. By the byte order
 * mark, spreadsheets detect UTF-8. A plant that was found by its id is added to what the service finds.
 *
 * @param {"csv"|"xlsx"} kind @param {import("./client.js").Plant[]} [selected]
 */
export async function exportPlants(kind, selected = []) {
  const query = select(state.query, LISTED);
  const what = selected.length > 0 ? "selected" : entitle(query).slice(0, NAMED_CHARACTERS_MAX);
  const name = `${["plants", what].filter(Boolean).join(" ")}.${kind}`;
  const byId = state.listing?.byId;
  say("Exporting…");
  const parts =
    selected.length > 0
      ? ["id,name,tag\r\n", ...selected.map(makeRow)]
      : [await client.export(query), byId ? makeRow(byId) : ""];
  const csv = new Blob(["\ufeff", ...parts], { type: "text/csv" });
  saveFile(name, kind === "csv" ? csv : await toWorkbook(csv));
  say(`Exported: ${name}`);
}

/** Return an Excel workbook with the rows of a file. @param {Blob} csv */
async function toWorkbook(csv) {
  const [{ readCsv, isEmpty }, { writeWorkbook }] = await Promise.all([
    import("./csv.js"),
    import("./workbook.js"),
  ]);
  const table = readCsv(new Uint8Array(await csv.arrayBuffer()), "utf-8");
  const rows = table.rows.filter((cells) => !isEmpty(cells));
  if (rows.length > ROWS_MAX) throw new ApiError("A workbook has 1,048,576 rows: export CSV");
  return new Blob([await writeWorkbook(rows)], { type: EXCEL });
}

/** @param {import("./client.js").Plant} plant */
function makeRow({ id, name, tag }) {
  const message = `CSV cannot hold the plant ${id}: its tag is empty. Export JSON lines instead`;
  if (tag === "") throw new ApiError(message);
  const cells = [name, tag ?? ""].map((text) => `"${text.replaceAll('"', '""')}"`);
  return `${[id, ...cells].join(",")}\r\n`;
}

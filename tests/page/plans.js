/** What the page would send of a file, for tests. */

import { readCsv, readPasted } from "../../src/plantstore/web/page/csv.js";
import { readRows, suggest } from "../../src/plantstore/web/page/plan.js";

/** Return the preview of a text with the columns that the page suggests, or that the user chose. */
export function previewOf(content, isPasted = false, chosen = {}) {
  const table = isPasted ? readPasted(content) : readCsv(new TextEncoder().encode(content));
  const file = new File([content], "my.plants.csv");
  const preview = { file, isPasted, table, ids: new Map(), named: new Map() };
  suggest(preview);
  Object.assign(preview, chosen);
  return Object.assign(preview, { rows: readRows(preview) });
}

/** Return the plants that are sent, as texts. */
export function listPlants({ rows }) {
  const sent = rows.filter(({ fault, isSame }) => !fault && !isSame);
  return sent.map(({ plant: { id, name, tag } }) => [id, name, tag].join("|"));
}

/** Return the faults, by the indexes of rows. */
export function listFaults({ rows }) {
  return rows.flatMap(({ index, fault }) => (fault ? [[index, fault]] : []));
}

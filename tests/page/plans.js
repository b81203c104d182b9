/** What the page would send of a file, for tests. */

import { readCsv, readPasted } from "../../src/plantstore/web/page/csv.js";
import { makePlan, suggest } from "../../src/plantstore/web/page/plan.js";

const { signal } = new AbortController();

/** Return the preview of a text with the columns that the page suggests. */
export async function previewOf(content, isPasted = false, name = "my.plants.csv") {
  const table = isPasted ? readPasted(content) : await readCsv(new TextEncoder().encode(content));
  const file = new File([content], name);
  const preview = { file, isPasted, table, same: new Set(), stored: new Map() };
  suggest(preview);
  return preview;
}

/** Return the plan of a text with what the user chose. */
export async function planOf(content, chosen = {}) {
  return await makePlan({ ...(await previewOf(content)), ...chosen }, signal);
}

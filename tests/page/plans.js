/** What the page would send of a file, for tests. */

import { readCsv, readPasted } from "../../src/plantstore/web/page/csv.js";
import { makePlan, suggest } from "../../src/plantstore/web/page/plan.js";

const { signal } = new AbortController();

/** Return the preview of a text with the columns that the page suggests. */
export async function previewOf(content, isPasted = false, name = "my.plants.csv") {
  const table = isPasted ? readPasted(content) : await readCsv(new TextEncoder().encode(content));
  const preview = { file: new File([content], name), isPasted, table };
  suggest(preview);
  return preview;
}

/** Return the plan of a text, which updates plants and sends repeated ids only if this is chosen. */
export async function planOf(content, { replaces = false, takesLast = false } = {}) {
  return await makePlan({ ...(await previewOf(content)), replaces, takesLast }, signal);
}

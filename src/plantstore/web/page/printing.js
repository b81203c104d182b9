/**
 * Printing: the list, or labels whose QR code leads to the plant. This module and the library for
 * QR codes are loaded when the user wants to print.
 */

import { entitle } from "./address.js";
import { Choice, Field, Frame, open } from "./dialogs.js";
import { countPlants, number } from "./elements.js";
import { html } from "./html.js";
import { findAll } from "./listing.js";
import { change, state, update } from "./state.js";
import { encode } from "./uqr.mjs";

/** @typedef {import("./client.js").Plant} Plant */

/**
 * The list, common sheets of labels, and labels of a printer for them: how many labels a page has, how
 * many characters a line and a label hold, and how many lines.
 */
const KINDS = /** @type {Record<string, [string, number, number, number, number]>} */ ({
  list: ["List", 0, 0, 0, 0],
  grid24: ["Labels 3 × 8 on A4, of 70 × 37 mm", 24, 16, 54, 5],
  grid65: ["Labels 5 × 13 on A4, of 38.1 × 21.2 mm", 65, 12, 34, 4],
  grid30: ["Labels 3 × 10 on Letter, of 2⅝ × 1 inch, as Avery 5160", 30, 16, 48, 4],
  single: ["Labels, one per page, for a label printer", 1, 16, 46, 4],
});

/** A longer name is printed smaller, down to this part of the size. */
const FIT_MIN = 0.5;

const HINT =
  "Labels have a QR code that opens the plant on this page. Print them in their original size, without the margins of the browser.";

/** What was printed last. */
let chosen = "list";

/** @param {{total: number, isExact: boolean, kind: string, place: string}} props what is chosen */
function PrintView({ total, isExact, kind, place }) {
  const [, places] = KINDS[kind];
  const look = (/** @type {Event} */ { target }) => {
    const { name, value } = /** @type {HTMLInputElement} */ (target);
    change(state.dialog, { content: { ...state.dialog?.content, [name]: value } });
  };
  const sheets = number(Math.ceil((total + countUsed(places, place)) / places));
  return html`
    <${Frame} id="printing" buttons=${[["print", "Print", "primary"]]}>
      <div oninput=${look}>
        <${Choice} name="kind" options=${Object.entries(KINDS).map(([kind, [label]]) => [kind, label])} chosen=${chosen} />
        <p class="hint">
          ${HINT} ${isLocal() && "But this page has an address that only this computer knows."}
        </p>
        <div hidden=${places < 2}>
          <${Field} id="printing-place" name="place" label="Begin at label" value="1" type="number"
            min="1" max=${places} disabled=${places < 2}
            hint="For a sheet of which labels are used: the first that is left, counted row by row." />
        </div>
      </div>
      <p role="status">
        ${places > 0 && `${sheets}${isExact ? "" : "+"} ${sheets === "1" && isExact ? "sheet" : "sheets"}`}
      </p>
    <//>
  `;
}

/** Return how many labels of the first sheet are used. @param {number} places @param {string} place */
function countUsed(places, place) {
  return places > 1 ? Math.max(0, Number(place) - 1) : 0;
}

/** Whether the address of the page is of no use on other devices. */
function isLocal() {
  return /^(localhost|127\..*|\[::1\])$/.test(location.hostname);
}

/** Print the selected plants, or those of the list, of all its pages. @param {Plant[]} [selected] */
export async function askAndPrint(selected) {
  const { listing, shownQuery } = state;
  /** @type {import("./dialogs.js").Act} */
  const act = async ({ kind = chosen, place = "1" }) => {
    chosen = kind;
    const [, places] = KINDS[kind];
    const plants = selected ?? (await findAll());
    const query = selected ? new URLSearchParams() : shownQuery;
    const title = entitle(query) || "Plants";
    const about = `${countPlants(plants.length)}, ${new Date().toLocaleDateString("en-CA")}`;
    const sheet =
      kind === "list"
        ? makeList(plants, title, about, query.has("tag"))
        : makeLabels([...Array(countUsed(places, place)), ...plants], kind);
    update({ sheet });
    window.onafterprint = () => update({ sheet: null });
    window.print();
  };
  const isExact = selected !== undefined || listing?.isExact;
  const total = selected?.length ?? listing?.total ?? 0;
  const title = `Print ${countPlants(total, isExact)}`;
  const content = { total, isExact, kind: chosen, place: "1" };
  open({ View: PrintView, title, content, act, isDisposable: true });
}

/**
 * Return a list with boxes to tick. Its head is on each page.
 *
 * @param {Plant[]} plants @param {string} title which has the tag if the list is of a tag
 * @param {string} about @param {boolean} isOfTag
 */
function makeList(plants, title, about, isOfTag) {
  const makeRow = (/** @type {Plant} */ { id, name, tag }) => html`
    <tr>
      <td class="tick">☐</td><td class="id">${id}</td><td class="name"><bdi>${name}</bdi></td>
      ${!isOfTag && html`<td><bdi>${tag}</bdi></td>`}
    </tr>
  `;
  return html`
    <table>
      <thead>
        <tr><th colspan="4"><bdi>${title}</bdi> <span>${about}</span></th></tr>
        <tr>
          <th class="tick" /><th class="id">Id</th><th>Name</th>${!isOfTag && html`<th class="tag">Tag</th>`}
        </tr>
      </thead>
      <tbody>${plants.map(makeRow)}</tbody>
    </table>
  `;
}

/** @param {(Plant|undefined)[]} plants undefined for a label that is missing @param {string} kind */
function makeLabels(plants, kind) {
  const [, many] = KINDS[kind];
  const pages = Array.from({ length: Math.ceil(plants.length / many) }, (_, page) =>
    plants.slice(page * many, (page + 1) * many),
  );
  return pages.map(
    (page) => html`<ol class="labels ${kind}">${page.map((plant) => makeLabel(plant, kind))}</ol>`,
  );
}

/** @param {Plant|undefined} plant @param {string} kind */
function makeLabel(plant, kind) {
  if (!plant) return html`<li />`;
  const { id, name, tag } = plant;
  const address = `${location.origin}${location.pathname}#/plants/${id}`;
  const { size, data } = encode(address, { border: 0, ecc: "M" });
  const [, , line, all, lines] = KINDS[kind];
  const longest = Math.max(...name.split(/\s+/u).map((word) => word.length));
  const fit = Math.max(FIT_MIN, Math.min(1, line / longest, Math.sqrt(all / name.length)));
  const style = { "--fit": `${fit}`, "--lines": `${Math.round(lines / fit)}` };
  const squares = data.flatMap((row, y) =>
    row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : "")),
  );
  return html`
    <li>
      <svg viewBox="0 0 ${size} ${size}" shape-rendering="crispEdges"><path d=${squares.join("")} /></svg>
      <p style=${style}><bdi class="name">${name}</bdi><span>${id}</span>${tag && html`<bdi>${tag}</bdi>`}</p>
    </li>
  `;
}

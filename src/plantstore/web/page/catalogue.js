/** The catalogue: the list of plants, and what can be done with it. */

import { addressOf, entitle, SEARCHED, select, TEXT_MAX } from "./address.js";
import { closePopover, countPlants, focus, number, PlantText, say } from "./elements.js";
import { exportPlants } from "./exporting.js";
import { html, renew } from "./html.js";
import { chooseImport } from "./importing.js";
import {
  beginAt,
  findPosition,
  findTurn,
  isByName,
  listSelected,
  search as searchTyped,
  selectFound,
  type,
} from "./listing.js";
import { addPlants, openPlant } from "./plant.js";
import { UndoButton } from "./sets.js";
import { deleteSelected, renameTag, tagPlants } from "./several.js";
import { state, update } from "./state.js";
import { Table } from "./table.js";
import { TagList, TagsButton } from "./tags.js";

/** @typedef {import("./client.js").Plant} Plant */

export function Catalogue() {
  const { listing, problem, tags } = state;
  const isEmpty = listing?.plants.length === 0;
  return html`
    <section aria-labelledby="plants-title">
      <h2 id="plants-title" class="unseen" tabindex="-1">Plants</h2>
      <${Tools} />
      <p id="listing-error" class="error" role="alert">
        ${problem && !problem.isOutage && problem.message}
      </p>
      <div class="columns" data-needs="plants:read">
        <${TagList} />
        <div>
          <${Summary} />
          <div id="table" hidden=${isEmpty} inert=${state.isSearching}><${Table} /></div>
          <${Selected} />
          ${isEmpty && html`<${Nothing} />`}
          <${Pages} label="Pages, below" />
        </div>
      </div>
    </section>
    <datalist id="tags">${tags.map((tag) => html`<option value=${tag} />`)}</datalist>
  `;
}

/** Search, and open the plant with exactly this id, or the only one that is found. @param {On<HTMLFormElement>} event */
async function submit(event) {
  event.preventDefault();
  const loaded = searchTyped();
  event.currentTarget.querySelector("input")?.select(); // What is typed or scanned next replaces it.
  await loaded;
  const { search, isSearching, problem, listing, dialog } = state;
  const { plants = [], links } = listing ?? {};
  const only = plants.length === 1 && links?.size === 0 ? plants[0] : undefined;
  const found = plants.find(({ id }) => id === search.trim()) ?? only;
  if (!found || !search.trim() || isSearching || problem || dialog) return;
  await openPlant(`#/plants/${found.id}`);
  focus("#plant-title"); // A scanner may send more, which is for no field.
}

function Tools() {
  const { listing } = state;
  const listed = countPlants(listing?.total ?? 0, listing?.isExact);
  return html`
    <div class="tools">
      <form id="search-form" role="search" autocomplete="off" onsubmit=${submit}
          data-needs="plants:read">
        <label for="search" class="unseen">Search by name or id:</label>
        <input id="search" type="search" spellcheck=${false} placeholder="Name or id"
          aria-keyshortcuts="/" maxlength=${TEXT_MAX} value=${state.search} oninput=${type} />
      </form>
      <button id="add" type="button" class="primary" data-needs="plants:create"
        aria-keyshortcuts="n" onclick=${() => addPlants()}>Add a plant</button>
      <button type="button" data-needs="plants:create" onclick=${chooseImport}>Import</button>
      <${TagsButton} />
      <button type="button" class="menu" popovertarget="more" data-needs="plants:read">More</button>
      <div id="more" class="choices" popover onclick=${closePopover} data-needs="plants:read">
        <${ExportItems} many=${listed} />
        <button type="button" onclick=${() => print()}>Print</button>
        <button type="button" data-needs="plants:delete" onclick=${findDuplicates}>
          Find duplicates
        </button>
      </div>
    </div>
  `;
}

/** @param {{many: string, list?: () => Plant[]}} props the plants, otherwise those of the list */
function ExportItems({ many, list }) {
  const makeItem = (/** @type {"csv"|"xlsx"} */ kind, /** @type {string} */ name) => html`
    <button type="button" onclick=${() => exportPlants(kind, list?.())}>
      ${renew(`Export ${many} as ${name}`)}
    </button>
  `;
  return [makeItem("csv", "CSV"), makeItem("xlsx", "Excel")];
}

/** @param {Plant[]} [plants] otherwise those of the list */
const print = (plants) =>
  import("./printing.js").then((module) => module.askAndPrint(plants), sayMissing);

const findDuplicates = () =>
  import("./duplicates.js").then((module) => module.findDuplicates(), sayMissing);

const sayMissing = () => say("It cannot be loaded");

function Summary() {
  const { listing } = state;
  return html`
    <div class="line">
      <${Range} />
      <p id="count" role="status">${listing && countPlants(listing.total, listing.isExact)}</p>
      <${Chosen} />
      <${UndoButton} />
      ${
        isByName() &&
        html`<input id="begin" type="search" aria-label="Begin at" placeholder="Begin at"
          spellcheck=${false} maxlength=${TEXT_MAX} oninput=${beginAt}
          value=${state.from} />`
      }
      <${Pages} label="Pages, above" />
    </div>
  `;
}

/** The tag whose plants are shown: it can be left, or renamed. */
function Chosen() {
  const { shownQuery, listing } = state;
  const tag = shownQuery.get("tag");
  const name = entitle(select(shownQuery, ["tag", "untagged"]));
  if (tag === null && !name) return null;
  return html`
    <a id="chosen" class="chip" href=${addressOf(select(shownQuery, ["q"]))}
      aria-label="Leave ${name || "(empty)"}"><${PlantText} text=${name} /> ×</a>
    ${
      tag !== null &&
      Boolean(listing?.total) &&
      html`<button id="rename" type="button" data-needs="plants:update" onclick=${() => renameTag(tag)}>
        Rename tag
      </button>`
    }
  `;
}

/** The bar of the selection. It is above the page, which does not move, and the Tab key leads from the list to it. */
function Selected() {
  const { listing, selected } = state;
  const plants = [...selected.values()];
  if (!listing || plants.length === 0) return null;
  const shown = listing.plants.filter(({ id }) => selected.has(id)).length;
  const elsewhere = plants.length - shown;
  const isMore = plants.length < listing.total && shown > 0 && shown === listing.plants.length;
  const found = listing.isExact ? number(listing.total) : "";
  return html`
    <div id="selected" class="tools" role="group" aria-label="Selected plants">
      <span>
        ${renew(`${number(plants.length)} selected${elsewhere > 0 ? `, ${number(elsewhere)} not shown` : ""}`)}
      </span>
      ${isMore && html`<button type="button" onclick=${selectFound}>Select all ${found}</button>`}
      <button type="button" data-needs="plants:update" onclick=${() => tagPlants(plants)}>
        Set tag
      </button>
      <button type="button" popovertarget="export" data-needs="plants:read">Export</button>
      <div id="export" class="choices" popover onclick=${closePopover}>
        <${ExportItems} many=${countPlants(plants.length)} list=${listSelected} />
      </div>
      <button type="button" data-needs="plants:read" onclick=${() => print(listSelected())}>
        Print
      </button>
      <button type="button" data-needs="plants:delete" onclick=${() => deleteSelected(plants)}>
        Delete
      </button>
      <button type="button" onclick=${() => update({ selected: new Map() })}>Select none</button>
    </div>
  `;
}

/** Which of the plants are shown, if there are other pages. */
function Range() {
  const position = state.listing?.links.size && findPosition();
  if (!position) return null;
  const [first, last] = [position.first, position.last].map(number);
  return html`<span id="range">${renew(`${first}–${last} of`)}</span>`;
}

/** The links to other pages. */
function Pages(/** @type {{label: string}} */ { label }) {
  const links = state.listing?.links;
  const pages = [
    ["first", "First", "First page"],
    ["prev", "‹", "Previous page"],
    ["next", "›", "Next page"],
  ].map(([relation, text, name]) => {
    const href = links?.get(relation);
    return (
      href && html`<a key=${relation} rel=${relation} href=${href} aria-label=${name}>${text}</a>`
    );
  });
  const back = isByName() && findTurn("prev");
  if (back) {
    pages[1] = html`<button type="button" aria-label="Previous page" onclick=${back}>‹</button>`;
  }
  return html`<nav class="pages" aria-label=${label}>${pages}</nav>`;
}

function Nothing() {
  const { listing, shownQuery } = state;
  const next = listing?.links.get("next");
  const from = shownQuery.get("from") ?? "";
  const q = shownQuery.get("q");
  const isInTag = q !== null && (shownQuery.has("tag") || shownQuery.has("untagged"));
  if (next || from || SEARCHED.some((key) => shownQuery.has(key))) {
    return html`
      <div id="none" class="nothing">
        <p>
          ${from ? html`No names from <bdi>${from}</bdi> on.` : "No plants found."}
          ${" "}<a href=${addressOf({})}>Show all plants</a>
        </p>
        ${isInTag && html`<p><a href=${addressOf({ q })}>Search in all plants</a></p>`}
        ${next && html`<p>Not all plants were searched. <a href=${next}>Search on</a></p>`}
        <p class="hint" hidden=${q === null}>
          Words are found by their beginnings: also try fewer letters.
        </p>
      </div>
    `;
  }
  return html`
    <div id="start" class="nothing">
      <p>There are no plants yet.</p>
      <p class="tools" data-needs="plants:create">
        <button type="button" onclick=${() => addPlants()}>Add the first plant</button>
        <button type="button" onclick=${chooseImport}>Import plants</button>
      </p>
    </div>
  `;
}

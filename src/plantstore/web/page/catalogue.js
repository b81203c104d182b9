/** The catalogue: the list of plants, and what can be done with it. */

import { addressOf, describe, LISTED, SEARCHED, select, split } from "./address.js";
import { countPlants, number, PlantText, say } from "./elements.js";
import { describeProblem, exportPlants } from "./exporting.js";
import { html } from "./html.js";
import { ImportButtons, Importing } from "./importing.js";
import { findPosition, isByName, search, selectFound, type } from "./listing.js";
import { addPlants } from "./plant.js";
import { UndoButton } from "./sets.js";
import { deletePlants, renameTag, tagPlants } from "./several.js";
import { may, state, update } from "./state.js";
import { Table } from "./table.js";
import { TagList, TagsButton } from "./tags.js";

/** With how many letters of a text, at most, the names begin that are offered if it is not found. */
const BEGINNING = 3;

const LETTERS = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZ"];

export function Catalogue() {
  const { listing, problem, tags } = state;
  // What is below the list appears with the first rows: they would move it.
  const isLoaded = listing !== null || problem !== null;
  const isEmpty = listing?.plants.length === 0;
  return html`
    <${Importing} />
    <section aria-labelledby="plants-title">
      <h2 id="plants-title" class="unseen" tabindex="-1">Plants</h2>
      <${Tools} />
      <p id="export-error" class="error" role="alert">${describeProblem()}</p>
      <p id="listing-error" class="error" role=${problem?.isOutage ? null : "alert"}>
        ${problem?.message}
      </p>
      <div class="columns" data-needs="plants:read">
        <${TagList} />
        <div>
          <${Summary} />
          <${Letters} />
          <div id="table" hidden=${isEmpty}><${Table} /></div>
          ${isEmpty && html`<${Nothing} />`}
          <${Pages} label="Pages, below" />
        </div>
      </div>
      <p class="hint" data-needs="plants:create" hidden=${!isLoaded}>
        You can drop a CSV file or an Excel workbook anywhere on this page.
      </p>
      <p class="hint" hidden=${!isLoaded || may("changes:read")}>
        With this token, changes by others appear when you reload the page.
      </p>
    </section>
    <datalist id="tags">${tags.map((tag) => html`<option value=${tag} />`)}</datalist>
  `;
}

function Tools() {
  const open = () => update({ isFileOpen: !state.isFileOpen });
  const { selected, isFileOpen } = state;
  const { q, tag } = split(state.search);
  const texts = tag === undefined ? [] : state.tags.map((each) => `${q} tag:${each}`.trim());
  return html`
    <div class="tools">
      <form id="search-form" role="search" autocomplete="off" novalidate onsubmit=${search}
          data-needs="plants:read">
        <label for="search" class="unseen">Search by name, or by tag:</label>
        <input id="search" type="search" spellcheck=${false} placeholder="Name, or tag:Rosa"
          list="searches" value=${state.search} oninput=${type} />
        <datalist id="searches">${texts.map((text) => html`<option value=${text} />`)}</datalist>
      </form>
      <button id="add" type="button" class="primary" data-needs="plants:create"
        onclick=${() => addPlants()}>Add a plant</button>
      <${TagsButton} />
      <button id="files-button" type="button" class="chip" aria-expanded=${isFileOpen}
        aria-controls="files" onclick=${open}>File</button>
      <div id="files" class=${isFileOpen ? "open" : undefined}>
        <span class="making" data-needs="plants:create">
          <${ImportButtons} />
        </span>
        <button id="export" type="button" data-needs="plants:read"
          onclick=${() => exportPlants("csv")}>
          ${selected.size > 0 ? `Export ${number(selected.size)} selected` : "Export CSV"}
        </button>
        <button id="export-excel" type="button" data-needs="plants:read"
          onclick=${() => exportPlants("xlsx")}>
          ${selected.size > 0 ? `Export ${number(selected.size)} for Excel` : "Export Excel"}
        </button>
        <button id="print" type="button" data-needs="plants:read" onclick=${print}>
          ${selected.size > 0 ? `Print ${number(selected.size)} selected` : "Print"}
        </button>
      </div>
    </div>
  `;
}

const print = () =>
  import("./printing.js").then(
    (module) => module.askAndPrint(),
    () => say("It cannot be loaded"),
  );

function Summary() {
  const { listing } = state;
  return html`
    <div class="line">
      <${Range} />
      <p id="count" role="status">${listing && countPlants(listing.total, listing.isExact)}</p>
      <${Rename} />
      <${UndoButton} />
      <${Suggestion} />
      <${Selected} />
      <${Pages} label="Pages, above" />
    </div>
  `;
}

function Selected() {
  const { listing, selected } = state;
  const plants = [...selected.values()];
  if (!listing || plants.length === 0) return null;
  const shown = listing.plants.filter(({ id }) => selected.has(id)).length;
  const elsewhere = plants.length - shown;
  const isMore =
    shown > 0 &&
    shown === listing.plants.length &&
    listing.links.size > 0 &&
    state.selectedAll !== describe(state.shownQuery);
  const found = listing.isExact ? number(listing.total) : "";
  return html`
    <div id="selected" class="tools" role="group" aria-label="Selected plants">
      <span>
        ${number(plants.length)} selected${elsewhere > 0 && `, ${number(elsewhere)} not shown`}
      </span>
      ${isMore && html`<button type="button" onclick=${selectFound}>Select all ${found}</button>`}
      <button type="button" data-needs="plants:update" onclick=${() => tagPlants(plants)}>
        Set tag
      </button>
      <button type="button" data-needs="plants:delete" onclick=${() => deletePlants(plants)}>
        Delete
      </button>
      <button type="button" onclick=${() => update({ selected: new Map() })}>Select none</button>
    </div>
  `;
}

function Rename() {
  const tag = state.shownQuery.get("tag");
  if (tag === null || !state.listing?.total || state.selected.size > 0) return null;
  return html`
    <button id="rename" type="button" data-needs="plants:update" onclick=${() => renameTag(tag)}>
      Rename tag
    </button>
  `;
}

function Suggestion() {
  if (!state.suggestion) return null;
  const { tag, total, isExact } = state.suggestion;
  return html`
    <a id="by-tag" href=${addressOf({ tag })}>
      ${countPlants(total, isExact)} with the tag <${PlantText} text=${tag} />
    </a>
  `;
}

/** Which of the plants are shown, if there are other pages. */
function Range() {
  const position = state.listing?.links.size && findPosition();
  if (!position) return null;
  const [first, last] = [position.first, position.last].map(number);
  return html`<span id="range">${first}–${last} of</span>`;
}

/** The links to other pages. The list by name leads only on: back are the pages one came from. */
function Pages(/** @type {{label: string}} */ { label }) {
  const { listing, shownQuery } = state;
  const last = select(shownQuery, LISTED);
  last.set("last", "");
  const pages = [
    ["first", "First", "First page", listing?.links.get("first")],
    ["prev", "‹", "Previous page", listing?.links.get("prev")],
    ["next", "›", "Next page", listing?.links.get("next")],
    ["last", "Last", "Last page", listing?.links.has("next") && !isByName() && `?${last}`],
  ].map(
    ([relation, text, name, href]) =>
      href && html`<a key=${relation} rel=${relation} href=${href} aria-label=${name}>${text}</a>`,
  );
  if (isByName() && history.state?.isNext) {
    pages[1] = html`
      <button type="button" aria-label="Previous page" onclick=${() => history.back()}>‹</button>
    `;
  }
  return html`<nav class="pages" aria-label=${label}>${pages}</nav>`;
}

/** The letters, at which the list by name can begin. */
function Letters() {
  const { shownQuery } = state;
  if (!isByName()) return null;
  const links = LETTERS.map((from) => {
    const query = new URLSearchParams([...select(shownQuery, LISTED), ["from", from]]);
    const current = from === shownQuery.get("from") ? "true" : undefined;
    return html`<a href="?${query}" aria-current=${current}>${from}</a>`;
  });
  return html`<nav class="letters" aria-label="Letters">${links}</nav>`;
}

function Nothing() {
  const { listing, shownQuery } = state;
  const chooseImport = () => document.getElementById("file")?.click();
  const next = listing?.links.get("next");
  const from = shownQuery.get("from") ?? "";
  const beginning = [...(shownQuery.get("q") ?? "")].slice(0, -1).slice(0, BEGINNING).join("");
  if (next || from || SEARCHED.some((key) => shownQuery.has(key))) {
    const advice = shownQuery.has("tag")
      ? "A tag is found as a whole. Write words of names before it: alba tag:Rosa"
      : "Words are found by their beginnings: also try fewer letters.";
    const href = `?${new URLSearchParams({ sort: "name", from: beginning })}`;
    const offer = html`<a href=${href}>Show those that begin with <bdi>${beginning}</bdi></a>`;
    return html`
      <div id="none" class="nothing">
        <p>
          ${from ? html`No names from <bdi>${from}</bdi> on.` : "No plants found."}
          ${" "}<a href=${addressOf({})}>Show all plants</a>
        </p>
        ${next && html`<p>Not all plants were searched. <a href=${next}>Search on</a></p>`}
        ${beginning && html`<p>${offer}</p>`}
        <p class="hint" hidden=${from !== ""}>${advice}</p>
      </div>
    `;
  }
  return html`
    <div id="start" class="leafy nothing">
      <p>There are no plants yet.</p>
      <p class="tools" data-needs="plants:create">
        <button type="button" onclick=${() => addPlants()}>Add the first plant</button>
        <button type="button" onclick=${chooseImport}>Import a file</button>
      </p>
    </div>
  `;
}

/** The catalogue: the list of plants, and what can be done with it. */

import { countPlants, number, PlantText, say } from "./elements.js";
import { describeProblem, exportPlants } from "./exporting.js";
import { html } from "./html.js";
import { chooseFile, Importing } from "./importing.js";
import { describe, SELECTED_MAX, search, selectFound, split, type } from "./listing.js";
import { addPlants } from "./plant.js";
import { deletePlants, tagPlants } from "./several.js";
import { may, state, update } from "./state.js";
import { Table } from "./table.js";

/** The links to other pages of plants, by their relation. */
const PAGES = Object.entries({ first: "First page", prev: "Previous", next: "Next" });

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
      <div data-needs="plants:read">
        <${Summary} />
        <div id="table" hidden=${isEmpty}><${Table} /></div>
        ${isEmpty && html`<${Nothing} />`}
        <${Pages} label="Pages, below" />
      </div>
      <p class="hint" data-needs="plants:create" hidden=${!isLoaded}>
        You can drop a CSV file with the columns <code>id</code>, <code>name</code> and${" "}
        <code>tag</code> anywhere on this page.
      </p>
      <p class="hint" hidden=${!isLoaded || may("changes:read")}>
        With this token, changes by others appear when you reload the page.
      </p>
    </section>
    <datalist id="tags">${[...tags].map((tag) => html`<option value=${tag} />`)}</datalist>
  `;
}

function Tools() {
  const choose = () => update({ replaces: !state.replaces });
  const { selected } = state;
  const { q, tag } = split(state.search);
  const texts = tag === undefined ? [] : [...state.tags].map((each) => `${q} tag:${each}`.trim());
  return html`
    <div class="tools">
      <form id="search-form" role="search" autocomplete="off" novalidate onsubmit=${search}
          data-needs="plants:read">
        <label for="search" class="unseen">Search by name, or by tag:</label>
        <input id="search" type="search" spellcheck=${false} placeholder="Search names, or tag:Rosa"
          list="searches" value=${state.search} oninput=${type} />
        <datalist id="searches">${texts.map((text) => html`<option value=${text} />`)}</datalist>
      </form>
      <span class="making" data-needs="plants:create">
        <button id="add" type="button" class="primary" onclick=${() => addPlants()}>Add a plant</button>
        <label class="button">
          Import CSV <input id="file" type="file" accept=".csv,text/csv" onchange=${chooseFile} />
        </label>
        <label class="choice" data-needs="plants:update">
          <input type="checkbox" checked=${state.replaces} onchange=${choose} />
          ${" "}Update plants that exist
        </label>
      </span>
      <button id="export" type="button" data-needs="plants:read" onclick=${exportPlants}>
        ${selected.size > 0 ? `Export ${number(selected.size)} selected` : "Export CSV"}
      </button>
      <button id="print" type="button" data-needs="plants:read" onclick=${print}>Print</button>
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
      <p id="count" role="status">${listing && countPlants(listing.total, listing.isExact)}</p>
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
  const many = Math.min(listing.total, SELECTED_MAX);
  const isMore =
    shown > 0 &&
    shown === listing.plants.length &&
    listing.links.size > 0 &&
    state.selectedAll !== describe(state.shownQuery);
  const found =
    many < listing.total || !listing.isExact ? `the first ${number(many)}` : `all ${number(many)}`;
  return html`
    <div id="selected" class="tools" role="group" aria-label="Selected plants">
      <span>
        ${number(plants.length)} selected${elsewhere > 0 && `, ${number(elsewhere)} not shown`}
      </span>
      ${isMore && html`<button type="button" onclick=${selectFound}>Select ${found}</button>`}
      <button type="button" data-needs="plants:update" disabled=${state.job !== null}
        onclick=${() => tagPlants(plants)}>
        Set tag
      </button>
      <button type="button" data-needs="plants:delete" disabled=${state.job !== null}
        onclick=${() => deletePlants(plants)}>
        Delete
      </button>
      <button type="button" onclick=${() => update({ selected: new Map() })}>Select none</button>
    </div>
  `;
}

function Suggestion() {
  if (!state.suggestion) return null;
  const { tag, total, isExact } = state.suggestion;
  return html`
    <a id="by-tag" href="?${new URLSearchParams({ tag })}">
      ${countPlants(total, isExact)} with the tag <${PlantText} text=${tag} />
    </a>
  `;
}

/** @param {{label: string}} props */
function Pages({ label }) {
  const links = PAGES.map(([relation, text]) => {
    const href = state.listing?.links.get(relation);
    return href && html`<a key=${relation} rel=${relation} href=${href}>${text}</a>`;
  });
  return html`<nav class="pages" aria-label=${label}>${links}</nav>`;
}

function Nothing() {
  const chooseImport = () => document.getElementById("file")?.click();
  if ([...state.shownQuery.keys()].some((key) => key !== "order")) {
    const advice = state.shownQuery.has("tag")
      ? "A tag is found as a whole. Write words of names before it: alba tag:Rosa"
      : "Words are found by their beginnings: also try fewer letters.";
    return html`
      <div id="none" class="nothing">
        <p>No plants found. <a href="?">Show all plants</a></p>
        <p class="hint">${advice}</p>
      </div>
    `;
  }
  return html`
    <div id="start" class="nothing">
      <p>There are no plants yet.</p>
      <p class="tools" data-needs="plants:create">
        <button type="button" onclick=${() => addPlants()}>Add the first plant</button>
        <button type="button" onclick=${chooseImport}>Import a CSV file</button>
      </p>
    </div>
  `;
}

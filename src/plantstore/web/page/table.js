/** The table of plants. */

import { addressOf, SEARCHED, select } from "./address.js";
import { PlantText } from "./elements.js";
import { html } from "./html.js";
import { go, isByName, pick } from "./listing.js";
import { state, update } from "./state.js";

/** @typedef {import("./client.js").Plant} Plant */

/** How the ids are sorted in an order. */
const DIRECTIONS = /** @type {Record<string, string>} */ ({ id: "ascending", "-id": "descending" });

export function Table() {
  const plants = state.listing?.plants ?? [];
  const isStale = state.problem !== null || state.outage !== "";
  return html`
    <table id="listing" role="table" aria-labelledby="plants-title" aria-busy=${state.isLoading}
        class=${isStale ? "stale" : ""}>
      <thead role="rowgroup"><${Head} plants=${plants} /></thead>
      <tbody id="plants" role="rowgroup">
        ${plants.map((plant) => html`<${Row} key=${plant.id} plant=${plant} />`)}
      </tbody>
    </table>
  `;
}

/** @param {{plants: Plant[]}} props */
function Head({ plants }) {
  const many = plants.filter(({ id }) => state.selected.has(id)).length;
  const isAll = many > 0 && many === plants.length;
  const sort = state.shownQuery.get("sort") ?? "id";
  return html`
    <tr role="row">
      <th role="columnheader" scope="col" class="pick">
        <input type="checkbox" aria-label="Select all of this page" checked=${isAll}
          indeterminate=${many > 0 && !isAll} onchange=${() => pick(plants, !isAll)} />
      </th>
      <th role="columnheader" scope="col" class="id" aria-sort=${DIRECTIONS[sort]}>
        <button type="button" onclick=${() => sortBy(sort === "id" ? "-id" : "id")}>Id</button>
      </th>
      <th role="columnheader" scope="col" class="name"
          aria-sort=${isByName() ? "ascending" : undefined}>
        <button type="button" onclick=${() => sortBy("name")}>Name</button>
      </th>
      <th role="columnheader" scope="col" class="tag">Tag</th>
    </tr>
  `;
}

/** Show the list from its beginning in an order. @param {string} sort */
function sortBy(sort) {
  const query = select(state.shownQuery, SEARCHED);
  if (sort !== "id") query.set("sort", sort);
  go(`?${query}`);
}

/** The list is one stop of the Tab key: the keyboard moves between its rows. @param {{plant: Plant}} props */
function Row({ plant }) {
  const { id, name, tag = "" } = plant;
  const enter = () => {
    state.current = id;
    queueMicrotask(update); // A dialog that is closed returns the focus while the page is rendered.
  };
  return html`
    <tr role="row" data-id=${id} onfocusin=${enter}>
      <td role="cell" class="pick">
        <input type="checkbox" aria-label="Select plant ${id}" checked=${state.selected.has(id)}
          tabindex="-1"
          onclick=${(/** @type {On<HTMLInputElement, MouseEvent>} */ event) => pickOne(event, id)} />
      </td>
      <td role="cell" class="id"><bdi>${id}</bdi></td>
      <th role="rowheader" scope="row" class="name">
        <a href="#/plants/${id}" tabindex=${id === state.current ? 0 : -1}><${PlantText} text=${name} /></a>
      </th>
      <td role="cell" class="tag">
        ${plant.tag !== undefined && html`<a href=${addressOf({ tag })} tabindex="-1"><${PlantText} text=${tag} /></a>`}
      </td>
    </tr>
  `;
}

/**
 * Select a plant, or no longer; with the key Shift, also those between it and the last one.
 *
 * @param {On<HTMLInputElement, MouseEvent>} event @param {string} id
 */
function pickOne({ shiftKey, currentTarget }, id) {
  const plants = state.listing?.plants ?? [];
  const [last, present] = [state.picked, id].map((each) =>
    plants.findIndex((plant) => plant.id === each),
  );
  const first = shiftKey && last >= 0 ? last : present;
  state.picked = id;
  pick(plants.slice(Math.min(first, present), Math.max(first, present) + 1), currentTarget.checked);
}

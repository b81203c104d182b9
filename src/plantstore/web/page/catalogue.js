/** The list of plants, in pages. The address has the page and the tag of the filter. */

import { copyTemplate, element, within } from "./elements.js";
import { ApiError } from "./requests.js";

/** @typedef {import("./client.js").Plant} Plant */

const PLANTS_A_PAGE = 50;

/** A longer tag is not a link: the address would be too long for the service. */
const LINKED_CHARACTERS_MAX = 1000;

export class Catalogue {
  #client;
  #act;
  #loading = new AbortController();

  /**
   * @param {import("./client.js").Client} client
   * @param {(act: "change"|"delete", plant: Plant) => void} act is called
   *   when a button is pressed
   */
  constructor(client, act) {
    this.#client = client;
    this.#act = act;
    element("filter").onsubmit = (event) => this.#filter(event);
    element("catalogue").onclick = (event) => this.#follow(event);
    window.onpopstate = () => this.show();
  }

  /** Load and show the page of the address. */
  async show() {
    this.#loading.abort();
    this.#loading = new AbortController();
    const { signal } = this.#loading;
    const query = new URLSearchParams(location.search);
    const [tag, after] = [query.get("tag"), query.get("after")];
    element("filter-tag", HTMLInputElement).value = tag ?? "";
    element("listing").ariaBusy = "true";
    /** @type {{plants: Plant[], next: ?string}} */
    let page = { plants: [], next: null };
    let problem = "";
    try {
      page = await this.#client.list({ tag, after, limit: PLANTS_A_PAGE }, signal);
    } catch (error) {
      if (signal.aborted) return; // Another page is loading.
      if (!(error instanceof ApiError)) throw error;
      problem = error.message;
    }
    element("listing").ariaBusy = "false";
    element("listing-error").textContent = problem;
    element("none").hidden = page.plants.length > 0 || problem !== "";
    this.#lay(page.plants);
    this.#lead(tag, after, page.next);
  }

  /**
   * Show the rows of plants, and keep the focus at the same plant.
   *
   * @param {Plant[]} plants
   */
  #lay(plants) {
    const focused = document.activeElement?.closest("#plants :is(button, a)");
    const id = focused?.closest("tr")?.dataset.id;
    element("plants").replaceChildren(...plants.map((plant) => this.#makeRow(plant)));
    if (!focused) return;
    const value = focused.getAttribute("value");
    const kind = value ? `button[value="${value}"]` : "a[href]";
    const same = document.querySelector(`#plants tr[data-id="${id}"] ${kind}`);
    (same instanceof HTMLElement ? same : element("plants-title")).focus();
  }

  /** @param {Plant} plant */
  #makeRow(plant) {
    const row = copyTemplate("row");
    within(row, "tr").dataset.id = plant.id;
    within(row, ".id").textContent = plant.id;
    fill(within(row, ".name bdi"), plant.name);
    const tag = within(row, ".tag a", HTMLAnchorElement);
    if (plant.tag === undefined) tag.remove();
    else {
      fill(within(tag, "bdi"), plant.tag);
      if (plant.tag.length <= LINKED_CHARACTERS_MAX) {
        tag.href = `?${new URLSearchParams({ tag: plant.tag })}`;
      }
    }
    for (const act of /** @type {const} */ (["change", "delete"])) {
      const button = within(row, `button[value=${act}]`);
      within(button, ".unseen").textContent = ` plant ${plant.id}`;
      button.onclick = () => this.#act(act, plant);
    }
    return row;
  }

  /**
   * Show the links to the other pages.
   *
   * @param {?string} tag
   * @param {?string} after
   * @param {?string} next
   */
  #lead(tag, after, next) {
    /** @param {Record<string, string>} query */
    const way = (query) => `?${new URLSearchParams(tag === null ? query : { tag, ...query })}`;
    /** @param {string} id @param {string} href @param {boolean} isShown */
    const lay = (id, href, isShown) => {
      element(id).hidden = !isShown;
      element(id, HTMLAnchorElement).href = href;
    };
    const trail = history.state?.trail ?? [];
    element("all").hidden = tag === null;
    lay("first", way({}), after !== null);
    lay("previous", trail.at(-1) ?? "?", after !== null && trail.length > 0);
    lay("next", way({ after: next ?? "" }), next !== null);
  }

  /** @param {SubmitEvent} event */
  #filter(event) {
    event.preventDefault();
    const tag = element("filter-tag", HTMLInputElement).value;
    this.#go(tag === "" ? "?" : `?${new URLSearchParams({ tag })}`, []);
  }

  /**
   * Follow a link to a page of plants without reloading the document.
   *
   * @param {MouseEvent} event
   */
  #follow(event) {
    const link = event.target instanceof Element && event.target.closest("a[href^='?']");
    if (!(link instanceof HTMLAnchorElement)) return;
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const trail = history.state?.trail ?? [];
    if (link.rel === "next") this.#go(link.search, [...trail, location.search || "?"]);
    else this.#go(link.search || "?", link.rel === "prev" ? trail.slice(0, -1) : []);
  }

  /**
   * @param {string} query of the page to show
   * @param {string[]} trail the queries of the pages before it
   */
  #go(query, trail) {
    if (query !== (location.search || "?")) history.pushState({ trail }, "", query);
    element("said").textContent = "";
    element("export-error").textContent = "";
    element("plants-title").focus();
    this.show();
  }
}

/**
 * Show a text, or "(empty)" for an empty one.
 *
 * @param {HTMLElement} place
 * @param {string} text
 */
function fill(place, text) {
  place.textContent = text || "(empty)";
  place.classList.toggle("empty", text === "");
}

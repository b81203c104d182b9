/** The list of plants, in pages. The address has the page, and the text or the tag searched for. */

import { copyTemplate, countPlants, element, entitle, fill, within } from "./elements.js";
import { ApiError } from "./requests.js";
import { settle } from "./toast.js";

/** @typedef {import("./client.js").Plant} Plant */

const PLANTS_A_PAGE = 50;

/** How long nothing must be typed before the search begins. */
const TYPING_SECONDS = 0.12;

/** A longer tag is not a link: the address would be too long for the service. */
const LINKED_CHARACTERS_MAX = 1000;

const PARAMETERS = ["q", "tag", "after", "before", "order"];

export class Catalogue {
  /** Whether the service was away when the list was to be loaded. */
  isStale = false;

  #client;
  #menu;
  #selection;
  #loading = new AbortController();
  #typing = 0;

  /**
   * @param {import("./client.js").Client} client
   * @param {import("./menu.js").RowMenu} menu of each row
   * @param {import("./selection.js").Selection} selection of rows
   */
  constructor(client, menu, selection) {
    this.#client = client;
    this.#menu = menu;
    this.#selection = selection;
    element("search").oninput = () => {
      this.#loading.abort();
      clearTimeout(this.#typing);
      this.#typing = setTimeout(() => this.#search(), TYPING_SECONDS * 1000);
    };
    element("search-form").onsubmit = (event) => {
      event.preventDefault();
      this.#search();
    };
    element("catalogue").onclick = (event) => this.#follow(event);
  }

  /** The query of the address. */
  get query() {
    const query = new URLSearchParams(location.search);
    return new URLSearchParams([...query].filter(([key]) => PARAMETERS.includes(key)));
  }

  /** Load and show the page of the address. */
  async show() {
    clearTimeout(this.#typing);
    this.#loading.abort();
    this.#loading = new AbortController();
    const { signal } = this.#loading;
    const { query } = this;
    const search = element("search", HTMLInputElement);
    const text = describe(query);
    if (String(parseSearch(search.value)) !== String(parseSearch(text))) search.value = text;
    if (!document.querySelector("dialog[open]")) entitle(text || "Plants");
    element("listing").ariaBusy = "true";
    /** @type {?import("./client.js").Listing} */
    let page = null;
    let problem = "";
    this.isStale = false;
    try {
      page = await this.#client.list(query, PLANTS_A_PAGE, signal);
    } catch (error) {
      if (signal.aborted) return; // Another page is loading.
      if (!(error instanceof ApiError)) throw error;
      problem = error.message;
      this.isStale = error.status === 0 || error.status >= 500;
    }
    element("listing").ariaBusy = "false";
    element("listing-error").textContent = problem;
    element("by-tag").hidden = true;
    this.#lay(page?.plants ?? []);
    lead(page?.links ?? new Map(), query);
    sumUp(page, query);
    element("catalogue").classList.add("loaded");
    if (page && query.has("q")) this.#suggest(query.get("q") ?? "", page.plants, signal);
  }

  /**
   * Show the rows of plants, and keep the focus at the same plant.
   *
   * @param {Plant[]} plants
   */
  #lay(plants) {
    const focused = document.activeElement?.closest("#plants :is(td, th)");
    const id = focused?.closest("tr")?.dataset.id;
    this.#selection.clear();
    element("plants").replaceChildren(...plants.map((plant) => this.#makeRow(plant)));
    element("listing").classList.toggle(
      "wide",
      plants.some((plant) => plant.id.length > 10),
    );
    if (!focused) return;
    const place = `#plants tr[data-id="${id}"] .${focused.className} :is(a[href], button, input)`;
    const same = document.querySelector(place);
    (same instanceof HTMLElement ? same : element("plants-title")).focus();
  }

  /** @param {Plant} plant */
  #makeRow(plant) {
    const row = copyTemplate("row");
    within(row, "tr").dataset.id = plant.id;
    within(row, ".id").textContent = plant.id;
    within(row, ".name a", HTMLAnchorElement).href = `#/plants/${plant.id}`;
    fill(within(row, ".name bdi"), plant.name);
    const tag = within(row, ".tag a", HTMLAnchorElement);
    if (plant.tag === undefined) tag.remove();
    else {
      fill(within(tag, "bdi"), plant.tag);
      if (plant.tag.length <= LINKED_CHARACTERS_MAX) {
        tag.href = `?${new URLSearchParams({ tag: plant.tag })}`;
      }
    }
    this.#menu.attach(within(row, ".acts button", HTMLButtonElement), plant);
    this.#selection.attach(within(row, ".pick input", HTMLInputElement), plant);
    return row;
  }

  /**
   * Offer the plants of a tag, if the text that was searched in the names is also a tag.
   *
   * @param {string} text
   * @param {Plant[]} found
   * @param {AbortSignal} signal
   */
  async #suggest(text, found, signal) {
    const typed = text.trim().toLowerCase();
    const tag = found.find((plant) => plant.tag?.toLowerCase() === typed)?.tag ?? text.trim();
    const query = new URLSearchParams({ tag });
    try {
      const { total, isExact } = await this.#client.list(query, 1, signal);
      const many = countPlants(total, isExact ? "" : " or more");
      element("by-tag", HTMLAnchorElement).href = `?${query}`;
      fill(within(element("by-tag"), "bdi"), tag);
      within(element("by-tag"), "span").textContent = many;
      element("by-tag").hidden = total === 0;
    } catch (error) {
      if (!signal.aborted && !(error instanceof ApiError)) throw error;
    }
  }

  /** Search for what is typed. All of it is one step in the history of the tab. */
  #search() {
    const query = parseSearch(element("search", HTMLInputElement).value);
    const order = this.query.get("order");
    if (order) query.set("order", order);
    const isTyping = history.state?.isTyping;
    history[isTyping ? "replaceState" : "pushState"]({ isTyping: true }, "", `?${query}`);
    this.#move();
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
    const query = link.search || "?";
    if (query !== (location.search || "?")) history.pushState({}, "", query);
    element("plants-title").focus();
    this.#move();
  }

  #move() {
    settle();
    element("export-error").textContent = "";
    this.show();
  }
}

/**
 * Return the query of a text that was typed: `tag:Rosa`, or words of names.
 *
 * @param {string} text
 */
function parseSearch(text) {
  const tag = /^\s*tag:(.*)$/is.exec(text)?.[1];
  if (tag !== undefined) return new URLSearchParams({ tag: tag.trim() });
  return new URLSearchParams(text.trim() === "" ? {} : { q: text.trim() });
}

/**
 * Return the text that stands for a query in the search box.
 *
 * @param {URLSearchParams} query
 */
function describe(query) {
  const tag = query.get("tag");
  return tag === null ? (query.get("q") ?? "") : `tag:${tag}`;
}

/**
 * Show the links to the other pages, above and below the list, and to the other order.
 *
 * @param {Map<string, string>} links
 * @param {URLSearchParams} query
 */
function lead(links, query) {
  /** @type {NodeListOf<HTMLAnchorElement>} */
  const places = document.querySelectorAll(".pages a");
  for (const place of places) {
    const page = links.get(place.rel);
    place.hidden = page === undefined;
    place.href = page ?? "?";
  }
  const isDescending = query.get("order") === "-id";
  const other = new URLSearchParams([...query].filter(([key]) => key === "q" || key === "tag"));
  if (!isDescending) other.set("order", "-id");
  element("order", HTMLAnchorElement).href = `?${other}`;
  const column = element("order").closest("th");
  if (column) column.ariaSort = isDescending ? "descending" : "ascending";
}

/**
 * Show how many plants there are, and what can be done if there are none.
 *
 * @param {?import("./client.js").Listing} page
 * @param {URLSearchParams} query
 */
function sumUp(page, query) {
  element("count").textContent = page
    ? countPlants(page.total, page.isExact ? "" : " or more")
    : "";
  const isEmpty = page?.plants.length === 0;
  const isAll = [...query.keys()].every((key) => key === "order");
  element("none").hidden = !isEmpty || isAll;
  element("start").hidden = !isEmpty || !isAll;
  element("table").hidden = isEmpty;
}

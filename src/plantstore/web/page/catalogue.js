/** The list of plants, in pages. The address has the page and the tag of the filter. */

import { ApiError } from "./client.js";

const PLANTS_A_PAGE = 50;

/** A longer tag is not a link: the address would be too long for the service. */
const LINKED_CHARACTERS_MAX = 1000;

const element = (id) => document.getElementById(id);

export class Catalogue {
  #client;
  #act;
  #loading = new AbortController();

  /**
   * @param {import("./client.js").Client} client
   * @param {(act: "change"|"delete", plant: import("./client.js").Plant) => void} act is called
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
    const { signal } = (this.#loading = new AbortController());
    const query = new URLSearchParams(location.search);
    const [tag, after] = [query.get("tag"), query.get("after")];
    element("filter-tag").value = tag ?? "";
    element("listing").ariaBusy = "true";
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

  /** Show the rows of plants, and keep the focus at the same plant. */
  #lay(plants) {
    const focused = document.activeElement.closest("#plants :is(button, a)");
    const id = focused?.closest("tr").dataset.id;
    element("plants").replaceChildren(...plants.map((plant) => this.#makeRow(plant)));
    if (!focused) return;
    const kind = focused.value ? `button[value="${focused.value}"]` : "a[href]";
    const same = document.querySelector(`#plants tr[data-id="${id}"] ${kind}`);
    (same ?? element("plants-title")).focus();
  }

  #makeRow(plant) {
    const row = element("row").content.cloneNode(true);
    row.querySelector("tr").dataset.id = plant.id;
    row.querySelector(".id").textContent = plant.id;
    fill(row.querySelector(".name bdi"), plant.name);
    const tag = row.querySelector(".tag a");
    if (plant.tag === undefined) tag.remove();
    else {
      fill(tag.firstChild, plant.tag);
      if (plant.tag.length <= LINKED_CHARACTERS_MAX) {
        tag.href = `?${new URLSearchParams({ tag: plant.tag })}`;
      }
    }
    for (const button of row.querySelectorAll("button")) {
      button.querySelector(".unseen").textContent = ` plant ${plant.id}`;
      button.onclick = () => this.#act(button.value, plant);
    }
    return row;
  }

  /** Show the links to the other pages. */
  #lead(tag, after, next) {
    const way = (query) => `?${new URLSearchParams(tag === null ? query : { tag, ...query })}`;
    const trail = history.state?.trail ?? [];
    element("all").hidden = tag === null;
    element("first").hidden = after === null;
    element("first").href = way({});
    element("previous").hidden = after === null || trail.length === 0;
    element("previous").href = trail.at(-1) ?? "?";
    element("next").hidden = next === null;
    element("next").href = way({ after: next });
  }

  #filter(event) {
    event.preventDefault();
    const tag = element("filter-tag").value;
    this.#go(tag === "" ? "?" : `?${new URLSearchParams({ tag })}`, []);
  }

  /** Follow a link to a page of plants without reloading the document. */
  #follow(event) {
    const link = event.target.closest("a[href^='?']");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const trail = history.state?.trail ?? [];
    if (link.rel === "next") this.#go(link.search, [...trail, location.search || "?"]);
    else this.#go(link.getAttribute("href"), link.rel === "prev" ? trail.slice(0, -1) : []);
  }

  #go(query, trail) {
    if (query !== (location.search || "?")) history.pushState({ trail }, "", query);
    element("said").textContent = "";
    element("plants-title").focus();
    this.show();
  }
}

/** Show a text, or "(empty)" for an empty one. */
function fill(place, text) {
  place.textContent = text || "(empty)";
  place.classList.toggle("empty", text === "");
}

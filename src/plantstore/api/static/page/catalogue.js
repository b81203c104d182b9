/** The plants, page by page. Which page, and of which tag, stands in the address. */

import { ApiError } from "./client.js";

const PLANTS_A_PAGE = 50;

const element = (id) => document.getElementById(id);

export class Catalogue {
  #client;
  #act;
  #loading = new AbortController();

  /**
   * @param {import("./client.js").Client} client
   * @param {(act: "change"|"delete", plant: import("./client.js").Plant) => void} act is called
   *   when that is asked for
   */
  constructor(client, act) {
    this.#client = client;
    this.#act = act;
    element("filter").onsubmit = (event) => this.#filter(event);
    element("catalogue").onclick = (event) => this.#follow(event);
    window.onpopstate = () => this.show();
  }

  /** Show the page that the address names. Return whether it is there. */
  async show() {
    this.#loading.abort();
    const { signal } = (this.#loading = new AbortController());
    const query = new URLSearchParams(location.search);
    const [tag, after] = [query.get("tag"), query.get("after")];
    try {
      const page = await this.#client.list({ tag, after, limit: PLANTS_A_PAGE }, signal);
      this.#render(page.plants);
      this.#lead(tag, after, page.next);
      element("listing-error").textContent = "";
      return true;
    } catch (error) {
      if (signal.aborted) return false; // Another page is on its way.
      if (!(error instanceof ApiError)) throw error;
      this.#render([]);
      this.#lead(tag, after, null);
      element("none").hidden = true;
      element("listing-error").textContent = error.message;
      return false;
    }
  }

  /** Show nothing. */
  clear() {
    this.#loading.abort();
    this.#render([]);
  }

  #render(plants) {
    const rows = plants.map((plant) => this.#makeRow(plant));
    element("plants").replaceChildren(...rows);
    element("none").hidden = plants.length > 0;
  }

  #makeRow(plant) {
    const row = element("row").content.cloneNode(true);
    row.querySelector(".id").textContent = plant.id;
    row.querySelector(".name bdi").textContent = plant.name;
    const tag = row.querySelector(".tag a");
    if (plant.tag === undefined) tag.remove();
    else {
      tag.href = `?${new URLSearchParams({ tag: plant.tag })}`;
      tag.classList.toggle("empty", plant.tag === "");
      tag.firstChild.textContent = plant.tag || "(empty)";
    }
    for (const button of row.querySelectorAll("button")) {
      button.querySelector(".unseen").textContent = ` plant ${plant.id}`;
      button.onclick = () => this.#act(button.value, plant);
    }
    return row;
  }

  /** Lay the ways to the other pages. */
  #lead(tag, after, next) {
    const way = (query) => `?${new URLSearchParams(tag === null ? query : { tag, ...query })}`;
    const trail = history.state?.trail ?? [];
    element("filter-tag").value = tag ?? "";
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

  /** Follow a link to a page of plants without loading this one anew. */
  #follow(event) {
    const link = event.target.closest("a[href^='?']");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const trail = history.state?.trail ?? [];
    if (link.rel === "next") this.#go(link.search, [...trail, location.search || "?"]);
    else this.#go(link.getAttribute("href"), link.rel === "prev" ? trail.slice(0, -1) : []);
  }

  async #go(query, trail) {
    history.pushState({ trail }, "", query);
    if (await this.show()) element("plants-title").focus();
  }
}

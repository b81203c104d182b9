/** The selected rows, and what can be done with all of them. */

import { element } from "./elements.js";

/** @typedef {import("./client.js").Plant} Plant */

export class Selection {
  /** The plants of the page, by their checkboxes. @type {Map<HTMLInputElement, Plant>} */
  #plants = new Map();
  #all = element("select-all", HTMLInputElement);

  /** @param {(what: "tag"|"delete", plants: Plant[]) => void} act is called for each choice */
  constructor(act) {
    element("set-tag").onclick = () => act("tag", this.#selected());
    element("delete-selected").onclick = () => act("delete", this.#selected());
    this.#all.onchange = () => {
      for (const box of this.#plants.keys()) box.checked = this.#all.checked;
      this.#show();
    };
  }

  /** Begin a page, on which nothing is selected. */
  clear() {
    this.#plants.clear();
    this.#show();
  }

  /**
   * Let a checkbox select a plant.
   *
   * @param {HTMLInputElement} box
   * @param {Plant} plant
   */
  attach(box, plant) {
    box.ariaLabel = `Select plant ${plant.id}`;
    box.onchange = () => this.#show();
    this.#plants.set(box, plant);
  }

  #selected() {
    return [...this.#plants].flatMap(([box, plant]) => (box.checked ? [plant] : []));
  }

  #show() {
    const many = this.#selected().length;
    element("selected").hidden = many === 0;
    element("selected-count").textContent = `${many} selected`;
    this.#all.checked = many > 0 && many === this.#plants.size;
    this.#all.indeterminate = many > 0 && many < this.#plants.size;
  }
}

/** The menu of a row: one menu, which opens at the button that was pressed. */

import { element, within } from "./elements.js";

/** @typedef {import("./client.js").Plant} Plant */

export class RowMenu {
  #menu = element("actions");
  /** @type {?Plant} */
  #plant = null;

  /** @param {(what: "change"|"delete", plant: Plant) => void} act is called for each choice */
  constructor(act) {
    for (const what of /** @type {const} */ (["change", "delete"])) {
      within(this.#menu, `[value=${what}]`).onclick = () => {
        this.#menu.hidePopover(); // The focus returns to the button of the row.
        if (this.#plant) act(what, this.#plant);
      };
    }
  }

  /**
   * Let a button open the menu for a plant.
   *
   * @param {HTMLButtonElement} button
   * @param {Plant} plant
   */
  attach(button, plant) {
    button.ariaLabel = `Actions for plant ${plant.id}`;
    button.popoverTargetElement = this.#menu;
    button.onclick = () => {
      this.#plant = plant;
      for (const name of this.#menu.querySelectorAll(".unseen")) {
        name.textContent = ` plant ${plant.id}`;
      }
      const { right, top, bottom } = button.getBoundingClientRect();
      const opensUpwards = bottom > window.innerHeight * 0.75;
      this.#menu.style.left = `${right + window.scrollX}px`;
      this.#menu.style.top = `${(opensUpwards ? top : bottom) + window.scrollY}px`;
      this.#menu.classList.toggle("upwards", opensUpwards);
    };
  }
}

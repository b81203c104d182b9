/**
 * The keyboard. Keys without Ctrl act only while the list has the focus (WCAG 2.1.4): the arrows
 * move, and select with Shift, Space selects, / searches, also from a button, and n adds a plant. Enter
 * opens a plant, since names are links.
 */

import { focus, isTextField } from "./elements.js";
import { findTurn, pick, showTyped, turn } from "./listing.js";
import { addPlants } from "./plant.js";
import { undoLast } from "./sets.js";
import { may, state } from "./state.js";

/** The elements from which the arrow down leads to the first plant. */
const ABOVE = "#search, #plants-title, #listing";

/** The list with its heading, which has the focus after a sign-in. */
const LIST = "#plants-title, #listing";

/** Act on a key that was pressed anywhere on the page. @param {KeyboardEvent} event */
export function press(event) {
  const target = /** @type {Element} */ (event.target);
  if (state.dialog || state.question || event.defaultPrevented) return;
  const { key, shiftKey, altKey } = event;
  const isUndo = key === "z" && !shiftKey && !isTextField(target) && state.isSignedIn;
  const isCommand = event.ctrlKey || event.metaKey;
  const act = isCommand ? isUndo && undoLast : !altKey && findAct(event, target);
  if (!act) return;
  event.preventDefault();
  act();
}

/** Return what a key does in the list, or on the way into it. @param {KeyboardEvent} event @param {Element} target */
function findAct({ key, shiftKey }, target) {
  const row = target.closest("#plants tr");
  const box = row?.querySelector("input");
  if (key === "ArrowDown" && target.closest(ABOVE)) {
    if (!row) return enterList;
    const next = row.nextElementSibling;
    return next
      ? () => move(row, next, shiftKey)
      : findTurn("next") && (() => enterPage("next", row));
  }
  if (key === "ArrowUp" && row) {
    const previous = row.previousElementSibling;
    if (previous) return () => move(row, previous, shiftKey);
    return findTurn("prev") ? () => enterPage("prev", row) : () => focus("#search");
  }
  if (key === " " && box && target !== box) {
    return () => box.dispatchEvent(new MouseEvent("click", { shiftKey, bubbles: true }));
  }
  if (key === "/" && target.closest(`${LIST}, button`)) return selectSearch;
  return target.closest(LIST) && key === "n" && may("plants:create") && addPlants;
}

/** Go to the first row, as soon as the list shows what is typed. */
async function enterList() {
  const { activeElement } = document;
  const isShown = await showTyped();
  // The user may have gone elsewhere.
  if (isShown && document.activeElement === activeElement)
    enter(document.querySelector("#plants tr"));
}

/** Go to the row beside one, on another page. @param {string} relation @param {Element} row */
async function enterPage(relation, row) {
  const plant = await turn(relation, row.getAttribute("data-id") ?? "");
  if (plant) enter(document.querySelector(`#plants [data-id="${plant.id}"]`));
}

/** Go to another row; with the key Shift, select both. @param {Element} row @param {Element} next @param {boolean} isPicking */
function move(row, next, isPicking) {
  const ids = [row, next].map((each) => each.getAttribute("data-id"));
  const plants = state.listing?.plants.filter(({ id }) => ids.includes(id)) ?? [];
  if (isPicking && row.querySelector("input")) pick(plants);
  enter(next);
}

/** Go to the search. What is typed replaces its text. */
function selectSearch() {
  focus("#search");
  /** @type {?HTMLInputElement} */ (document.querySelector("#search"))?.select();
}

/** @param {?Element} row gets the focus */
function enter(row) {
  row?.querySelector("a")?.focus();
}

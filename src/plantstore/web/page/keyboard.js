/**
 * The keyboard. Keys without Ctrl act only while the list has the focus (WCAG 2.1.4): the arrows
 * move, Space selects, / searches, and n adds a plant. Enter opens a plant, since names are links.
 */

import { focus, isTextField } from "./elements.js";
import { findTurn } from "./listing.js";
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
  const isCommand = event.ctrlKey || event.metaKey;
  const act = isCommand ? findCommand(event, target) : event.altKey || findAct(event, target);
  if (typeof act !== "function") return;
  event.preventDefault();
  act();
}

/** @param {KeyboardEvent} event @param {Element} target */
function findCommand({ key, shiftKey }, target) {
  return key === "z" && !shiftKey && !isTextField(target) && state.isSignedIn && undoLast;
}

/** Return what a key does in the list, or on the way into it. @param {KeyboardEvent} event @param {Element} target */
function findAct({ key, shiftKey }, target) {
  const row = target.closest("#plants tr");
  const box = row?.querySelector("input");
  if (key === "ArrowDown" && target.closest(ABOVE)) {
    const next = row ? row.nextElementSibling : document.querySelector("#plants tr");
    return next ? () => enter(next) : turnPage("next", "#plants tr");
  }
  if (key === "ArrowUp" && row) {
    const previous = row.previousElementSibling;
    if (previous) return () => enter(previous);
    return turnPage("prev", "#plants tr:last-child") ?? (() => focus("#search"));
  }
  if (key === " " && box && target !== box) {
    return () => box.dispatchEvent(new MouseEvent("click", { shiftKey, bubbles: true }));
  }
  if (!target.closest(LIST)) return undefined;
  if (key === "/") return () => focus("#search");
  return key === "n" && may("plants:create") && addPlants;
}

/**
 * Return what goes on to another page, if there is one.
 *
 * @param {"prev"|"next"} relation @param {string} selector of the row that gets the focus there
 */
function turnPage(relation, selector) {
  const turn = findTurn(relation);
  const { listing } = state;
  const act = async () => {
    await turn?.();
    if (state.listing !== listing) enter(document.querySelector(selector));
  };
  return turn && act;
}

/** @param {?Element} row gets the focus */
function enter(row) {
  row?.querySelector("a")?.focus();
}

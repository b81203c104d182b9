/**
 * The keyboard. Keys without Ctrl act only while the list has the focus (WCAG 2.1.4): the arrows
 * move, Space selects, / searches, and n adds a plant. Enter opens a plant, since names are links.
 */

import { focus } from "./elements.js";
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
  const isText = target.closest("input:not([type=checkbox]), textarea");
  return key === "z" && !shiftKey && !isText && state.isSignedIn && undoLast;
}

/** Return what a key does in the list, or on the way into it. @param {KeyboardEvent} event @param {Element} target */
function findAct({ key, shiftKey }, target) {
  const row = target.closest("#plants tr");
  const box = row?.querySelector("input");
  if (key === "ArrowDown" && target.closest(ABOVE)) {
    const next = row ? row.nextElementSibling : document.querySelector("#plants tr");
    return next && (() => enter(next));
  }
  if (key === "ArrowUp" && row) {
    const previous = row.previousElementSibling;
    return () => (previous ? enter(previous) : focus("#search"));
  }
  if (key === " " && box && target !== box) {
    return () => box.dispatchEvent(new MouseEvent("click", { shiftKey, bubbles: true }));
  }
  if (!target.closest(LIST)) return undefined;
  if (key === "/") return () => focus("#search");
  return key === "n" && may("plants:create") && addPlants;
}

/** @param {Element} row gets the focus */
function enter(row) {
  row.querySelector("a")?.focus();
}

/**
 * The keyboard. Keys without Ctrl act only while the list has the focus (WCAG 2.1.4): the arrows
 * move, and select with Shift, Space selects, / searches, also from a button, and n adds a plant. Enter
 * opens a plant, since names are links.
 */

import { focus, isTextField } from "./elements.js";
import { findTurnFrom, isAwaited, pick, whenShown } from "./listing.js";
import { addPlants } from "./plant.js";
import { undoLast } from "./sets.js";
import { may, state } from "./state.js";

/** The elements from which the arrow down leads to the first plant. */
const ABOVE = "#search, #plants-title, #listing";

/** The list with its heading, which has the focus after a sign-in. */
const LIST = "#plants-title, #listing";

/** The keys that act in the list as soon as it shows what is typed. */
const KEPT = ["ArrowDown", "ArrowUp", "Enter", " "];

/**
 * The keys that were pressed after the arrow down, before the list showed what is typed.
 *
 * @typedef {{key: string, shiftKey: boolean}} Key
 * @type {Key[]}
 */
let kept = [];

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

/** Return what a key does in the list, or on the way into it. @param {Key} event @param {Element} target */
function findAct({ key, shiftKey }, target) {
  if (isAwaited() && KEPT.includes(key) && target.closest("#search")) {
    return () => kept.push({ key, shiftKey });
  }
  const row = target.closest("#plants tr");
  const box = row?.querySelector("input");
  if (key === "ArrowDown" && target.closest(ABOVE)) {
    if (!row) return enterList;
    const next = row.nextElementSibling;
    return next ? () => move(row, next, shiftKey) : turnPage("next", row);
  }
  if (key === "ArrowUp" && row) {
    const previous = row.previousElementSibling;
    if (previous) return () => move(row, previous, shiftKey);
    return turnPage("prev", row) ?? (() => focus("#search"));
  }
  if (key === " " && box && target !== box) {
    return () => box.dispatchEvent(new MouseEvent("click", { shiftKey, bubbles: true }));
  }
  if (key === "/" && target.closest(`${LIST}, button`)) return selectSearch;
  return target.closest(LIST) && key === "n" && may("plants:create") && addPlants;
}

/**
 * Return what goes from a row, or from no row, to another page, if there is one.
 *
 * @param {"prev"|"next"} relation @param {Element} [row]
 */
function turnPage(relation, row) {
  const turn = findTurnFrom(relation, row?.getAttribute("data-id") ?? "");
  const act = async () => {
    const plant = await turn?.();
    if (plant) enter(document.querySelector(`#plants [data-id="${plant.id}"]`));
  };
  return turn && act;
}

/**
 * Go to the first row, as soon as the list shows what is typed. If it has none, go on to the next page.
 * The keys that were pressed meanwhile act there.
 */
function enterList() {
  const { activeElement } = document;
  const keys = /** @type {Key[]} */ ([]);
  kept = keys;
  whenShown(async () => {
    if (document.activeElement !== activeElement) return; // The user has gone elsewhere.
    const row = document.querySelector("#plants tr");
    if (row) enter(row);
    else await turnPage("next")?.();
    for (const key of keys) await pressLater(key);
  });
}

/** Act on a key in the row that has the focus. @param {Key} key */
async function pressLater(key) {
  const link = /** @type {?HTMLElement} */ (document.activeElement);
  if (!link?.closest("#plants tr")) return;
  const act = key.key === "Enter" ? () => link.click() : findAct(key, link);
  if (act) await act();
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

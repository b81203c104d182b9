/** The page of plants that is shown. The address has its position, and what is searched for. */

import { client } from "./client.js";
import { focus, say } from "./elements.js";
import { ApiError, messageOf } from "./requests.js";
import { state, update } from "./state.js";

const PLANTS_A_PAGE = 50;

/** How long nothing must be typed before the search begins. */
const TYPING_SECONDS = 0.12;

/** The parameters of a search, and those of a page of its result. */
export const SEARCHED = ["q", "tag"];
const PARAMETERS = [...SEARCHED, "after", "before", "order"];

/** Cancels the page that is loading. */
let loading = new AbortController();

let typing = 0;

/** Load and show the page of the address. */
export async function load() {
  clearTimeout(typing);
  loading.abort();
  loading = new AbortController();
  const { signal } = loading;
  const query = select(new URLSearchParams(location.search), PARAMETERS);
  const text = describe(query);
  const isTyped = String(parse(state.search)) === String(parse(text));
  update({ query, search: isTyped ? state.search : text, isLoading: true });
  const loaded = { isLoading: false, suggestion: null, selected: new Set() };
  try {
    const listing = await client.list(query, PLANTS_A_PAGE, signal);
    update({ ...loaded, listing, shownQuery: query, problem: null });
    suggest(query.get("q")?.trim(), listing.plants, signal);
  } catch (error) {
    if (signal.aborted) return; // Another page is loading.
    if (!(error instanceof ApiError)) throw error;
    update({ ...loaded, listing: null, shownQuery: query, problem: error });
  }
}

/** Load the page again if there is none because the service was away. */
export function loadIfMissing() {
  const { isLoading, problem } = state;
  if (!isLoading && problem && (problem.status === 0 || problem.status >= 500)) load();
}

/**
 * Offer the plants of a tag, if the text that was searched in the names is also a tag.
 *
 * @param {string|undefined} text
 * @param {import("./client.js").Plant[]} found
 * @param {AbortSignal} signal
 */
async function suggest(text, found, signal) {
  if (text === undefined) return;
  const typed = text.toLowerCase();
  const tag = found.find((plant) => plant.tag?.toLowerCase() === typed)?.tag ?? text;
  try {
    const { total, isExact } = await client.list(new URLSearchParams({ tag }), 1, signal);
    if (total > 0) update({ suggestion: { tag, total, isExact } });
  } catch (error) {
    if (!signal.aborted) messageOf(error); // Then nothing is offered.
  }
}

/** Search for what is typed, after a pause. @param {On<HTMLInputElement>} event */
export function type({ currentTarget }) {
  update({ search: currentTarget.value });
  loading.abort();
  clearTimeout(typing);
  typing = setTimeout(search, TYPING_SECONDS * 1000);
}

/** Search for what is typed. All of it is one step in the history of the tab. */
export function search(/** @type {Event|undefined} */ event) {
  event?.preventDefault();
  const query = parse(state.search);
  const order = state.query.get("order");
  if (order) query.set("order", order);
  const isTyping = history.state?.isTyping;
  history[isTyping ? "replaceState" : "pushState"]({ isTyping: true }, "", `?${query}`);
  leavePage();
}

/** Go to another page of plants without reloading the document. @param {string} query */
export function go(query) {
  if (query !== (location.search || "?")) history.pushState({}, "", query);
  focus("#plants-title");
  leavePage();
}

function leavePage() {
  if (!state.toast.undo) say(""); // What it says is outdated.
  update({ exportError: "" });
  load();
}

/** @param {string} text that was typed: `tag:Rosa`, or words of names */
function parse(text) {
  const tag = /^\s*tag:(.*)$/is.exec(text)?.[1];
  if (tag !== undefined) return new URLSearchParams({ tag: tag.trim() });
  return new URLSearchParams(text.trim() === "" ? {} : { q: text.trim() });
}

/** Return the text that stands for a query in the search box. @param {URLSearchParams} query */
export function describe(query) {
  const tag = query.get("tag");
  return tag === null ? (query.get("q") ?? "") : `tag:${tag}`;
}

/** Return the parameters with these keys. @param {URLSearchParams} query @param {string[]} keys */
export function select(query, keys) {
  return new URLSearchParams([...query].filter(([key]) => keys.includes(key)));
}

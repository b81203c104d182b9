/** The page of plants that is shown. The address has its position, and what is searched for. */

import { addressOf, LISTED, PARAMETERS, SEARCHED, select, TEXT_MAX } from "./address.js";
import { client } from "./client.js";
import { closePopover, say } from "./elements.js";
import { ApiError, messageOf } from "./requests.js";
import { state, update } from "./state.js";
import { refreshTags } from "./tags.js";

/** @typedef {import("./client.js").Plant} Plant */

const PLANTS_A_PAGE = 50;

/** How many plants the service lists at once. */
const LISTED_MAX = 1000;

/** How long nothing must be typed before the search begins. */
const TYPING_SECONDS = 0.12;

const ID = /^-?\d{1,19}$/;

/** Cancels the page that is loading. */
let loading = new AbortController();

let typing = 0;

/** Load and show the page of the address. If the service is away, the page that is shown remains. */
export async function load() {
  clearTimeout(typing);
  loading.abort();
  loading = new AbortController();
  const { signal } = loading;
  const asked = select(new URLSearchParams(location.search), PARAMETERS);
  // The page that is shown is loaded again after own changes.
  const isAgain = !state.tagList.found || String(asked) === String(state.query);
  const q = asked.get("q") ?? "";
  const search = state.search.trim() === q ? state.search : q;
  const from = asked.has("after") ? "" : (asked.get("from") ?? "");
  update({ query: asked, search, from, isLoading: true });
  try {
    show(asked, await find(asked, signal));
    if (isAgain) refreshTags();
  } catch (error) {
    if (signal.aborted) return; // Another page is loading.
    if (!(error instanceof ApiError)) throw error;
    const { listing } = error.isOutage ? state : { listing: null };
    update({ isLoading: false, listing, problem: error });
  }
}

/** Load the list after a change. If something is being typed, its search loads the list at its end. */
export function loadAgain() {
  if (loading.signal.aborted) refreshTags();
  else load();
}

/** Load the page of the address, if another one is shown. */
export function followAddress() {
  const asked = select(new URLSearchParams(location.search), PARAMETERS);
  if (String(asked) !== String(state.query)) load();
}

/**
 * Load the page that is shown again, since others may have changed its plants. The rows, the typed
 * text and the selection remain: its plants are those that the user saw.
 */
export async function refresh() {
  const { signal } = loading;
  const { listing: old, problem, isLoading } = state;
  // The search for what is being typed, or the dialog that is open, loads the page at its end.
  if (isLoading || signal.aborted || state.dialog) return;
  if (problem?.isOutage) await load();
  else if (old) {
    try {
      const listing = await find(state.query, signal);
      signal.throwIfAborted();
      update({ listing });
      if (JSON.stringify(listing) !== JSON.stringify(old)) refreshTags();
    } catch (error) {
      if (!signal.aborted) messageOf(error); // The list remains. It is loaded after an outage.
    }
  }
}

/**
 * Return a page. What is searched may also be an id.
 *
 * @param {URLSearchParams} query @param {AbortSignal} signal
 */
async function find(query, signal) {
  const listing = await client.list(query, PLANTS_A_PAGE, signal);
  const { q = "", ...others } = Object.fromEntries(select(query, PARAMETERS));
  const isFirst = Object.keys(others).every((key) => key === "sort");
  if (!isFirst || !ID.test(q.trim())) return listing;
  const found = await client.read(q.trim()).catch(messageOf);
  signal.throwIfAborted();
  if (typeof found === "string" || listing.plants.some(({ id }) => id === q.trim())) return listing;
  const plants = [found.plant, ...listing.plants];
  return { ...listing, plants, total: listing.total + 1, byId: found.plant };
}

/** @param {URLSearchParams} query @param {import("./client.js").Listing} listing */
function show(query, listing) {
  const selected = new Map(state.selected);
  for (const plant of listing.plants) {
    if (selected.has(plant.id)) selected.set(plant.id, plant);
  }
  update({ isLoading: false, problem: null, listing, shownQuery: query, selected });
}

/** Whether the list that is shown is in order by name. */
export function isByName() {
  return state.shownQuery.get("sort") === "name";
}

/** Return the numbers of the first and the last plant of the page that is shown, if they are known. */
export function findPosition() {
  const { listing } = state;
  if (!listing || listing.plants.length === 0) return null;
  const { plants, links, total, isExact } = listing;
  const isFirst = !links.has(isByName() ? "first" : "prev");
  const isLast = isExact && !links.has("next");
  /** @type {{first?: number, last?: number}} */
  const known = isFirst ? { first: 1 } : isLast ? { last: total } : (history.state ?? {});
  const first = known.first ?? Number(known.last) - plants.length + 1;
  const last = first + plants.length - 1;
  return first > 0 && (last <= total || !isExact) ? { first, last } : null;
}

/** Select all plants of the list, of all its pages, beside those selected before. */
export async function selectFound() {
  const { shownQuery } = state;
  try {
    const found = await findAll();
    const [then, now] = [shownQuery, state.shownQuery].map((query) => select(query, SEARCHED));
    if (String(then) !== String(now)) return; // It is another search now.
    const selected = new Map(state.selected);
    for (const plant of found) selected.set(plant.id, plant);
    update({ selected });
  } catch (error) {
    say(messageOf(error));
  }
}

/**
 * Return the plants of a search, of all its pages.
 *
 * @param {URLSearchParams} [search] otherwise those of the list, in its order
 * @param {(many: number, total: number) => boolean} [goesOn] is called after each page
 */
export async function findAll(search, goesOn = () => true) {
  const byId = search ? undefined : state.listing?.byId;
  const found = new Map(byId && [[byId.id, byId]]);
  let query = search ?? select(state.shownQuery, LISTED);
  for (;;) {
    const { plants, links, total } = await client.list(query, LISTED_MAX);
    for (const plant of plants) found.set(plant.id, plant);
    const next = links.get("next");
    // A proxy that ignores the query sends the same page again.
    const isLast = !next || next === `?${query}` || !goesOn(found.size, total);
    if (isLast) return [...found.values()];
    query = new URLSearchParams(next);
  }
}

/** Return the plants that are selected, in order of their ids, or of their names as the list. */
export function listSelected() {
  const bare = (/** @type {Plant} */ { name }) => name.replace(/×\s*/g, "");
  return [...state.selected.values()].sort((one, other) => {
    if (isByName()) return bare(one).localeCompare(bare(other), undefined, { numeric: true });
    return BigInt(one.id) < BigInt(other.id) ? -1 : 1;
  });
}

/** Search for what is typed, after a pause, among the plants of the tag. @param {On<HTMLInputElement>} event */
export function type({ currentTarget: { value } }) {
  update({ search: value });
  loading.abort();
  clearTimeout(typing);
  typing = setTimeout(search, TYPING_SECONDS * 1000);
}

/** Search for what is typed. @param {Event} [event] */
export function search(event) {
  event?.preventDefault();
  const q = state.search.trim();
  const kept = select(state.query, SEARCHED.slice(1));
  visit("q", addressOf([...(q ? [["q", q]] : []), ...kept]));
}

/** Begin the list by name at what is typed, after a pause. @param {On<HTMLInputElement>} event */
export function beginAt({ currentTarget: { value } }) {
  update({ from: value });
  const from = value.trim() ? value.slice(0, TEXT_MAX) : "";
  const query = [...select(state.query, LISTED), ...(from ? [["from", from]] : [])];
  loading.abort();
  clearTimeout(typing);
  const act = () => visit("from", `?${new URLSearchParams(query)}`);
  typing = setTimeout(act, TYPING_SECONDS * 1000);
}

/** Show what is typed into a field. All of it is one step in the history. @param {string} field @param {string} address */
function visit(field, address) {
  const isAgain = history.state?.typed === field;
  const isNext = field === "from"; // From there, the history leads back in the list by name.
  history[isAgain ? "replaceState" : "pushState"]({ typed: field, isNext }, "", address);
  leavePage();
}

/**
 * Go to another page of plants without reloading the document. The history has the position of the
 * page beside the one that is shown.
 *
 * @param {string} query
 */
export function go(query) {
  const links = state.listing?.links;
  const { first = NaN, last = NaN } = findPosition() ?? {};
  let beside = {};
  if (query === links?.get("next")) beside = { isNext: true, first: last + 1 };
  if (query === links?.get("prev")) beside = { last: first - 1 };
  if (query !== (location.search || "?")) history.pushState(beside, "", query);
  leavePage();
}

function leavePage() {
  say(""); // What it says is outdated.
  closePopover();
  update({ freshId: "" });
  load();
}

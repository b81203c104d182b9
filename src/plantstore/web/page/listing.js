/** The page of plants that is shown. The address has its position, and what is searched for. */

import {
  addressOf,
  describe,
  LISTED,
  PARAMETERS,
  parse,
  select,
  split,
  TEXT_MAX,
} from "./address.js";
import { client } from "./client.js";
import { say } from "./elements.js";
import { ApiError, hasStatus, messageOf, TOO_MANY_REQUESTS } from "./requests.js";
import { may, state, update } from "./state.js";
import { findTags, refreshTags, suggestTags } from "./tags.js";

/** @typedef {import("./client.js").Plant} Plant */

const PLANTS_A_PAGE = 50;

/** How many plants the service lists at once. */
const LISTED_MAX = 1000;

/** The largest id. */
const ID_MAX = 2n ** 63n - 1n;

/** How long nothing must be typed before the search begins. */
const TYPING_SECONDS = 0.12;

const ID = /^-?\d{1,19}$/;

/** Cancels the page that is loading. */
let loading = new AbortController();

let typing = 0;

/** How long changes of others gather before the page is loaded again. */
const REFRESH_SECONDS = 1;

let refreshing = 0;
let isRefreshing = false;

/** Load and show the page of the address. If the service is away, the page that is shown remains. */
export async function load() {
  clearTimeout(typing);
  clearTimeout(refreshing);
  refreshing = 0;
  loading.abort();
  loading = new AbortController();
  const { signal } = loading;
  const asked = select(new URLSearchParams(location.search), PARAMETERS);
  // The page that is shown is loaded again after own changes.
  const isAgain = !state.tagList.found || String(asked) === String(state.query);
  const text = describe(asked);
  const isTyped = String(parse(state.search)) === String(parse(text));
  update({ query: asked, search: isTyped ? state.search : text, isLoading: true });
  try {
    const { query, listing } = await find(asked, signal);
    if (query !== asked) {
      history.replaceState(history.state, "", `?${query}`);
      update({ query, search: describe(query) });
    }
    show(query, listing);
    if (isAgain) refreshTags();
    suggest(query, listing.plants, signal);
  } catch (error) {
    if (signal.aborted) return; // Another page is loading.
    if (!(error instanceof ApiError)) throw error;
    const { listing } = error.isOutage ? state : { listing: null };
    update({ isLoading: false, suggestion: null, listing, problem: error });
  }
}

/** Load the page of the address, if another one is shown. */
export function followAddress() {
  const asked = select(new URLSearchParams(location.search), PARAMETERS);
  if (String(asked) !== String(state.query)) load();
}

/** Load the page that is shown again, a moment later, since others have changed its plants. */
export function refreshSoon() {
  refreshing ||= setTimeout(refresh, REFRESH_SECONDS * 1000);
}

/**
 * Load the page that is shown again. The rows, the typed text and the selection remain: its plants
 * are those that the user saw.
 */
async function refresh() {
  refreshing = 0;
  const { signal } = loading;
  if (state.isLoading || isRefreshing) {
    refreshSoon(); // What is read may be older than the change.
    return;
  }
  // The search for what is being typed, or the dialog that adds plants, loads the page at its end.
  if (signal.aborted || !state.listing || !state.fresh.isSought) return;
  isRefreshing = true;
  try {
    const { query, listing } = await find(state.query, signal);
    signal.throwIfAborted();
    if (query === state.query) update({ listing, problem: null });
    else load(); // Only another spelling of the tag has plants now.
  } catch (error) {
    if (signal.aborted) return; // Another page is loading.
    if (!(error instanceof ApiError)) throw error;
    if (error.isOutage) update({ problem: error });
    if (hasStatus(error, TOO_MANY_REQUESTS)) refreshSoon();
  } finally {
    isRefreshing = false;
  }
}

/**
 * Return a page. What finds no plant may be an id, or a tag in another case.
 *
 * @param {URLSearchParams} query @param {AbortSignal} signal
 */
async function find(query, signal) {
  if (query.has("last") && query.get("sort") !== "name") {
    return { query, listing: await findEnd(query, signal) };
  }
  const listing = await client.list(query, PLANTS_A_PAGE, signal);
  const { q = "", tag, after, before } = Object.fromEntries(query);
  const isFirst = after === undefined && before === undefined;
  if (isFirst && tag === undefined && ID.test(q.trim())) {
    const found = await client.read(q.trim()).catch(messageOf);
    signal.throwIfAborted();
    const isListed = listing.plants.some(({ id }) => id === q.trim());
    if (typeof found !== "string" && !isListed) {
      const plants = [found.plant, ...listing.plants];
      return {
        query,
        listing: { ...listing, plants, total: listing.total + 1, byId: found.plant },
      };
    }
  }
  if (isFirst && tag && listing.plants.length === 0) {
    for (const other of await spell(tag)) {
      const changed = new URLSearchParams(query);
      changed.set("tag", other);
      const page = await client.list(changed, PLANTS_A_PAGE, signal);
      if (page.plants.length > 0) return { query: changed, listing: page };
    }
  }
  return { query, listing };
}

/**
 * Return the last page of a list in order of id: it is the first one in the other order.
 *
 * @param {URLSearchParams} query @param {AbortSignal} signal
 */
async function findEnd(query, signal) {
  const own = select(query, LISTED);
  const other = new URLSearchParams(own);
  other.set("sort", own.get("sort") === "-id" ? "id" : "-id");
  const { plants, links, ...counts } = await client.list(other, PLANTS_A_PAGE, signal);
  const pages = new Map();
  if (links.has("next")) {
    pages.set("first", `?${own}`);
    own.set("before", plants.at(-1)?.id ?? "");
    pages.set("prev", `?${own}`);
  }
  return { ...counts, plants: plants.reverse(), links: pages };
}

/** Return other spellings of a tag, which differ by case. @param {string} tag */
async function spell(tag) {
  const lower = tag.toLowerCase();
  return (await findTags(tag)).filter((each) => each !== tag && each.toLowerCase() === lower);
}

/** @param {URLSearchParams} query @param {import("./client.js").Listing} listing */
function show(query, listing) {
  const { fresh } = state;
  const selected = new Map(state.selected);
  for (const plant of listing.plants) {
    if (selected.has(plant.id)) selected.set(plant.id, plant);
  }
  const loaded = { isLoading: false, suggestion: null, problem: null };
  update({ ...loaded, listing, shownQuery: query, selected });
  if (fresh.isSought || !may("plants:read")) return;
  fresh.isSought = true;
  if (listing.plants.some(({ id }) => id === fresh.id)) return;
  history.pushState({}, "", `?${findPage(fresh)}`);
  load();
}

/**
 * Return the query of a page that has a plant: of all plants, in the present order.
 *
 * @param {typeof state.fresh} plant
 */
function findPage({ id, name }) {
  const sort = state.query.get("sort");
  const next = BigInt(id) + 1n;
  if (sort === "name") return new URLSearchParams({ sort, from: name.slice(0, TEXT_MAX) });
  if (next > ID_MAX) return new URLSearchParams({ sort: "-id" });
  if (sort === "-id") return new URLSearchParams({ sort, after: String(next) });
  return new URLSearchParams({ before: String(next) });
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
    if (describe(state.shownQuery) !== describe(shownQuery)) return; // It is another search now.
    const selected = new Map(state.selected);
    for (const plant of found) selected.set(plant.id, plant);
    update({ selected, selectedAll: describe(shownQuery) });
  } catch (error) {
    say(messageOf(error));
  }
}

/**
 * Return the plants of a search, of all its pages, up to a maximum.
 *
 * @param {URLSearchParams} [search] otherwise those of the list, in its order
 */
export async function findAll(search, max = Infinity) {
  const byId = search ? undefined : state.listing?.byId;
  const found = new Map(byId && [[byId.id, byId]]);
  let query = search ?? select(state.shownQuery, LISTED);
  for (;;) {
    const { plants, links } = await client.list(query, Math.min(LISTED_MAX, max - found.size));
    for (const plant of plants) found.set(plant.id, plant);
    const next = links.get("next");
    // A proxy that ignores the query sends the same page again.
    if (!next || next === `?${query}` || found.size >= max) return [...found.values()];
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

/** Load the page again if the service was away. */
export function loadIfMissing() {
  if (!state.isLoading && state.problem?.isOutage) load();
}

/**
 * Offer the plants of a tag, if the text that was searched in the names is also a tag.
 *
 * @param {URLSearchParams} query
 * @param {import("./client.js").Plant[]} found
 * @param {AbortSignal} signal
 */
async function suggest(query, found, signal) {
  const text = query.get("q")?.trim();
  if (text === undefined || query.has("tag")) return;
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
  const { tag } = split(currentTarget.value);
  update({ search: currentTarget.value, tags: tag === undefined ? [] : state.tags });
  if (tag !== undefined) suggestTags(tag);
  loading.abort();
  clearTimeout(typing);
  typing = setTimeout(search, TYPING_SECONDS * 1000);
}

/** Search for what is typed. All of it is one step in the history of the tab. */
export function search(/** @type {Event|undefined} */ event) {
  event?.preventDefault();
  const isTyping = history.state?.isTyping;
  const address = addressOf(parse(state.search));
  history[isTyping ? "replaceState" : "pushState"]({ isTyping: true }, "", address);
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
  state.tagList.isOpen = false;
  update({ exportProblem: null, fresh: { id: "", name: "", isSought: true } });
  load();
}

/** The page of plants that is shown. The address has its position, and what is searched for. */

import { addressOf, LISTED, PARAMETERS, SEARCHED, select, TEXT_MAX } from "./address.js";
import { client, compareIds } from "./client.js";
import { closePopover, makePause, say } from "./elements.js";
import { ApiError, messageOf } from "./requests.js";
import { state, update } from "./state.js";
import { refreshTags } from "./tags.js";

/** @typedef {import("./client.js").Plant} Plant */

const PLANTS_A_PAGE = 50;

/** How many requests fill a page: the service may list only a part of it at once. */
const PARTS_MAX = 20;

/** How many plants the service lists at once. */
const LISTED_MAX = 1000;

/** Begins a search when nothing was typed for a while. */
const begin = makePause(0.12);

/** Searches for what was typed last. */
let searchTyped = async () => {};

/** With how many characters of a name the way to the page before begins. */
const BEGUN_CHARACTERS = 3;

const ID = /^-?\d{1,19}$/;

/** Cancels the page that is loading. */
let loading = new AbortController();

/**
 * Load and show the page of the address. If the service is away, the page that is shown remains.
 *
 * @param {boolean} [isQuiet] if so, the typed text and the selection remain: its plants are those that
 *   the user saw; and so does the list if it cannot be loaded
 */
export async function load(isQuiet) {
  begin();
  loading.abort();
  loading = new AbortController();
  const { signal } = loading;
  const asked = select(new URLSearchParams(location.search), PARAMETERS);
  const { listing: old, query, tagList } = state;
  // The page that is shown is loaded again after own changes.
  const isAgain = !tagList || String(asked) === String(query);
  if (!isQuiet) {
    const q = asked.get("q") ?? "";
    const search = state.search.trim() === q ? state.search : q;
    const from = asked.has("after") ? "" : (asked.get("from") ?? "");
    update({ query: asked, search, from, isLoading: true });
  }
  try {
    const listing = await find(asked, signal);
    if (isQuiet) update({ listing, current: findCurrent(listing) });
    else show(asked, listing);
    const isSame = isQuiet && JSON.stringify(listing) === JSON.stringify(old);
    if (isAgain && !isSame) refreshTags();
  } catch (error) {
    if (signal.aborted) return; // Another page is loading.
    if (!(error instanceof ApiError)) throw error;
    if (isQuiet) return; // It is loaded after an outage.
    const listing = error.isOutage ? old : null;
    update({ isLoading: false, isSearching: false, listing, problem: error });
  }
}

/** Load the list after a change. If something is being typed, its search loads the list at its end. */
export async function loadAgain() {
  if (loading.signal.aborted) refreshTags();
  else await load();
}

/** Load the page of the address, if another one is shown. */
export function followAddress() {
  const asked = select(new URLSearchParams(location.search), PARAMETERS);
  if (String(asked) !== String(state.query)) load();
}

/** Load the page that is shown again, since others may have changed its plants. */
export async function refresh() {
  const { listing, problem, isLoading, dialog } = state;
  // The search for what is being typed, or the dialog that is open, loads the page at its end.
  if (isLoading || loading.signal.aborted || dialog) return;
  if (listing || problem?.isOutage) await load(!problem);
}

/**
 * Return a page, also if the service lists it in parts. It may have counted fewer plants than these.
 *
 * @param {URLSearchParams} query @param {AbortSignal} signal
 * @returns {Promise<import("./client.js").Listing>}
 */
async function listPage(query, signal) {
  const listing = await client.list(query, PLANTS_A_PAGE, signal);
  const { plants, links, isExact } = listing;
  for (let parts = 1; parts < PARTS_MAX; parts += 1) {
    const next = links.get("next");
    const rest = PLANTS_A_PAGE - plants.length;
    if (!next || rest <= 0) break;
    const part = await client.list(new URLSearchParams(next), rest, signal);
    plants.push(...part.plants);
    const following = part.links.get("next");
    if (following) links.set("next", following);
    else links.delete("next");
  }
  const first = links.has("first") ? Number(history.state?.first) : 1;
  if (isExact || !(first > 0)) return listing;
  const seen = first - 1 + plants.length;
  if (!links.has("next")) return { ...listing, total: seen, isExact: true };
  return { ...listing, total: Math.max(listing.total, seen + 1) };
}

/**
 * Return a page. What is searched may also be an id.
 *
 * @param {URLSearchParams} query @param {AbortSignal} signal
 */
async function find(query, signal) {
  const listing = await listPage(query, signal);
  const { q = "", ...others } = Object.fromEntries(select(query, PARAMETERS));
  const isFirst = Object.keys(others).every((key) => key === "sort");
  if (!isFirst || !ID.test(q.trim())) return listing;
  const found = await client.read(q.trim()).catch(messageOf);
  signal.throwIfAborted();
  if (typeof found === "string" || listing.plants.some(({ id }) => id === q.trim())) return listing;
  const plants = [found, ...listing.plants];
  return { ...listing, plants, total: listing.total + 1, byId: found };
}

/** @param {URLSearchParams} query @param {import("./client.js").Listing} listing */
function show(query, listing) {
  const selected = new Map(state.selected);
  for (const plant of listing.plants) {
    if (selected.has(plant.id)) selected.set(plant.id, plant);
  }
  const current = findCurrent(listing);
  const ended = { isLoading: false, isSearching: false, problem: null };
  update({ ...ended, listing, shownQuery: query, selected, current });
}

/** Wait for the plants of what is typed into a field. @param {Partial<typeof state>} typed @param {() => Promise<void>} act */
function expect(typed, act) {
  searchTyped = act;
  update({ ...typed, isSearching: true });
  loading.abort();
  begin(act);
}

/** Show what is typed at once; return false if more is typed meanwhile. */
export async function showTyped() {
  if (state.isSearching) await searchTyped();
  return !state.isSearching;
}

/**
 * Return the plant of a new list that the Tab key leads to: the same as before, or the next one that
 * is still there, or the one before it, or the first one.
 *
 * @param {import("./client.js").Listing} listing
 */
function findCurrent({ plants }) {
  const old = state.listing?.plants ?? [];
  const at = Math.max(
    0,
    old.findIndex(({ id }) => id === state.current),
  );
  const ids = new Set(plants.map(({ id }) => id));
  const near = [...old.slice(at), ...old.slice(0, at).reverse()];
  return near.find(({ id }) => ids.has(id))?.id ?? plants[0]?.id ?? "";
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
  const known = isLast ? total - plants.length + 1 : Number(history.state?.first);
  const first = isFirst ? 1 : known;
  const last = first + plants.length - 1;
  return first > 0 && (last <= total || !isExact) ? { first, last } : null;
}

/** Select plants, or no longer. @param {Plant[]} plants */
export function pick(plants, isOn = true) {
  const selected = new Map(state.selected);
  for (const plant of plants) {
    if (isOn) selected.set(plant.id, plant);
    else selected.delete(plant.id);
  }
  update({ selected });
}

/** Select all plants of the list, of all its pages, beside those selected before. */
export async function selectFound() {
  const searched = () => String(select(state.shownQuery, SEARCHED));
  const then = searched();
  const found = await findAll();
  if (then === searched()) pick(found); // Otherwise it is another search now.
}

/**
 * Return the plants of a search, of all its pages.
 *
 * @param {URLSearchParams} [search] otherwise those of the list, in its order
 * @param {(found: Map<string, Plant>, total: number) => boolean} [goesOn] is called after each page
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
    const isLast = !next || next === `?${query}` || !goesOn(found, total);
    if (isLast) return [...found.values()];
    query = new URLSearchParams(next);
  }
}

/** Return the plants that are selected, in order of their ids, or of their names as the list. */
export function listSelected() {
  const bare = (/** @type {Plant} */ { name }) => name.replace(/×\s*/g, "");
  return [...state.selected.values()].sort((one, other) => {
    if (isByName()) return bare(one).localeCompare(bare(other), undefined, { numeric: true });
    return compareIds(one, other);
  });
}

/** Search for what is typed, after a pause, among the plants of the tag. @param {On<HTMLInputElement>} event */
export function type({ currentTarget: { value } }) {
  expect({ search: value }, search);
}

/** Search for what is typed. */
export function search() {
  const q = state.search.trim();
  const kept = select(state.query, SEARCHED.slice(1));
  return visit("q", addressOf([...(q ? [["q", q]] : []), ...kept]));
}

/** Begin the list by name at what is typed, after a pause. @param {On<HTMLInputElement>} event */
export function beginAt({ currentTarget: { value } }) {
  const from = value.trim() && value;
  const query = [...select(state.query, LISTED), ...(from ? [["from", from]] : [])];
  expect({ from: value }, () => visit("from", `?${new URLSearchParams(query)}`));
}

/** Show what is typed into a field. All of it is one step in the history. @param {string} field @param {string} address */
function visit(field, address) {
  const isAgain = history.state?.typed === field;
  history[isAgain ? "replaceState" : "pushState"]({ typed: field }, "", address);
  return leavePage();
}

/**
 * Go to another page of plants without reloading the document. The history has the number of its first
 * plant, if it is known.
 *
 * @param {string} query
 */
export function go(query) {
  const links = state.listing?.links;
  const { first = NaN, last = NaN } = findPosition() ?? {};
  const before = query === links?.get("prev") ? first - PLANTS_A_PAGE : NaN;
  const place = { first: query === links?.get("next") ? last + 1 : before };
  if (query !== (location.search || "?")) enterPage(place, query);
  return leavePage();
}

/** Return what shows the page before or after the one that is shown, if there is one. @param {string} relation */
export function findTurn(relation) {
  const links = state.listing?.links;
  const href = links?.get(relation);
  if (href) return () => go(href);
  return relation === "prev" && isByName() && links?.has("first") ? goBack : undefined;
}

/**
 * Show the page before or after, if there is one. Return the plant there that is beside one of this
 * page, which the first page by name may have, too.
 *
 * @param {string} relation @param {string} id
 */
export async function turn(relation, id) {
  const { listing } = state;
  await findTurn(relation)?.();
  if (!state.listing || state.listing === listing) return undefined; // It cannot be loaded.
  const { plants } = state.listing;
  const at = plants.findIndex((plant) => plant.id === id);
  if (at >= 0) return plants[relation === "next" ? at + 1 : at - 1];
  return plants.at(relation === "next" ? 0 : -1);
}

/**
 * Show the page before in the list by name, in which the links of the service lead only on. Its plants
 * are found on the way to the first one that is shown, from a beginning of its name, or of the list.
 */
async function goBack() {
  const { listing, shownQuery } = state;
  const [shown] = listing?.plants ?? [];
  const list = [...select(shownQuery, LISTED)];
  const place = { first: (findPosition()?.first ?? NaN) - PLANTS_A_PAGE };
  const isHere = () => state.shownQuery === shownQuery;
  update({ isLoading: true });
  let before = /** @type {Plant[]} */ ([]);
  try {
    for (let begun = BEGUN_CHARACTERS; begun >= 0 && before.length <= PLANTS_A_PAGE; begun -= 1) {
      const from = begun > 0 ? [["from", shown?.name.slice(0, begun) ?? ""]] : [];
      const query = new URLSearchParams([...list, ...from]);
      const found = await findAll(query, (all) => isHere() && !all.has(shown?.id));
      const at = found.findIndex(({ id }) => id === shown?.id);
      before = shown ? found.slice(0, Math.max(0, at)) : found;
    }
  } catch (error) {
    update({ isLoading: false });
    throw error;
  }
  if (!isHere()) return;
  const last = before.at(-PLANTS_A_PAGE - 1);
  const from = last ? Object.entries({ from: last.name.slice(0, TEXT_MAX), after: last.id }) : [];
  enterPage(place, `?${new URLSearchParams([...list, ...from])}`);
  await leavePage();
}

/** Add a page to the history. It replaces the step of a dialog that is open. @param {object} place @param {string} address */
function enterPage(place, address) {
  history[state.dialog ? "replaceState" : "pushState"](place, "", address);
  // After the dialog, the row with the focus is shown, and not where the page before was scrolled to.
  history.scrollRestoration = state.dialog ? "manual" : "auto";
}

function leavePage() {
  if (!state.dialog) say(""); // What it says is outdated.
  closePopover();
  return load();
}

/**
 * What others change is shown as it happens: the page follows the feed of changes. The selection and
 * open dialogs keep the plants that the user saw, so a change still finds the difference.
 */

import { client } from "./client.js";
import { EventReader } from "./events.js";
import { isBeingRead, isByName, refreshSoon, SEARCHED } from "./listing.js";
import { ApiError, GONE, hasStatus, TOO_MANY_REQUESTS } from "./requests.js";
import { untilVisible } from "./service.js";
import { may, state, update } from "./state.js";
import { refreshTags } from "./tags.js";

/** @typedef {import("./client.js").Plant} Plant */
/** @typedef {import("./client.js").Change} Change */

/** How long to wait after a request for the stream failed. */
const FAILED_SECONDS = 5;

/** The refusals that do not last: a timeout, changes that are no longer kept, and the rate. */
const PASSING = [408, GONE, TOO_MANY_REQUESTS];

let following = new AbortController();

/** Follow the changes, from now on, unless the token does not permit it or the feed is off. */
export async function follow() {
  unfollow();
  following = new AbortController();
  const { signal } = following;
  let lastId = "";
  while (may("changes:read")) {
    // A browser opens six connections to a service, for all tabs. So a hidden tab has no stream.
    await untilVisible();
    if (signal.aborted) return;
    const visible = whileVisible(signal);
    const reader = new EventReader(lastId);
    let seconds = FAILED_SECONDS;
    let isNew = lastId === "";
    try {
      for await (const changes of client.follow(reader, visible)) {
        // What was changed before this stream, and after the list was read, is in no event.
        if (isNew) refreshSoon();
        isNew = false;
        seconds = reader.retrySeconds;
        show(changes);
      }
    } catch (error) {
      if (!visible.aborted && !mayFollowAgain(error)) return;
      if (hasStatus(error, GONE)) {
        reader.lastId = "";
        seconds = reader.retrySeconds;
      }
    }
    // After a long time in a hidden tab, the events would be many.
    lastId = visible.aborted ? "" : reader.lastId;
    if (!visible.aborted) await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    if (signal.aborted) return;
  }
}

/** Follow the changes no longer. */
export function unfollow() {
  following.abort();
}

/** @param {AbortSignal} signal @returns {AbortSignal} is also aborted when the tab is hidden */
function whileVisible(signal) {
  const hiding = new AbortController();
  const look = () => document.hidden && hiding.abort();
  const either = AbortSignal.any([signal, hiding.signal]);
  document.addEventListener("visibilitychange", look, { signal: either });
  return either;
}

/** @param {unknown} error */
function mayFollowAgain(error) {
  if (!(error instanceof ApiError)) throw error;
  // A question for another token would interrupt whoever types into a dialog.
  if (hasStatus(error, 401) && !state.dialog) client.onrefusal(error);
  return error.isOutage || PASSING.includes(error.status);
}

/**
 * Show changes in the rows of the list. What they do to the list otherwise, only the service knows:
 * then the page is loaded again a moment later.
 *
 * @param {Change[]} changes
 */
export function show(changes) {
  const { listing, shownQuery } = state;
  if (!listing || changes.length === 0) return;
  refreshTags();
  const isSearch = isByName() || SEARCHED.some((key) => shownQuery.has(key));
  const rows = new Map(listing.plants.map((plant) => [plant.id, plant]));
  let isReplaced = false;
  for (const { change, plant } of changes) {
    const row = rows.get(plant.id);
    const isElsewhere = !row && !isSearch && change === "replaced";
    if (isElsewhere || (row && isSame(row, plant))) continue;
    if (row && change !== "deleted" && stillMatches(plant)) {
      rows.set(plant.id, plant);
      isReplaced = true;
    } else refreshSoon();
  }
  if (!isReplaced) return;
  if (isBeingRead()) refreshSoon(); // What is read may be older than the change.
  update({ listing: { ...listing, plants: [...rows.values()] } });
}

/** @param {Plant} row @param {Plant} plant */
function isSame(row, plant) {
  return row.name === plant.name && row.tag === plant.tag;
}

/** Whether a plant of the list is certainly still one, at its place. @param {Plant} plant */
function stillMatches({ tag }) {
  const { shownQuery } = state;
  if (isByName() || shownQuery.has("q")) return false;
  return tag === (shownQuery.has("untagged") ? undefined : (shownQuery.get("tag") ?? tag));
}

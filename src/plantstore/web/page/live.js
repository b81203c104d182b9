/**
 * What others change is shown soon: while the page follows the feed of changes, an event loads the
 * list again. The selection and open dialogs keep the plants that the user saw, so a change still
 * finds the difference.
 */

import { client } from "./client.js";
import { refreshSoon } from "./listing.js";
import { ApiError, FEED_OFF, hasStatus, TOO_MANY_REQUESTS } from "./requests.js";
import { untilVisible } from "./service.js";
import { may, state, update } from "./state.js";
import { refreshTags } from "./tags.js";

/** How long to wait after a stream ended, or failed. */
const ENDED_SECONDS = 1;
const FAILED_SECONDS = 5;

/** The refusals that do not last: a timeout, and the rate. */
const PASSING = [408, TOO_MANY_REQUESTS];

let following = new AbortController();

/** Follow the changes, from now on, unless the token does not permit it or the feed is off. */
export async function follow() {
  unfollow();
  following = new AbortController();
  const { signal } = following;
  while (may("changes:read")) {
    // A browser opens six connections to a service, for all tabs. So a hidden tab has no stream.
    await untilVisible();
    if (signal.aborted) return;
    const visible = whileVisible(signal);
    let seconds = FAILED_SECONDS;
    try {
      // The first event is the position. What was changed before it may be in no other event.
      for await (const _ of client.follow(visible)) {
        seconds = ENDED_SECONDS;
        refreshSoon();
        refreshTags();
      }
    } catch (error) {
      if (!visible.aborted && !mayFollowAgain(error)) return;
    }
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
  if (error.error === FEED_OFF) update({ keepsChanges: false });
  // A question for another token would interrupt whoever types into a dialog.
  if (hasStatus(error, 401) && !state.dialog) client.onrefusal(error);
  return error.isOutage || PASSING.includes(error.status);
}

/** The tags of the catalogue: their list beside the plants, and those that begin with a text. */

import { addressOf, TEXT_MAX } from "./address.js";
import { client } from "./client.js";
import { makePause, number, PlantText } from "./elements.js";
import { html } from "./html.js";
import { messageOf } from "./requests.js";
import { may, state, update } from "./state.js";

/** How many tags the list has. */
const TAGS_MAX = 1000;

/** How many tags are suggested. */
const SUGGESTED = 20;

/** How long the list is not read again: the service reads all plants to count their tags. */
const REFRESH_SECONDS = 5;

/** Read the list, and look for tags, when nothing was typed for a while. */
const [filter, look] = [makePause(0.15), makePause(0.15)];

/** Whether the list is beside the plants. Otherwise a button opens it. */
const wide = window.matchMedia("(min-width: 60rem)");
wide.onchange = () => state.listing && refreshTags(); // Before the sign-in, there is no token.

let resting = 0;
let isOutdated = false;

/** Cancels the list that is being read. */
let reading = new AbortController();

/** Whether the list is open on a narrow screen. */
const isOpen = () => document.querySelector("#tag-list:popover-open") !== null;

/** Read the list again, if it is shown: some seconds after the last time at the earliest. */
export function refreshTags() {
  if (!may("plants:read") || !(wide.matches || isOpen())) return;
  isOutdated = true;
  if (!resting) read();
}

async function read() {
  isOutdated = false;
  clearTimeout(resting);
  resting = setTimeout(() => {
    resting = 0;
    if (isOutdated) read();
  }, REFRESH_SECONDS * 1000);
  reading.abort();
  reading = new AbortController();
  const { signal } = reading;
  const query = { q: state.tagFilter, sort: state.tagSort, limit: String(TAGS_MAX) };
  try {
    const [{ total }, list] = await Promise.all([
      client.list(new URLSearchParams(), 1, signal),
      client.listTags(query, signal),
    ]);
    update({ tagList: { ...list, total } });
  } catch (error) {
    if (signal.aborted) return;
    messageOf(error); // The page works without the list.
    update({ tagList: state.tagList ?? null });
  }
}

/** Suggest tags that begin with what is typed, those of most plants first, after a pause. */
function suggest(/** @type {On<HTMLInputElement>} */ { currentTarget: { value } }) {
  const query = { q: value.slice(0, TEXT_MAX), sort: "-plants", limit: String(SUGGESTED) };
  look(async () => {
    const found = may("plants:read") ? await client.listTags(query).catch(messageOf) : "";
    update({ tags: typeof found === "string" ? [] : found.tags.map(({ tag }) => tag) });
  });
}

/** The attributes of a field for a tag. */
export const SUGGESTING = { dir: "auto", list: "tags", onfocus: suggest, oninput: suggest };

/** The button that opens the list of tags on a narrow screen. */
export function TagsButton() {
  if (state.tagList === null) return null;
  return html`
    <button type="button" class="menu" popovertarget="tag-list" data-needs="plants:read">Tags</button>
  `;
}

/** The list of tags with the numbers of their plants. There is none if it cannot be read. */
export function TagList() {
  const { tagFilter, tagList } = state;
  if (tagList === null || tagList?.total === 0) return null;
  const { tags = [], untagged, total, isAll } = tagList ?? {};
  const shown = state.shownQuery.has("untagged") ? undefined : state.shownQuery.get("tag");
  const type = (/** @type {On<HTMLInputElement>} */ { currentTarget }) => {
    update({ tagFilter: currentTarget.value.slice(0, TEXT_MAX) });
    filter(read);
  };
  const sort = (/** @type {On<HTMLInputElement>} */ { currentTarget: { checked } }) => {
    update({ tagSort: checked ? "-plants" : "tag" });
    read();
  };
  return html`
    <aside id="tag-list" popover aria-label="Tags" data-needs="plants:read"
        ontoggle=${refreshTags}>
      <input type="search" aria-label="Filter tags" placeholder="Filter tags" spellcheck=${false}
        value=${tagFilter} oninput=${type} />
      <label class="choice">
        <input type="checkbox" checked=${state.tagSort === "-plants"} onchange=${sort} />
        ${" "}Most plants first
      </label>
      <ul>
        <${Entry} href=${addressOf({})} text="All" many=${total} isShown=${shown === null} />
        <${Entry} href=${addressOf({ untagged: "true" })} text="Untagged" many=${untagged}
          isShown=${shown === undefined} />
        ${tags.map(
          ({ tag, plants }) =>
            html`<${Entry} key=${tag} href=${addressOf({ tag })} text=${tag} many=${plants}
              isShown=${tag === shown} />`,
        )}
      </ul>
      <p class="hint">
        ${tagList && (isAll ? `${number(tags.length)} ${tags.length === 1 ? "tag" : "tags"}` : "Filter to see other tags.")}
      </p>
    </aside>
  `;
}

/** @param {{href: string, text: string, many?: number, isShown: boolean}} props */
function Entry({ href, text, many, isShown }) {
  return html`
    <li>
      <a href=${href} aria-current=${isShown ? "true" : undefined}>
        <${PlantText} text=${text} /> <bdi class="count">${many !== undefined && number(many)}</bdi>
      </a>
    </li>
  `;
}

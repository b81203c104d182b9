/** The address of the page: which plants it lists, and the text that stands for them. */

import { state } from "./state.js";

/** The parameters of a search, of its list, and of a page of the list; `last` is known here only. */
export const SEARCHED = ["q", "tag", "untagged"];
export const LISTED = [...SEARCHED, "sort"];
export const PARAMETERS = [...LISTED, "from", "after", "before", "last"];

/** How long a text may be that is searched, or from which the names begin. */
export const TEXT_MAX = 100;

/** The longest tag that is a link. */
const LINKED_CHARACTERS_MAX = 1000;

/**
 * Return the address of the plants of a search, in the present order.
 *
 * @param {URLSearchParams | Record<string, string>} query
 */
export function addressOf(query) {
  const all = new URLSearchParams(query);
  const sort = state.query.get("sort");
  if (sort) all.set("sort", sort);
  return `?${all}`;
}

/** Return the address of the plants of a tag, unless it is too long for the service. @param {string} tag */
export function linkTo(tag) {
  return tag.length <= LINKED_CHARACTERS_MAX ? addressOf({ tag }) : undefined;
}

/**
 * Return the words of names and the tag of a text. All that follows `tag:` is the tag. At the end,
 * `untagged:` stands for plants without a tag.
 *
 * @param {string} text that was typed: `alba`, `tag:Rosa` or `alba tag:Rosa`
 */
export function split(text) {
  const found = /^(.*?)(?:(?<!\S)(?:(untagged:)\s*|tag:(.*)))?$/is.exec(text);
  const [, words = text, untagged, tag] = found ?? [];
  return { q: words.trim(), tag: tag?.trim(), isUntagged: untagged !== undefined };
}

/** @param {string} text that was typed */
export function parse(text) {
  const { q, tag, isUntagged } = split(text);
  return new URLSearchParams({
    ...(q && { q }),
    ...(tag !== undefined && { tag }),
    ...(isUntagged && { untagged: "true" }),
  });
}

/** Return the text that stands for a query in the search box. @param {URLSearchParams} query */
export function describe(query) {
  const { q, tag } = Object.fromEntries(query);
  const end = tag === undefined ? query.has("untagged") && "untagged:" : `tag:${tag}`;
  return [q, end].filter(Boolean).join(" ");
}

/** Return what a list has, for a title: words of names, and a tag. @param {URLSearchParams} query */
export function entitle(query) {
  const tag = query.has("untagged") ? "Untagged" : query.get("tag");
  return [query.get("q"), tag].filter(Boolean).join(", ");
}

/** Return the parameters with these keys. @param {URLSearchParams} query @param {string[]} keys */
export function select(query, keys) {
  return new URLSearchParams([...query].filter(([key]) => keys.includes(key)));
}

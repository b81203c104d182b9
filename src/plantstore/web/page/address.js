/** The address of the page: which plants it lists, and how their list is entitled. */

import { state } from "./state.js";

/** The parameters of a search, of its list, and of a page of the list. */
export const SEARCHED = ["q", "tag", "untagged"];
export const LISTED = [...SEARCHED, "sort"];
export const PARAMETERS = [...LISTED, "from", "after", "before"];

/** How long a text may be that is searched, or from which the names begin. */
export const TEXT_MAX = 100;

/**
 * Return the address of the plants of a search, in the present order.
 *
 * @param {URLSearchParams | Record<string, string> | string[][]} query
 */
export function addressOf(query) {
  const all = new URLSearchParams(query);
  const sort = state.query.get("sort");
  if (sort) all.set("sort", sort);
  return `?${all}`;
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

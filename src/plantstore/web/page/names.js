/** Names: which are the same, as the search folds them, and which plants have one. */

import { TEXT_MAX } from "./address.js";
import { client } from "./client.js";
import { findAll } from "./listing.js";

/** @typedef {import("./client.js").Plant} Plant */

/** How many plants whose names begin alike are looked through for one that has a name. */
const LOOKED_THROUGH = 20;

/** Letters that Unicode does not take apart. */
const LETTERS = /** @type {Record<string, string>} */ ({
  ...{ ł: "l", ø: "o", đ: "d", ð: "d", ħ: "h", ŋ: "n", ŧ: "t", þ: "th", æ: "ae", œ: "oe" },
  "×": " x ",
});

/** Return what a name has in common with those that differ in case, accents and signs. @param {string} name */
export function fold(name) {
  // NFKD makes a space and a mark of an acute accent that stands for an apostrophe.
  const marked = name.replace(/[\u00b4\u0384\u1ffd]/g, "'").normalize("NFKD");
  const upper = marked.toUpperCase(); // also of ß
  const words = upper
    .toLowerCase()
    .normalize("NFKD")
    .replace(/[\p{M}\p{Cf}'`\u0640\u2018\u2019\u201b\u2032\ua78c\u02b9-\u02ff]/gu, "")
    .replace(/[^\0-\x7f]/gu, (letter) => LETTERS[letter] ?? letter)
    .replace(/[^\p{L}\p{N}]+/gu, " ")
    .trim();
  return words || name;
}

/** Return the plants that have a name. @param {string} name @param {AbortSignal} [signal] */
export async function findNamed(name, signal) {
  // In order by name, they are the first ones from this name on.
  const query = new URLSearchParams({ sort: "name", from: name.slice(0, TEXT_MAX) });
  const isNamed = (/** @type {Plant|undefined} */ plant) =>
    plant !== undefined && fold(plant.name) === fold(name);
  const { plants } = await client.list(query, LOOKED_THROUGH, signal);
  const isAll = plants.length < LOOKED_THROUGH || !isNamed(plants.at(-1));
  const all = isAll ? plants : await findAll(query, (found) => isNamed([...found.values()].at(-1)));
  return all.filter(isNamed);
}

/** What the service has already of the plants of a file: its preview shows this, and asks about it. */

import { client } from "./client.js";
import { forEachRow } from "./csv.js";
import { findAll } from "./listing.js";
import { findNamed, fold } from "./names.js";
import { findStart, INTEGER } from "./plan.js";
import { CHANGED } from "./requests.js";
import { may } from "./state.js";

/** @typedef {import("./plan.js").Preview} Preview */
/** @typedef {import("./plan.js").Plan} Plan */
/** @typedef {import("./client.js").Plant} Plant */

/** How many plants are compared with those that are stored in one request: it tells as many errors. */
const COMPARED_MAX = 1000;

/** How many plants are listed in the time in which one is looked for by its name. */
const PLANTS_A_NAME = 100;

/** How many names are looked for at once: as many as a browser opens connections. */
const PARALLEL = 6;

/**
 * Read the plants if a file has only ids, or ids and tags.
 *
 * @param {Preview} preview @param {AbortSignal} signal
 */
export async function readPlants(preview, signal) {
  const { table, columns = { id: -1, name: -1, tag: -1 } } = preview;
  preview.named = undefined;
  if (columns.name >= 0 || columns.id < 0 || !may("plants:read")) return;
  const name = crypto.randomUUID(); // No plant has it.
  const plants = (table?.rows ?? []).map((row) => ({ id: row[columns.id]?.trim() ?? "", name }));
  preview.named = await findOthers(plants, signal);
}

/**
 * Return the plants that are stored under the ids of others, by these ids. It is empty if the token
 * does not permit to read them.
 *
 * @param {Plant[]} plants @param {AbortSignal} signal
 */
async function findOthers(plants, signal) {
  const found = /** @type {Map<string, Plant>} */ (new Map());
  const numbered = plants.filter(({ id }) => INTEGER.test(id));
  for (let at = 0; at < numbered.length; ) {
    const part = numbered.slice(at, at + COMPARED_MAX);
    const changes = part.map((after) => ({ before: null, after }));
    const { result } = await client.change(changes, { isDry: true, signal });
    for (const { line, plant } of result.errors) if (plant) found.set(part[line - 1].id, plant);
    // The service shows the plants up to a size.
    const hidden = result.errors.find(({ error, plant }) => error === CHANGED && !plant);
    if (hidden && result.errors.every(({ plant }) => !plant)) break;
    at += hidden ? hidden.line - 1 : part.length;
  }
  return found;
}

/**
 * Find the plants that have the names of rows without an id already.
 *
 * @param {Preview} preview @param {AbortSignal} signal
 */
export async function findStored(preview, signal) {
  const { table, columns, stored } = preview;
  const { id = -1, name = -1 } = columns ?? {};
  const start = findStart(preview);
  if (!may("plants:read")) return;
  /** @type {Map<string, string>} */
  const sought = new Map();
  await forEachRow(table?.rows ?? [], signal, (cells, index) => {
    const text = cells[name]?.trim() ?? "";
    const key = fold(text);
    if (index >= start && text && !cells[id]?.trim() && !stored.has(key)) sought.set(key, text);
  });
  if (sought.size === 0) return;
  let isAll = true;
  const plants = await findAll(new URLSearchParams({ sort: "name" }), (_, total) => {
    isAll = total <= sought.size * PLANTS_A_NAME && !signal.aborted;
    return isAll;
  });
  const named = Map.groupBy(plants, (plant) => fold(plant.name));
  const find = async (/** @type {[string, string]} */ [key, text]) => {
    stored.set(key, (isAll ? named.get(key) : await findNamed(text, signal)) ?? []);
  };
  const left = [...sought];
  while (left.length > 0) {
    signal.throwIfAborted();
    await Promise.all(left.splice(-PARALLEL).map(find));
  }
}

/**
 * Return the plants that would change, as they are. The ids of those that differ only in blanks at the
 * ends are added to `same`.
 *
 * @param {Plan} plan @param {Preview} preview @param {AbortSignal} signal
 */
export async function readChanging({ sent, columns }, { named, same }, signal) {
  const plants = new Map(sent.map(({ plant }) => [plant.id, plant]));
  const others = named ?? (await findOthers([...plants.values()], signal));
  const changing = /** @type {import("./plan.js").Changing[]} */ ([]);
  const trim = (text = "") => text.trim();
  for (const [id, { name, tag }] of plants) {
    const old = others.get(id);
    if (!old) continue;
    const plant = { id: old.id, name, tag: columns.tag < 0 ? old.tag : tag };
    const isSame = trim(old.name) === trim(name) && trim(old.tag) === trim(plant.tag);
    if (isSame) same.add(id);
    else changing.push({ old, plant });
  }
  return changing;
}

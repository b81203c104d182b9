/** What the service has already of the plants of a file: its preview shows this, and asks about it. */

import { client, compareIds } from "./client.js";
import { forEachRow } from "./csv.js";
import { findAll } from "./listing.js";
import { findNamed, fold } from "./names.js";
import { findStart, INTEGER } from "./plan.js";
import { hasStatus, ID_TAKEN, messageOf, NOT_FOUND } from "./requests.js";
import { may } from "./state.js";

/** @typedef {import("./plan.js").Preview} Preview */
/** @typedef {import("./plan.js").Plan} Plan */

/** How many of the plants that change are shown: each is read. */
export const SHOWN_CHANGES = 50;

/** How many plants are read if a file has no names. */
const NAMES_MAX = 1000;

/** How many plants are listed in the time in which one is looked for by its name. */
const PLANTS_A_NAME = 100;

/** How many plants are looked for at once: as many as a browser opens connections. */
const PARALLEL = 6;

/**
 * Read the plants, up to a maximum, if a file has only ids, or ids and tags.
 *
 * @param {Preview} preview @param {AbortSignal} signal
 */
export async function readPlants(preview, signal) {
  const { table, columns = { id: -1, name: -1, tag: -1 } } = preview;
  preview.named = undefined;
  if (columns.name >= 0 || columns.id < 0 || !may("plants:read")) return;
  const cells = (table?.rows ?? []).map((row) => row[columns.id]?.trim() ?? "");
  const ids = new Set(cells.filter((cell) => INTEGER.test(cell)));
  const named = new Map();
  if (ids.size > NAMES_MAX) return;
  await forEach(ids, signal, async (id) => {
    const plant = await client.read(id, signal).catch((error) => {
      if (!hasStatus(error, NOT_FOUND)) throw error;
    });
    if (plant) named.set(id, plant);
  });
  preview.named = named;
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
  await forEach(sought, signal, async ([key, text]) => {
    stored.set(key, (isAll ? named.get(key) : await findNamed(text, signal)) ?? []);
  });
}

/**
 * Return the first plants that would change, as they are. A dry run without updates refuses them. The
 * ids of those that differ only in blanks at the ends are added to `same`.
 *
 * @param {Plan} plan @param {Set<string>} same @param {AbortSignal} signal
 */
export async function readChanging({ file, sent, columns }, same, signal) {
  const { result } = await client.import(file, { signal, isDry: true });
  const taken = result.errors.filter(({ error }) => error === ID_TAKEN);
  const lines = new Set(taken.map(({ line }) => line));
  const plants = sent.flatMap(({ line, plant }) => (lines.has(line) ? plant : []));
  const replaced = new Map(plants.map((plant) => [plant.id, plant]));
  const changing = /** @type {import("./plan.js").Changing[]} */ ([]);
  const trim = (text = "") => text.trim();
  let shown = 0;
  await forEach(replaced, signal, async ([id, { name, tag }]) => {
    if (shown === SHOWN_CHANGES) return;
    shown += 1;
    // It may be deleted, or the token does not permit to read it.
    const old = await client.read(id, signal).catch(messageOf);
    if (typeof old === "string") return;
    const plant = { id, name, tag: columns.tag < 0 ? old.tag : tag };
    if (trim(old.name) === trim(plant.name) && trim(old.tag) === trim(plant.tag)) {
      same.add(id);
      shown -= 1;
    } else changing.push({ old, plant });
  });
  return changing.sort((one, other) => compareIds(one.old, other.old));
}

/**
 * Do something with each of many, some at once.
 *
 * @template T
 * @param {Iterable<T>} all @param {AbortSignal} signal @param {(one: T) => Promise<void>} act
 */
async function forEach(all, signal, act) {
  const queue = Iterator.from(all);
  const workers = Array.from({ length: PARALLEL }, async () => {
    for (const one of queue) {
      signal.throwIfAborted();
      await act(one);
    }
  });
  await Promise.all(workers);
}

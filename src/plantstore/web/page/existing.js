/** What the service has already of the plants of a file: the preview shows this, and asks about it. */

import { client } from "./client.js";
import { clean, makeName } from "./elements.js";
import { findAll } from "./listing.js";
import { findNamed, fold } from "./names.js";
import { isOfTags } from "./plan.js";
import { CHANGED } from "./requests.js";
import { may } from "./state.js";

/** @typedef {import("./plan.js").Preview} Preview */
/** @typedef {import("./plan.js").Row} Row */

/** How many plants are compared in one request, if many differ: the service tells as many errors. */
const COMPARED_MAX = 1000;

/** The first of the ids that stand for those that the service gives later. */
const PLACEHOLDER = -(2n ** 63n);

/** How many plants are listed in the time in which one is looked for by its name. */
const PLANTS_A_NAME = 100;

/** How many names are looked for at once: as many as a browser opens connections. */
const PARALLEL = 6;

/**
 * Find the plants that are stored under the ids of rows, and the rows that the service would refuse.
 *
 * @param {Preview} preview @param {AbortSignal} signal
 */
export async function findByIds(preview, signal) {
  const name = isOfTags(preview) && makeName(); // No plant has it.
  const rows = (preview.rows ?? []).filter(({ fault, isSame }) => !fault && !isSame);
  const changes = rows.map(({ plant }, at) => {
    const id = plant.id || String(PLACEHOLDER + BigInt(at));
    return { before: null, after: { ...plant, id, name: name || plant.name } };
  });
  let first = { already_stored: 0 };
  for (let at = 0, many = rows.length; at < rows.length; many = COMPARED_MAX) {
    const part = changes.slice(at, at + many);
    const { result } = await client.change(part, { isDry: true, signal });
    if (at === 0) first = result;
    const { errors, refused } = result;
    // The service tells the first errors, and shows the plants up to a size.
    const isShown = errors.some(({ plant }) => plant);
    const hidden = errors.findIndex(({ error, plant }) => error === CHANGED && !plant && isShown);
    const told = hidden < 0 ? errors : errors.slice(0, hidden);
    for (const error of told) take(rows[at + error.line - 1], error, preview);
    if (hidden >= 0) at += errors[hidden].line - 1;
    else at += refused > errors.length ? errors[errors.length - 1].line : part.length;
  }
  for (const row of name ? rows : []) {
    if (!row.old && !row.isSame) row.fault ||= "No plant has this id";
  }
  return first;
}

/**
 * Note what is wrong with a row, or the plant that has its id.
 *
 * @param {Row} row @param {import("./client.js").ChangesResult["errors"][number]} error
 * @param {Preview} preview
 */
function take(row, { error, message, plant: old }, { columns }) {
  const { id, name, tag } = row.plant;
  if (error === CHANGED && id === "") return; // A plant has the placeholder.
  if (error !== CHANGED) row.fault = message.replace(/^`after\.(name|tag)`/, "The $1");
  else if (!old || !may("plants:update")) row.fault = "Another plant has this id";
  else {
    row.plant = { id, name: name || old.name, tag: columns && columns.tag >= 0 ? tag : old.tag };
    row.isSame =
      clean(old.name) === clean(row.plant.name) && clean(old.tag) === clean(row.plant.tag);
    if (!row.isSame) row.old = old;
  }
}

/**
 * Find the plants that have the names of rows without an id already: those with exactly the name, or
 * else those that fold to it. If a row and a plant are the only ones with a name, it may get the tag of
 * the row.
 *
 * @param {Preview} preview @param {AbortSignal} signal
 */
export async function findByNames({ rows = [], named, columns }, signal) {
  const unnumbered = rows.filter(({ plant, fault }) => plant.id === "" && !fault);
  const groups = Map.groupBy(unnumbered, ({ plant }) => fold(plant.name));
  /** @type {Map<string, string>} */
  const sought = new Map();
  for (const [key, [{ plant }]] of may("plants:read") ? groups : []) {
    if (!named.has(key)) sought.set(key, plant.name);
  }
  let isAll = sought.size > 0;
  const plants = isAll
    ? await findAll(new URLSearchParams({ sort: "name" }), (_, total) => {
        isAll = total <= sought.size * PLANTS_A_NAME && !signal.aborted;
        return isAll;
      })
    : [];
  const all = Map.groupBy(plants, ({ name }) => fold(name));
  const find = async (/** @type {[string, string]} */ [key, name]) => {
    named.set(key, (isAll ? all.get(key) : await findNamed(name, signal)) ?? []);
  };
  const left = [...sought];
  while (left.length > 0) {
    signal.throwIfAborted();
    await Promise.all(left.splice(-PARALLEL).map(find));
  }
  const isTagged = may("plants:update") && columns && columns.id < 0 && columns.tag >= 0;
  for (const [key, group] of groups) {
    const alike = named.get(key) ?? [];
    const [old] = alike;
    const isShared = alike.length > 1 || group.length > 1;
    for (const row of alike.length > 0 ? group : group.slice(1)) {
      const exact = alike.filter(({ name }) => clean(name) === row.plant.name);
      Object.assign(row, { twins: exact.length > 0 ? exact : alike, isShared });
      const { tag } = row.plant;
      const isOther = isTagged && !isShared && clean(old.tag) !== clean(tag);
      if (isOther) row.retagged = { before: old, after: { ...old, tag } };
    }
  }
}

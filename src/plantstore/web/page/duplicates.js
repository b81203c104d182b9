/** Duplicates: plants that share a name, as the search folds it. This module is loaded when it is needed. */

import { make } from "./changes.js";
import { compareIds } from "./client.js";
import { Choice, Frame, open } from "./dialogs.js";
import { countPlants, focus, number } from "./elements.js";
import { html, isolate } from "./html.js";
import { findAll } from "./listing.js";
import { fold } from "./names.js";
import { ApiError } from "./requests.js";
import { explainNoUndo, makeAction } from "./sets.js";
import { change, may, state } from "./state.js";

/** @typedef {import("./client.js").Plant} Plant */

/** How many groups are shown at once: others follow when these are merged. */
const SHOWN_MAX = 100;

/**
 * Return the groups of plants that share a name: in each, those with a tag first, and then those with
 * lower ids.
 *
 * @param {Plant[]} plants
 */
export function group(plants) {
  const groups = Map.groupBy(plants, ({ name }) => fold(name));
  const several = [...groups.values()].filter((each) => each.length > 1);
  const order = (/** @type {Plant} */ one, /** @type {Plant} */ other) =>
    Number(!one.tag) - Number(!other.tag) || compareIds(one, other);
  return several.map((each) => each.sort(order));
}

/** Read all plants, in order of their names, and show the groups. */
export async function findDuplicates() {
  let groups = /** @type {Plant[][]} */ ([]);
  const show = (/** @type {object} */ content) =>
    change(dialog, { content: { groups, ...content } });
  /** @type {import("./dialogs.js").Act} */
  const act = async (typed, { value }) => {
    const at = groups.findIndex(([{ id }]) => id === value);
    const all = groups[at];
    const kept = all.find(({ id }) => id === typed[value]) ?? all[0];
    const others = all.filter((plant) => plant !== kept);
    /** @type {import("./client.js").Change[]} */
    const changes = others.map((before) => ({ before, after: null }));
    const tag = kept.tag ?? others.find((plant) => plant.tag)?.tag;
    if (tag !== kept.tag && may("plants:update"))
      changes.unshift({ before: kept, after: { ...kept, tag } });
    const tell = () =>
      `${countPlants(others.length)} merged into ${kept.id}: ${isolate(kept.name)}`;
    const action = makeAction(tell, others.length, "plants:create", true);
    const { left, error } = await make(changes, action);
    if (error) throw error;
    const isMerged = left.length === 0;
    if (isMerged) groups = groups.filter((each) => each !== all);
    show({});
    const next = groups[at] ?? groups.at(-1);
    focus(next ? `#duplicates [name="${next[0].id}"]` : "#duplicates menu button");
    const lost = others.flatMap((plant) => (plant.tag && plant.tag !== tag ? plant.tag : []));
    const gone = lost.length > 0 ? ` Their tags are gone: ${[...new Set(lost)].join(", ")}.` : "";
    return isMerged
      ? `${countPlants(others.length)} deleted. Plant ${kept.id} is kept.${gone}`
      : "";
  };
  /** @type {import("./dialogs.js").Dialog} */
  const dialog = { View: DuplicatesView, title: "Find duplicates", content: {}, act };
  open(Object.assign(dialog, { content: { read: 0 }, isDisposable: true }));
  try {
    const plants = await findAll(new URLSearchParams({ sort: "name" }), (found, total) => {
      show({ read: found.size, total });
      return state.dialog === dialog;
    });
    groups = group(plants);
    show({});
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    change(dialog, { error, content: { groups } });
  }
}

/** @param {{groups: Plant[][], read?: number, total?: number}} props what was read, while it is read */
function DuplicatesView({ groups, read, total = 0 }) {
  const many = groups?.length ?? 0;
  const said = `${number(many)} ${many === 1 ? "name occurs" : "names occur"} more than once`;
  return html`
    <${Frame} id="duplicates" cancel="Close" buttons=${[]}>
      <progress hidden=${read === undefined} value=${read} max=${total || 1} aria-label="Plants read" />
      <p role="status">${read === undefined ? said : `${number(read)} of ${countPlants(total)} read`}</p>
      <p class="hint">${groups?.length > 0 && explainNoUndo("plants:create")}</p>
      ${groups?.slice(0, SHOWN_MAX).map((plants) => html`<${Group} key=${plants[0].id} plants=${plants} />`)}
      <p class="hint">${many > SHOWN_MAX && `The other ${number(many - SHOWN_MAX)} follow when these are merged.`}</p>
    <//>
  `;
}

/** @param {{plants: Plant[]}} props */
function Group({ plants }) {
  const [{ id, name }] = plants;
  const options = plants.map((plant) => [
    plant.id,
    html`<span><bdi class="hint">${plant.id}</bdi> <bdi>${plant.name}</bdi> <bdi class="hint">${plant.tag}</bdi></span>`,
  ]);
  // Enter would press the first button of the dialog.
  const merge = (/** @type {On<HTMLElement, KeyboardEvent>} */ event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    if (!event.repeat) event.currentTarget.querySelector("button")?.click();
  };
  return html`
    <fieldset onkeydown=${merge}>
      <legend>Keep one of ${number(plants.length)}</legend>
      <${Choice} name=${id} options=${options} />
      <button value=${id} aria-label="Merge the plants named ${name}">Merge</button>
    </fieldset>
  `;
}

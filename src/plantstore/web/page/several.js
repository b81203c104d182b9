/** What is done with one plant or several, after a question: delete them, or set their tag. */

import { addressOf } from "./address.js";
import { make } from "./changes.js";
import { client } from "./client.js";
import { ask, Field, Frame, open } from "./dialogs.js";
import { countPlants, number, say } from "./elements.js";
import { html, isolate } from "./html.js";
import { findAll, loadAgain } from "./listing.js";
import { messageOf } from "./requests.js";
import { explainNoUndo, makeAction } from "./sets.js";
import { state } from "./state.js";
import { refreshTags, SUGGESTING } from "./tags.js";

/** @typedef {import("./client.js").Plant} Plant */

/** How many plants a question names. */
const NAMED_MAX = 5;

/** @param {{plants: Plant[], scope: string}} props the scope that the undo of their change needs */
function Names({ plants, scope }) {
  const named = plants.slice(0, NAMED_MAX).map(({ id, name }) => html`<bdi>${id}: ${name}</bdi>`);
  const more = plants.length - named.length;
  return html`
    <p id="question-plant">
      ${named}${more > 0 && `and ${number(more)} more`}
    </p>
    <p class="hint">${explainNoUndo(scope)}</p>
  `;
}

/** @param {{plants: Plant[], scope: string}} props */
function DeleteView(props) {
  return html`
    <${Frame} id="question" aria-describedby="question-plant"
        buttons=${[["delete", "Delete", "danger"]]}>
      <${Names} ...${props} />
    <//>
  `;
}

/** @param {{plants: Plant[], scope: string, tag: string, label: string}} props */
function TagView({ tag, label, ...props }) {
  const tagged = props.plants.filter((plant) => plant.tag !== undefined).length;
  const lost = `${number(tagged)} of them ${tagged === 1 ? "has a tag now: it" : "have a tag now: it"} is replaced.`;
  return html`
    <${Frame} id="tagging" fields=${["tag"]} buttons=${[["save", label, "primary"]]}>
      <${Names} ...${props} />
      <${Field} id="tagging-tag" name="tag" label="Tag" autofocus value=${tag}
        onfocus=${select} ...${SUGGESTING} hint="If it is empty, the plants will have no tag." />
      <p class="hint">${tag === "" && tagged > 0 && lost}</p>
    <//>
  `;
}

/** Select the old tag, so that typing replaces it. @param {On<HTMLInputElement>} event */
const select = ({ currentTarget }) => currentTarget.select();

/** Delete the selected plants. @param {Plant[]} plants */
export async function deleteSelected(plants) {
  await deletePlants(plants).catch((error) => say(messageOf(error)));
  if (!state.dialog) loadAgain();
}

/**
 * Delete plants: one that can be restored at once, others after a confirmation.
 *
 * @param {Plant[]} plants
 * @returns {Promise<string|undefined>} "" if the user has stopped it
 */
export async function deletePlants(plants) {
  const entitle = (/** @type {number} */ many) =>
    many === 1 ? "Delete this plant?" : `Delete ${countPlants(many)}?`;
  const action = makeAction("deleted", plants.length, "plants:create");
  if (plants.length > 1 || !state.keepsChanges || explainNoUndo(action.scope)) {
    askAndMake({ View: DeleteView, plants, entitle, action, change: () => null });
    return undefined;
  }
  const { left, error } = await make([{ before: plants[0], after: null }], action);
  if (error) throw error;
  return left.length > 0 ? "" : undefined;
}

/** Ask for a tag, and set it at each of the plants. @param {Plant[]} plants */
export function tagPlants(plants) {
  askForTag(plants, (many) => `Set the tag of ${countPlants(many)}`, "", "Set tag");
}

/** Ask for another name of a tag, and set it at its plants; ask first if others have it. @param {string} tag */
export async function renameTag(tag) {
  try {
    const plants = await findAll(new URLSearchParams({ tag }));
    if (state.dialog) return;
    const entitle = (/** @type {number} */ many) => `Rename the tag of ${countPlants(many)}`;
    const end = (/** @type {string} */ other) => {
      // The list of the old tag would be empty.
      history.replaceState({}, "", addressOf(other ? { tag: other } : {}));
      refreshTags();
    };
    let merged = tag;
    const isAgreed = async (/** @type {string} */ other) => {
      if (other === merged || !other) return true;
      const { total, isExact } = await client.list(new URLSearchParams({ tag: other }), 1);
      const title = `${countPlants(total, isExact)} ${total === 1 ? "has" : "have"} this tag already`;
      const text = "The two tags become one.";
      if (total > 0 && (await ask({ title, text, yes: "Merge", no: "Cancel" })) !== "yes")
        return false;
      merged = other;
      return true;
    };
    askForTag(plants, entitle, tag, "Rename", { isAgreed, end });
  } catch (error) {
    say(messageOf(error));
  }
}

/**
 * @param {Plant[]} plants
 * @param {(many: number) => string} entitle returns the title
 * @param {string} old the tag that the plants keep if nothing else is typed
 * @param {string} label of the button
 * @param {{isAgreed?: (tag: string) => Promise<boolean>, end?: (tag: string) => void}} [more] whether
 *   the plants may get the tag, and what is called when all of them have it
 */
function askForTag(plants, entitle, old, label, { isAgreed, end } = {}) {
  const action = makeAction("", plants.length, "plants:update");
  askAndMake({
    View: TagView,
    plants,
    entitle,
    action,
    change: (plant, { tag = old }) => ({ ...plant, tag: tag || undefined }),
    begin: async ({ tag = old }) => {
      action.outcome = `now have ${tag ? `the tag ${isolate(tag)}` : "no tag"}`;
      return (await isAgreed?.(tag)) ?? true;
    },
    content: { tag: old, label },
    end: ({ tag = old }) => end?.(tag),
  });
}

/**
 * Open a dialog that changes plants. It stays open with those whose change fails.
 *
 * @typedef {Partial<Record<string, string>>} Typed
 * @param {{View: import("./dialogs.js").Dialog["View"], plants: Plant[],
 *   entitle: (many: number) => string, action: import("./sets.js").Action,
 *   change: (plant: Plant, typed: Typed) => ?Plant, content?: object,
 *   begin?: (typed: Typed) => Promise<boolean>, end?: (typed: Typed) => void}} options `entitle`
 *   returns the title, `begin` whether they are changed, and `end` is called when all of them are
 */
function askAndMake({ View, plants, entitle, action, change, content, begin, end }) {
  let left = plants;
  const describe = () => ({
    title: entitle(left.length),
    content: { ...content, scope: action.scope, plants: left },
  });
  /** @type {import("./dialogs.js").Act} */
  const act = async (typed) => {
    if (begin && !(await begin(typed))) return "";
    const changes = left.map((before) => ({ before, after: change(before, typed) }));
    const rest = await make(changes, action);
    left = rest.left.flatMap(({ before }) => before ?? []);
    if (!rest.isStopped && left.length === 0) end?.(typed);
    if (rest.isStopped || left.length === 0) return undefined;
    Object.assign(dialog, describe());
    if (rest.error) throw rest.error;
    return "";
  };
  const dialog = { View, ...describe(), act };
  open(dialog);
}

/** What is done with one plant or several, after a question: delete them, or set their tag. */

import { addressOf } from "./address.js";
import { make } from "./changes.js";
import { client } from "./client.js";
import { ask, Field, Frame, open } from "./dialogs.js";
import { countPlants, Listed, number } from "./elements.js";
import { html, isolate } from "./html.js";
import { findAll, loadAgain } from "./listing.js";
import { explainNoUndo, makeAction } from "./sets.js";
import { state } from "./state.js";
import { refreshTags, SUGGESTING } from "./tags.js";

/** @typedef {import("./client.js").Plant} Plant */

/** How many plants a question names. */
const NAMED_MAX = 5;

/**
 * The question before plants are changed, with a field if they get a tag.
 *
 * @param {{plants: Plant[], scope: string, label: string, tag?: string}} props the scope that the undo
 *   needs, the label of the button, and the tag that the field has at first
 */
function SeveralView({ plants, scope, label, tag }) {
  const show = (/** @type {Plant} */ { id, name }) => html`<bdi>${id}: ${name}</bdi>`;
  const tagged = plants.filter((plant) => plant.tag !== undefined).length;
  const lost = `${number(tagged)} of them ${tagged === 1 ? "has a tag now: it" : "have a tag now: it"} is replaced.`;
  const isTag = tag !== undefined;
  return html`
    <${Frame} id="question" aria-describedby="question-plant" fields=${isTag ? ["tag"] : []}
        buttons=${[["make", label, isTag ? "primary" : "danger"]]}>
      <${Listed} id="question-plant" aria-label="Plants" items=${plants} max=${NAMED_MAX} show=${show} />
      <p class="hint">${explainNoUndo(scope)}</p>
      ${
        isTag &&
        html`<${Field} id="question-tag" name="tag" label="Tag" autofocus value=${tag} ...${SUGGESTING}
          onfocus=${select} hint="If it is empty, the plants will have no tag." />`
      }
      <p class="hint">${tag === "" && tagged > 0 && lost}</p>
    <//>
  `;
}

/** Select the old tag, so that typing replaces it. @param {On<HTMLInputElement>} event */
const select = ({ currentTarget }) => currentTarget.select();

/** Delete the selected plants. @param {Plant[]} plants */
export async function deleteSelected(plants) {
  await deletePlants(plants).finally(() => state.dialog || loadAgain());
}

/**
 * Delete plants: one that can be restored at once, others after a confirmation.
 *
 * @param {Plant[]} plants
 * @returns {Promise<string|undefined>} "" if the user has stopped it
 */
export async function deletePlants(plants) {
  const [{ id, name }] = plants;
  const which = plants.length === 1 ? `: ${id} ${isolate(name)}` : "";
  const action = makeAction(`deleted${which}`, plants.length, "plants:create", true);
  if (plants.length > 1 || !state.keepsChanges || explainNoUndo(action.scope)) {
    const entitle = (/** @type {number} */ many) =>
      many === 1 ? "Delete this plant?" : `Delete ${countPlants(many)}?`;
    askAndMake({ plants, entitle, label: "Delete", action, change: () => null });
    return undefined;
  }
  const { left, error } = await make([{ before: plants[0], after: null }], action);
  if (error) throw error;
  return left.length > 0 ? "" : undefined;
}

/** Ask for a tag, and set it at each of the plants. @param {Plant[]} plants */
export function tagPlants(plants) {
  const entitle = (/** @type {number} */ many) => `Set the tag of ${countPlants(many)}`;
  askForTag({ plants, entitle, label: "Set tag", tag: "" });
}

/** Ask for another name of a tag, and set it at its plants; ask first if others have it. @param {string} tag */
export async function renameTag(tag) {
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
    const title = `${countPlants(total, isExact)} ${total === 1 ? "has" : "have"} the tag ${isolate(other)} already`;
    const text = "The two tags become one.";
    const isMerge =
      total === 0 || (await ask({ title, text, yes: "Merge", no: "Cancel" })) === "yes";
    if (isMerge) merged = other;
    return isMerge;
  };
  askForTag({ plants, entitle, label: "Rename", tag }, isAgreed, end);
}

/**
 * @param {{plants: Plant[], entitle: (many: number) => string, label: string, tag: string}} options the
 *   plants keep the tag if nothing else is typed
 * @param {(tag: string) => Promise<boolean>} [isAgreed] whether the plants may get the tag
 * @param {(tag: string) => void} [end] is called when all of them have it
 */
function askForTag({ tag: old, ...options }, isAgreed, end) {
  const action = makeAction("", options.plants.length, "plants:update");
  askAndMake({
    ...{ ...options, action, tag: old },
    change: (plant, { tag = old }) => ({ ...plant, tag: tag || undefined }),
    begin: async ({ tag = old }) => {
      action.outcome = `now have ${tag ? `the tag ${isolate(tag)}` : "no tag"}`;
      return (await isAgreed?.(tag)) ?? true;
    },
    end: ({ tag = old }) => end?.(tag),
  });
}

/**
 * Open a dialog that changes plants. It stays open with those whose change fails.
 *
 * @typedef {Partial<Record<string, string>>} Typed
 * @param {{plants: Plant[], entitle: (many: number) => string, label: string, tag?: string,
 *   action: import("./sets.js").Action, change: (plant: Plant, typed: Typed) => ?Plant,
 *   begin?: (typed: Typed) => Promise<boolean>, end?: (typed: Typed) => void}} options `entitle`
 *   returns the title, `begin` whether they are changed, and `end` is called when all of them are
 */
function askAndMake({ plants, entitle, label, tag, action, change, begin, end }) {
  let left = plants;
  const describe = () => ({
    title: entitle(left.length),
    content: { plants: left, scope: action.scope, label, tag },
  });
  /** @type {import("./dialogs.js").Act} */
  const act = async (typed) => {
    if (begin && !(await begin(typed))) return "";
    const changes = left.map((before) => ({ before, after: change(before, typed) }));
    const rest = await make(changes, action);
    left = rest.left.flatMap(({ before }) => before ?? []);
    if (rest.isStopped) return undefined;
    if (left.length === 0) return end?.(typed);
    Object.assign(dialog, describe());
    if (rest.error) throw rest.error;
    return "";
  };
  const dialog = { View: SeveralView, ...describe(), act };
  open(dialog);
}

/** What is done with one plant or several, after a question: delete them, or set their tag. */

import { make, makeJob } from "./changes.js";
import { client } from "./client.js";
import { Field, Frame, open } from "./dialogs.js";
import { countPlants, number, say } from "./elements.js";
import { html } from "./html.js";
import { addressOf, findAll } from "./listing.js";
import { messageOf } from "./requests.js";
import { state } from "./state.js";
import { refreshTags, SUGGESTING } from "./tags.js";

/** @typedef {import("./client.js").Plant} Plant */

/** How many plants a question names. */
const NAMED_MAX = 5;

/** @param {{plants: Plant[]}} props */
function Names({ plants }) {
  const ids = new Set(state.listing?.plants.map(({ id }) => id));
  const others = plants.filter(({ id }) => !ids.has(id));
  const inOrder = [...plants.filter(({ id }) => ids.has(id)), ...others];
  const named = inOrder.slice(0, NAMED_MAX).map(({ id, name }) => html`<bdi>${id}: ${name}</bdi>`);
  const more = plants.length - named.length;
  return html`
    <p id="question-plant">
      ${named}${more > 0 && `and ${number(more)} more`}
      ${others.length > 0 && html`<span>${number(others.length)} of them not on the page that is shown</span>`}
    </p>
  `;
}

/** @param {{plants: Plant[]}} props */
function DeleteView({ plants }) {
  return html`
    <${Frame} id="question" aria-describedby="question-plant"
        buttons=${[["delete", "Delete", "danger"]]}>
      <${Names} plants=${plants} />
    <//>
  `;
}

/** @param {{plants: Plant[], tag: string, label: string}} props */
function TagView({ plants, tag, label }) {
  return html`
    <${Frame} id="tagging" fields=${["tag"]} buttons=${[["save", label, "primary"]]}>
      <${Names} plants=${plants} />
      <${Field} id="tagging-tag" name="tag" label="Tag" autofocus value=${tag}
        ...${SUGGESTING} hint="If it is empty, the plants will have no tag." />
    <//>
  `;
}

/** Delete plants, after a confirmation, and offer to undo it. @param {Plant[]} plants */
export function deletePlants(plants) {
  const entitle = (/** @type {number} */ many) =>
    many === 1 ? "Delete this plant?" : `Delete ${countPlants(many)}?`;
  askAndMake({ View: DeleteView, plants, entitle, verb: "Deleted", change: () => null });
}

/** Ask for a tag, set it at each of the plants, and offer to undo it. @param {Plant[]} plants */
export function tagPlants(plants) {
  askForTag(plants, (many) => `Set the tag of ${countPlants(many)}`, "", "Set tag");
}

/** Ask for another name of a tag, and set it at its plants, up to a maximum. @param {string} tag */
export async function renameTag(tag) {
  const query = new URLSearchParams({ tag });
  try {
    const { total } = await client.list(query, 1);
    const plants = await findAll(query);
    if (state.dialog) return;
    const isPart = plants.length < total;
    const entitle = (/** @type {number} */ many) =>
      isPart && many === plants.length
        ? `Rename the tag of the first ${number(many)} of ${countPlants(total)}`
        : `Rename the tag of ${countPlants(many)}`;
    const end = (/** @type {string} */ other) => {
      if (isPart) return;
      // The list of the old tag would be empty.
      history.replaceState({}, "", addressOf(other ? { tag: other } : {}));
      refreshTags();
    };
    askForTag(plants, entitle, tag, "Rename", end);
  } catch (error) {
    say(messageOf(error));
  }
}

/**
 * @param {Plant[]} plants
 * @param {(many: number) => string} entitle returns the title
 * @param {string} old the tag that the plants keep if nothing else is typed
 * @param {string} label of the button
 * @param {(tag: string) => void} [end] is called when all plants have the tag
 */
function askForTag(plants, entitle, old, label, end) {
  askAndMake({
    View: TagView,
    plants,
    entitle,
    verb: "Saved",
    change: (plant, { tag = old }) => ({ ...plant, tag: tag || undefined }),
    outcome: ({ tag = old }) => `now have ${tag ? `the tag ${tag}` : "no tag"}`,
    content: { tag: old, label },
    end: ({ tag = old }) => end?.(tag),
  });
}

/**
 * Open a dialog that changes plants. It stays open with those whose change fails.
 *
 * @typedef {Partial<Record<string, string>>} Typed
 * @param {{View: import("./dialogs.js").Dialog["View"], plants: Plant[],
 *   entitle: (many: number) => string, verb: import("./changes.js").Verb,
 *   change: (plant: Plant, typed: Typed) => ?Plant, outcome?: (typed: Typed) => string,
 *   content?: object, end?: (typed: Typed) => void}} options `entitle` returns the title, and `end`
 *   is called when all plants are changed
 */
function askAndMake({ View, plants, entitle, verb, change, outcome, content, end }) {
  let left = plants;
  const job = makeJob(verb, plants.length);
  const describe = () => ({ title: entitle(left.length), content: { ...content, plants: left } });
  /** @type {import("./dialogs.js").Act} */
  const act = async (typed) => {
    const changes = left.map((before) => ({ before, after: change(before, typed) }));
    if (outcome) job.outcome = outcome(typed);
    const rest = await make(changes, job);
    left = rest.left.flatMap(({ before }) => before ?? []);
    if (!job.isStopped && left.length === 0) end?.(typed);
    if (job.isStopped || left.length === 0) return undefined;
    Object.assign(dialog, describe());
    if (rest.error) throw rest.error;
    return "";
  };
  const dialog = { View, ...describe(), act };
  open(dialog);
}

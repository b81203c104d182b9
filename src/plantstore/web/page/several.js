/** What is done with one plant or several, after a question: delete them, or set their tag. */

import { make, makeJob } from "./changes.js";
import { Field, Frame, open } from "./dialogs.js";
import { countPlants } from "./elements.js";
import { html } from "./html.js";

/** @typedef {import("./client.js").Plant} Plant */

/** How many plants a question names. */
const NAMED_MAX = 5;

/** @param {{plants: Plant[]}} props */
function Names({ plants }) {
  const named = plants.slice(0, NAMED_MAX).map(({ id, name }) => html`<bdi>${id}: ${name}</bdi>`);
  const more = plants.length - named.length;
  return html`<p id="question-plant">
    ${named}${more > 0 && `and ${more.toLocaleString("en")} more`}
  </p>`;
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

/** @param {{plants: Plant[]}} props */
function TagView({ plants }) {
  return html`
    <${Frame} id="tagging" fields=${["tag"]} buttons=${[["save", "Set tag", "primary"]]}>
      <${Names} plants=${plants} />
      <${Field} id="tagging-tag" name="tag" label="Tag" dir="auto" autofocus list="tags"
        hint="If it is empty, the plants will have no tag." />
    <//>
  `;
}

/** Delete plants, after a confirmation, and offer to undo it. @param {Plant[]} plants */
export function deletePlants(plants) {
  const entitle = (/** @type {number} */ many) =>
    many === 1 ? "Delete this plant?" : `Delete ${countPlants(many)}?`;
  askAndMake(DeleteView, plants, entitle, "Deleted", () => null);
}

/** Ask for a tag, set it at each of the plants, and offer to undo it. @param {Plant[]} plants */
export function tagPlants(plants) {
  const entitle = (/** @type {number} */ many) => `Set the tag of ${countPlants(many)}`;
  const outcome = (/** @type {Typed} */ { tag }) => `now have ${tag ? `the tag ${tag}` : "no tag"}`;
  const change = (/** @type {Plant} */ plant, /** @type {Typed} */ { tag }) => ({
    ...plant,
    tag: tag || undefined,
  });
  askAndMake(TagView, plants, entitle, "Saved", change, outcome);
}

/**
 * Open a dialog that changes plants. It stays open with those whose change fails.
 *
 * @typedef {Partial<Record<string, string>>} Typed
 * @param {import("./dialogs.js").Dialog["View"]} View
 * @param {Plant[]} plants
 * @param {(many: number) => string} entitle returns the title
 * @param {import("./changes.js").Verb} verb
 * @param {(plant: Plant, typed: Typed) => ?Plant} change
 * @param {(typed: Typed) => string} [outcome]
 */
function askAndMake(View, plants, entitle, verb, change, outcome) {
  let left = plants;
  const job = makeJob(verb, plants.length);
  const describe = () => ({ title: entitle(left.length), content: { plants: left } });
  /** @type {import("./dialogs.js").Act} */
  const act = async (typed) => {
    const changes = left.map((before) => ({ before, after: change(before, typed) }));
    if (outcome) job.outcome = outcome(typed);
    const rest = await make(changes, job);
    left = rest.left.flatMap(({ before }) => before ?? []);
    if (job.isStopped || left.length === 0) return undefined;
    Object.assign(dialog, describe());
    if (rest.error) throw rest.error;
    return "";
  };
  const dialog = { View, ...describe(), act };
  open(dialog);
}

/** Duplicates: which names are the same, and what becomes of the plants. */

import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { findDuplicates, group } from "../../src/plantstore/web/page/duplicates.js";
import { fold } from "../../src/plantstore/web/page/names.js";
import { state, update } from "../../src/plantstore/web/page/state.js";
import { answer, findAll, respond, respondPlants, serve, textOf } from "./tab.js";

const PLANTS = [
  { id: "3", name: "Łąka", tag: "Bed" },
  { id: "7", name: "ROSA  canina" },
  { id: "8", name: "Rosa canina L." },
  { id: "9", name: "Rosa canina", tag: "Bed" },
  { id: "10", name: "“Rosa canina”" },
];

beforeEach(() => update({ dialog: null, toast: { text: "" }, sets: [], scopes: null }));

describe("names are the same as the search folds them", () => {
  for (const [one, other] of [
    ["Łódź", "LODZ"],
    ["ʻōhiʻa", "Ohia"],
    ["d'Anjou", "d’Anjou"],
    ["d´Anjou", "d`Anjou"],
    ["d′Anjou", "dAnjou"],
    ["Kwakˈwala", "Kwakwala"],
    ["بـيت", "بيت"],
    ["Rosa × alba", "Rosa x Alba"],
    ["Rosa ×alba", "rosa x alba"],
    ["Weiß", "WEISS"],
    ["Æonium", "aeonium"],
    ["ﬁg", "fig"],
    ["Роза", "РОЗА"],
    ["Abies\u00a0 alba", "abies alba"],
    ["Rosa \u0301alba", "rosa alba"],
  ]) {
    test(`${one} and ${other}`, () => assert.equal(fold(one), fold(other)));
  }

  test("and others are not", () => {
    const names = ["Rosa alba", "Rosa × alba", "Rosaalba", "Rosa alba 2", "バラ", "ハ", "+", "-"];

    assert.equal(new Set(names.map(fold)).size, names.length);
  });
});

test("only plants that share a name are in groups, those with a tag first, then those of lower ids", () => {
  const ids = group(PLANTS.toReversed()).map((plants) => plants.map(({ id }) => id));

  assert.deepEqual(ids, [["9", "7", "10"]]);
});

/** Find the duplicates of plants that are stored. */
async function find(plants) {
  answer(respondPlants(plants, { "Total-Count": String(plants.length) }));
  await findDuplicates();
  return state.dialog;
}

/** Return the text of the dialog. */
const shown = ({ View, content }) => textOf(View(content));

test("of a group, the chosen plant is kept, with a tag if one has it, and the others are deleted in one change set", async () => {
  const dialog = await find(PLANTS);
  assert.match(
    shown(dialog),
    /1 name occurs more than once .*Keep one of 3 9 Rosa canina Bed 7 ROSA {2}canina 10 /,
  );
  const { stored, sets, requests } = serve(PLANTS);

  const said = await dialog.act({ 9: "7" }, { value: "9" });

  assert.deepEqual([...stored.keys()], ["3", "7", "8"]);
  assert.equal(stored.get("7").tag, "Bed");
  assert.deepEqual([sets.size, requests], [1, ["POST changes"]]);
  assert.equal(said, "2 plants deleted. Plant 7 is kept.");
  assert.equal(state.toast.text, "2 plants merged into 7: \u2068ROSA  canina\u2069");
  assert.doesNotMatch(shown(dialog), /Merge/);
  await state.toast.action[1]();
  assert.equal(stored.size, 5);
});

test("after a merge, the focus goes to the next group, and at the end to the button that closes", async () => {
  const twins = ["Abies", "Picea", "Rosa"].flatMap((name, at) => [
    { id: `1${at}`, name },
    { id: `2${at}`, name },
  ]);
  const dialog = await find(twins);
  serve(twins);
  const focused = [];
  const { querySelector } = document;
  document.querySelector = (selector) => {
    focused.push(selector);
    return null;
  };

  for (const value of ["11", "12", "10"]) await dialog.act({}, { value });
  Object.assign(document, { querySelector });

  const first = '#duplicates [name="12"]';
  assert.deepEqual(focused, [first, '#duplicates [name="10"]', "#duplicates menu button"]);
});

test("Enter merges the group that has the focus, and not the next ones while it is held", async () => {
  const { View, content } = await find(["1", "2"].map((id) => ({ id, name: "Rosa" })));
  const [{ onkeydown }] = findAll("fieldset", View(content));
  let [prevented, merged] = [0, 0];
  const currentTarget = { querySelector: () => ({ click: () => (merged += 1) }) };
  const preventDefault = () => (prevented += 1);

  for (const repeat of [false, true, true]) {
    onkeydown({ key: "Enter", repeat, currentTarget, preventDefault });
  }

  assert.deepEqual([prevented, merged], [3, 1]);
});

test("while plants are read, the dialog says how many, and its end ends the reading", async () => {
  const link = { "Total-Count": "100", Link: '<plants?sort=name&from=a&after=1>; rel="next"' };
  const further = { ...link, Link: link.Link.replace("=1", "=2") };
  let release = () => {};
  const requests = answer(
    respondPlants(PLANTS, link),
    new Promise((resolve) => (release = () => resolve(respondPlants([], further)))),
  );

  const ended = findDuplicates();
  while (requests.length < 2) await new Promise(setImmediate);
  assert.match(shown(state.dialog), /5 of 100 plants read/);
  update({ dialog: null });
  release();
  await ended;

  assert.equal(requests[0].path, "plants?sort=name&limit=1000");
  assert.equal(requests.length, 2);
});

test("if plants cannot be read, the dialog says why", async () => {
  answer(respond({ message: "It is busy" }, 503));

  await findDuplicates();

  assert.match(shown(state.dialog), /It is busy/);
});

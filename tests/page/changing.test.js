/** Adding, changing and deleting plants: no change is lost or made without a question. */

import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, test } from "node:test";
import { Catalogue } from "../../src/plantstore/web/page/catalogue.js";
import { forgetError, readTyped } from "../../src/plantstore/web/page/dialogs.js";
import { Toast } from "../../src/plantstore/web/page/elements.js";
import { html, isolate } from "../../src/plantstore/web/page/html.js";
import { addPlants, openLinkedPlant } from "../../src/plantstore/web/page/plant.js";
import { ApiError } from "../../src/plantstore/web/page/requests.js";
import {
  deletePlants,
  deleteSelected,
  renameTag,
  tagPlants,
} from "../../src/plantstore/web/page/several.js";
import { onUpdate, state, update } from "../../src/plantstore/web/page/state.js";
import {
  answer,
  answerFile,
  findAll,
  respond,
  respondPlants,
  serve,
  textOf,
  visited,
  wide,
  withResponse,
} from "./tab.js";

const ABIES = { id: "1", name: "Abies", tag: "Pine" };
const ROSA = { id: "2", name: "Rosa" };
const ACER = { id: "3", name: "Acer" };

/** The button of the dialog that is pressed. */
const SAVE = { value: "save" };

const EXACT = "count=exact";

const sent = (requests) => requests.map(({ method, path }) => `${method} ${path}`);

beforeEach(() => {
  update({
    dialog: null,
    question: null,
    toast: { text: "" },
    sets: [],
    keepsChanges: true,
    scopes: null,
  });
});

/** Answer the questions of the page, in turn; return the questions. */
function answerQuestions(...answers) {
  const asked = [];
  onUpdate(() => {
    const { question } = state;
    if (!question || asked.includes(question)) return;
    asked.push(question);
    question.answer(answers.shift());
  });
  return asked;
}

/** Press the button of the feedback, and return what is said then. */
async function undo() {
  await state.toast.action[1]();
  return state.toast.text;
}

/** Open a plant as it is stored. */
async function open(plant) {
  serve([plant]);
  location.hash = `#/plants/${plant.id}`;
  await openLinkedPlant();
  return state.dialog;
}

test("a field that is not edited keeps a value that an input cannot hold", async () => {
  const odd = { id: "7", name: "two\nlines", tag: "" };
  const { act } = await open(odd);

  const tagged = serve([odd]);
  await act({ tag: "Picea" }, SAVE);
  const named = serve([odd]);
  await act({ name: "Named" }, SAVE);

  assert.deepEqual(tagged.stored.get("7"), { ...odd, tag: "Picea" });
  assert.deepEqual(named.stored.get("7"), { ...odd, name: "Named" });
  assert.deepEqual([state.toast.text, state.toast.plant.name], ["Saved:", "Named"]);
});

test("a hint about another plant moves no field in the order of the Tab key", () => {
  addPlants();
  Object.assign(state.dialog.content, { namesake: ABIES });

  const form = textOf(html`<${state.dialog.View} ...${state.dialog.content} />`);

  assert.match(form, /^Add a plant Name Tag Id .*Another plant has this name: 1 /);
});

test("lines that are pasted into a field become one, and accents a part of their letters", () => {
  const { querySelectorAll } = document;
  document.querySelectorAll = () => [
    { name: "name", value: "Rose\u0301\r\nalba\n", defaultValue: "" },
  ];

  const typed = readTyped();

  Object.assign(document, { querySelectorAll });
  assert.deepEqual(typed, { name: "Rosé alba" });
});

test("a tag that is emptied is removed", async () => {
  const { act } = await open(ABIES);
  const { stored } = serve([ABIES]);

  await act({ tag: "" }, SAVE);

  assert.deepEqual(stored.get("1"), { id: "1", name: "Abies" });
});

test("a change is undone from its message, unless the plant was changed again", async () => {
  const { act } = await open(ABIES);
  const { stored, sets } = serve([ABIES]);
  await act({ name: "Mine" }, SAVE);
  const undone = await undo();
  assert.deepEqual([stored.get("1"), undone, state.toast.plant], [ABIES, "Undone:", ABIES]);

  const again = await open(ABIES);
  const service = serve([ABIES]);
  await again.act({ name: "Mine" }, SAVE);
  service.stored.set("1", { ...ABIES, tag: "Theirs" });

  assert.equal(await undo(), "Not undone, since it was changed again:");
  assert.deepEqual([service.stored.get("1").tag, sets.size], ["Theirs", 1]);
  assert.deepEqual(state.sets, []);
});

describe("a change by somebody else is not overwritten without a question", () => {
  const theirs = { ...ABIES, name: "Theirs", tag: undefined };

  test("fields that only one of the two has changed are merged", async () => {
    const { act } = await open(ABIES);
    const { stored } = serve([{ ...ABIES, tag: "Theirs" }]);
    const asked = answerQuestions();

    await act({ name: "Mine" }, SAVE);

    assert.deepEqual(asked, []);
    assert.deepEqual(stored.get("1"), { id: "1", name: "Mine", tag: "Theirs" });
  });

  test("mine is saved, also after another change meanwhile, and their other field", async () => {
    const { act } = await open(ABIES);
    let times = 0;
    const { stored } = serve([theirs], (change) => {
      times += change === "CHANGE" ? 1 : 0;
      if (times === 2) stored.set("1", { ...theirs, name: "Later" });
    });
    const asked = answerQuestions("yes", "yes");

    await act({ name: "Mine" }, SAVE);

    assert.deepEqual(
      asked.map(({ versions }) => versions),
      [[["Name", "Theirs", "Mine"]], [["Name", "Later", "Mine"]]],
    );
    assert.equal(asked[0].title, "Somebody else has changed plant 1");
    assert.deepEqual(stored.get("1"), { id: "1", name: "Mine" });
  });

  test("if theirs is kept, so is the other field that only I have changed", async () => {
    const { act } = await open(ABIES);
    const { stored } = serve([{ ...ABIES, name: "Theirs" }]);
    answerQuestions("no");

    await act({ name: "Mine", tag: "Mine" }, SAVE);

    assert.deepEqual(stored.get("1"), { id: "1", name: "Theirs", tag: "Mine" });
  });

  for (const [given, isOpen] of [
    ["no", false],
    ["", true],
  ]) {
    test(`theirs is kept after "${given}"`, async () => {
      const { act } = await open(ABIES);
      const { stored } = serve([theirs]);
      answerQuestions(given);

      const said = await act({ name: "Mine" }, SAVE);

      assert.equal(said === "", isOpen);
      assert.equal(stored.get("1"), theirs);
      assert.equal(state.toast.text, "");
    });
  }

  test("a plant that they deleted is stored again", async () => {
    const { act } = await open(ABIES);
    const { stored } = serve([]);
    const asked = answerQuestions("yes");

    await act({ name: "Mine" }, SAVE);

    const { title, yes, no, versions } = asked[0];
    assert.equal(title, "Somebody else has deleted plant 1");
    assert.deepEqual([yes, no], ["Restore mine", "Leave it deleted"]);
    assert.deepEqual(versions[0], ["Name", null, "Mine"]);
    assert.deepEqual(stored.get("1"), { ...ABIES, name: "Mine" });
  });
});

test("a change that the service refuses is shown at its field", async () => {
  const { act } = await open(ABIES);
  const service = serve([ABIES]);
  service.refuse = () => ({ error: 1003, message: "`after.name` must not contain U+0000" });

  await assert.rejects(act({ name: "\0" }, SAVE), { member: "name" });

  assert.equal(state.toast.text, "");
});

test("an error of a dialog is shown until its reason is gone, and then it is tried again", () => {
  let tries = 0;
  const error = new ApiError("The token is revoked", 401);
  update({ dialog: { title: "Import", error, retry: () => (tries += 1) } });

  forgetError(0);
  assert.equal(state.dialog.error, error);
  forgetError(401);

  assert.deepEqual([state.dialog.error, tries], [null, 1]);
});

test("a change is sent again in its set if its response was lost, and can be undone", async () => {
  const { act } = await open(ABIES);
  const { stored } = serve([ABIES]);
  const names = [];
  const store = answerFile((request) => {
    names.push(request.set);
    if (names.length === 1) request.onload = request.onerror;
    store(request);
  });

  await assert.rejects(act({ name: "Mine" }, SAVE), { message: /does not respond/ });
  await act({ name: "Mine" }, SAVE);

  assert.match(names[0], /^[0-9a-f]{32}$/);
  assert.deepEqual([names[1], stored.get("1").name], [names[0], "Mine"]);
  assert.equal(await undo(), "Undone:");
});

test("a change that somebody else has made before is saved, and offers no undo", async () => {
  const { act } = await open(ABIES);
  serve([{ ...ABIES, name: "Mine" }]);

  await act({ name: "Mine" }, SAVE);

  assert.deepEqual([state.toast.text, state.toast.action], ["Saved:", undefined]);
});

test("a plant without a name is not stored, nor is a name removed", async () => {
  const requests = answer();
  addPlants();
  const added = state.dialog.act({ id: "5", name: "" }, { value: "save" });
  await assert.rejects(added, { member: "name" });
  assert.deepEqual(requests, []);

  const { act } = await open(ABIES);
  const { stored } = serve([ABIES]);
  await assert.rejects(act({ name: "" }, SAVE), { member: "name" });

  assert.equal(stored.get("1"), ABIES);
});

test("a step to the next plant saves what was typed, and nothing if nothing was", async () => {
  const { act } = await open(ABIES);
  const { stored, requests } = serve([ABIES, ROSA]);
  update({ listing: { plants: [ABIES, ROSA], links: new Map(), total: 2, isExact: true } });

  await act({ name: "Mine" }, { value: "next" });
  const { title, act: again } = state.dialog;
  await again({}, { value: "prev" });

  assert.deepEqual([title, stored.get("1").name], ["Edit plant 2", "Mine"]);
  assert.equal(state.dialog.title, "Edit plant 1");
  assert.deepEqual(requests, ["POST changes"]);
  update({ listing: null });
});

test("a step from the last plant of a page leads to the first one of the next page", async () => {
  const { act, View, content } = await open(ABIES);
  const links = new Map([["next", "?q=a&after=1"]]);
  update({ listing: { plants: [ABIES], links, total: 2, isExact: true } });
  const buttons = findAll("button", View(content)).map((button) => button["aria-label"]);
  visited.push("/#/plants/1");
  history.state = { isDialog: true };
  const requests = answer(respondPlants([ROSA]));

  await act({}, { value: "next" });

  assert.ok(buttons.includes("Next plant") && !buttons.includes("Previous plant"));
  assert.equal(requests[0].path, "plants?q=a&after=1&limit=50");
  assert.equal(state.dialog.title, "Edit plant 2");
  const steps = visited.slice(-2);
  assert.deepEqual([steps, history.state.isDialog], [["?q=a&after=1", "#/plants/2"], true]);
  update({ listing: null });
});

test("the next plant has the focus in the field that was changed, and Enter goes on from there", async () => {
  const { act } = await open(ABIES);
  serve([ABIES, ROSA]);
  update({ listing: { plants: [ABIES, ROSA, ABIES], links: new Map(), total: 3, isExact: true } });

  await act({ tag: "Checked" }, { value: "next" });

  const { View, content, back } = state.dialog;
  assert.equal(back, '#plants [data-id="2"] a');
  const tag = findAll("input", View(content)).find(({ name }) => name === "tag");
  const primary = findAll("button", View(content)).filter((each) => each.class === "primary");
  assert.equal(tag.autofocus, true);
  assert.deepEqual(
    primary.map((each) => each.value),
    ["next"],
  );
  update({ listing: null });
});

test("another plant with a name is not told of the next plant", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const { act } = await open(ABIES);
  const { View, content } = state.dialog;
  findAll("textarea", View(content))[0].oninput({ currentTarget: { value: "Rosa" } });
  update({ listing: { plants: [ABIES, ROSA], links: new Map(), total: 2, isExact: true } });
  await act({}, { value: "next" });
  const requests = answer(respondPlants([{ ...ROSA, id: "9" }]));

  context.mock.timers.tick(1000);

  assert.deepEqual(sent(requests), []);
  update({ listing: null });
});

test("the next plant gets the tag of the list, and then that of the one before", async () => {
  const { stored } = serve([]);
  update({ shownQuery: new URLSearchParams({ tag: "Rosa" }) });
  const another = { value: "another" };
  addPlants();
  const { act } = state.dialog;

  await act({ id: "5", name: "A" }, another);
  await act({ id: "6", name: "B", tag: "Pine" }, another);
  await act({ id: "7", name: "C" }, another);
  await act({ id: "8", name: "D", tag: "" }, another);
  update({ shownQuery: new URLSearchParams() });

  const tags = [...stored.values()].map(({ tag }) => tag);
  assert.deepEqual(tags, ["Rosa", "Pine", "Pine", undefined]);
  assert.deepEqual(state.dialog.content, { tag: "" });
  assert.equal(textOf(html`<${Toast} />`), "Saved: 8 D Undo ×");
  update({ dialog: null });
  assert.deepEqual([await undo(), stored.has("7"), stored.has("8")], ["Undone:", true, false]);
});

test("a plant without an id gets one of the service, another one if it is refused", async () => {
  const ids = [5, 6, 7].map((id) => respond({ first: id, last: id }));
  const requests = answer(ids[0]);
  const sentIds = [];
  const results = [
    { stored: 1, refused: 0, errors: [] },
    { stored: 0, refused: 1, errors: [{ line: 1, error: 3011, message: "", plant: ABIES }] },
    { stored: 1, refused: 0, errors: [] },
  ];
  answerFile(async (request) => {
    sentIds.push(JSON.parse(await request.body.text()).id);
    withResponse({ replaced: 0, deleted: 0, ...results.shift() })(request);
  });
  addPlants();
  assert.deepEqual(requests, []);

  const said = await state.dialog.act({ name: "Ulmus" }, { value: "another" });
  answer(...ids.slice(1));
  await assert.rejects(state.dialog.act({ name: "Acer" }, SAVE), { member: "id" });
  await state.dialog.act({ name: "Acer" }, SAVE);

  assert.deepEqual([said, sentIds], ["Saved: 5 \u2068Ulmus\u2069", [5, 6, 7]]);
  assert.deepEqual([state.toast.text, state.toast.plant.id], ["Saved:", "7"]);
});

test("if the service has no free id, a plant without one is not stored, and this is said", async () => {
  const refusal = { error: 1006, message: "Fewer ids are left" };
  answer(respond(refusal, 409));
  const bodies = [];
  answerFile((request) => bodies.push(request.body));
  addPlants();

  await assert.rejects(state.dialog.act({ name: "Ulmus" }, SAVE), {
    message: "Fewer ids are left",
  });

  assert.deepEqual(bodies, []);
});

describe("while a plant is saved, the next one is entered", () => {
  const found = {
    querySelector: document.querySelector,
    querySelectorAll: document.querySelectorAll,
  };
  const STORED = { stored: 1, replaced: 0, deleted: 0, refused: 0, errors: [] };
  const taken = { line: 1, error: 3011, message: "`before` is not what is stored", plant: ABIES };
  const TAKEN = { ...STORED, stored: 0, refused: 1, errors: [taken] };
  let fields = {};
  let held = [];
  let ended = 0;

  beforeEach(() => {
    const makeField = (name) => [name, { name, value: "", defaultValue: "" }];
    fields = Object.fromEntries(["name", "tag", "id"].map(makeField));
    const reset = () => {
      for (const field of Object.values(fields)) field.value = field.defaultValue;
    };
    const form = { reset, elements: { namedItem: (name) => fields[name] } };
    document.querySelectorAll = () => Object.values(fields);
    document.querySelector = (selector) => (selector === "form[aria-busy]" ? form : null);
    held = [];
    answerFile((request) => held.push(request));
    ended = 0;
    let id = 4;
    globalThis.fetch = async (path) => {
      if (path.startsWith("plants")) ended += 1; // The list is loaded again.
      if (!path.startsWith("ids")) return respond([]);
      id += 1;
      return respond({ first: id, last: id });
    };
    addPlants("");
  });
  afterEach(() => Object.assign(document, found));

  const typed = () => Object.values(fields).map(({ value }) => value);

  function enter(name, button = "another") {
    fields.name.value = name;
    const [{ onsubmit }] = findAll("form", state.dialog.View(state.dialog.content));
    onsubmit({ preventDefault: () => {}, submitter: { value: button } });
  }

  /** Wait until something is so, while the page acts. */
  async function until(isSo) {
    for (let turn = 0; turn < 1000 && !isSo(); turn += 1) await new Promise(setImmediate);
    assert.ok(isSo());
  }

  /** Answer the request of a plant, and return the plant. */
  async function answerNext(result) {
    await until(() => held.length > 0);
    assert.equal(held.length, 1, "one is saved after the other");
    const [request] = held.splice(0);
    const { id, after } = JSON.parse(await request.body.text());
    withResponse(result)(request);
    return `${id} ${after.name}`;
  }

  test("and saved after it, with another id", async () => {
    enter("Qa 01");
    const emptied = fields.name.value;
    enter("Qa 02");
    enter("Qa 03");
    fields.name.value = "Q";

    const saved = [await answerNext(STORED), await answerNext(STORED), await answerNext(STORED)];
    await until(() => state.dialog.said?.startsWith("Saved: 7 "));

    assert.deepEqual([emptied, fields.name.value], ["", "Q"]);
    assert.deepEqual(saved, ["5 Qa 01", "6 Qa 02", "7 Qa 03"]);
  });

  test("a plant that is refused comes back, and then what was typed meanwhile", async () => {
    enter("Qa");
    enter("Qb");
    fields.name.value = "Qc ";

    await answerNext(TAKEN);
    await until(() => state.dialog.error);
    const back = [...typed(), state.dialog.error.member];
    await answerNext(TAKEN);
    await until(() => ended === 2);
    fields.id.value = "20";
    enter("Qa");
    const second = [...typed(), state.dialog.error.member];
    fields.id.value = "21";
    enter("Qb", "save");
    const saved = [await answerNext(STORED), await answerNext(STORED)];
    await until(() => state.dialog.said?.startsWith("Saved: 21 "));

    assert.deepEqual(back, ["Qa", "", "5", "id"]);
    assert.deepEqual(second, ["Qb", "", "6", "id"]);
    assert.deepEqual(saved, ["20 Qa", "21 Qb"]);
    assert.deepEqual(typed(), ["Qc ", "", ""]);
  });

  test("what is saved at last comes after the plant before, and stays open if that is refused", async () => {
    enter("Qa");
    enter("Qb", "save");

    await answerNext(TAKEN);
    const last = await answerNext(STORED);
    await until(() => state.dialog.error && !state.dialog.isBusy);

    assert.deepEqual([fields.name.value, last], ["Qa", "6 Qb"]);
  });

  for (const button of ["another", "save"]) {
    test(`a plant is sent again with its id, in its set, if the response was lost: ${button}`, async () => {
      enter("Qa", button);
      await until(() => held.length > 0);
      const [{ set, onerror }] = held.splice(0);

      onerror();
      await until(() => state.dialog.error && !state.dialog.isBusy);
      enter(fields.name.value, button);
      await until(() => held.length > 0);

      assert.equal(held[0].set, set);
      assert.equal(await answerNext(STORED), "5 Qa");
    });
  }

  test("a plant that is refused after the dialog was closed opens it again", async () => {
    enter("Qa");
    update({ dialog: null });

    await answerNext(TAKEN);
    await until(() => state.dialog?.error);

    assert.deepEqual(typed(), ["Qa", "", "5"]);
  });
});

test("many plants are deleted with one request, and restored with one", async () => {
  const many = Array.from({ length: 3_000 }, (_, id) => ({ ...ROSA, id: String(id) }));
  const { stored, requests } = serve(many);
  update({ selected: new Map(many.map((plant) => [plant.id, plant])) });
  deletePlants(many);
  assert.equal(state.dialog.title, "Delete 3,000 plants?");

  await state.dialog.act({});
  const left = [stored.size, state.selected.size, state.toast.text];
  const undone = await undo();

  assert.deepEqual(left, [0, 0, "3,000 plants deleted"]);
  assert.deepEqual([stored.size, undone], [3_000, "3,000 plants restored"]);
  assert.deepEqual(requests, ["POST changes", "undo?set"]);
});

test("a deletion that somebody else has made already is made", async () => {
  serve([ROSA]);
  deletePlants([ABIES, ROSA]);

  await state.dialog.act({});

  assert.equal(state.toast.text, "2 plants deleted");
});

test("an undo keeps what somebody else has changed, and says so", async () => {
  const { stored } = serve([ABIES, ROSA]);
  tagPlants([ABIES, ROSA]);
  await state.dialog.act({ tag: "Bed" }, SAVE);
  stored.set("2", { ...ROSA, tag: "Theirs" });

  const undone = await undo();

  assert.equal(undone, "1 plant changed back. 1 plant kept: it was changed since");
  assert.deepEqual([stored.get("1"), stored.get("2").tag], [ABIES, "Theirs"]);
});

test("one plant is deleted without a question, if it is known that it can be restored", async () => {
  const { act } = await open(ABIES);
  const { stored } = serve([ABIES, ROSA]);

  await act({}, { value: "delete" });
  assert.deepEqual([state.toast.text, stored.has("1")], ["Deleted:", false]);
  assert.equal(state.sets.at(-1).what, "1 plant deleted: 1 \u2068Abies\u2069"); // also after a reload
  assert.equal(await undo(), "Restored:");
  update({ keepsChanges: null, dialog: null });
  await deletePlants([ROSA]);

  assert.deepEqual([state.dialog.title, stored.has("2")], ["Delete this plant?", true]);
});

test("a deletion of the selected plant that fails says why", async () => {
  Object.assign(serve([ABIES]), { refuse: () => ({ error: 2003, message: "It is refused" }) });

  await assert.rejects(deleteSelected([ABIES]), { message: "It is refused" });
});

describe("a plant that somebody else has changed is deleted only after the difference is shown", () => {
  for (const [given, isStored] of [
    ["yes", false],
    ["no", true],
  ]) {
    test(`after "${given}"`, async () => {
      const { stored } = serve([{ ...ABIES, name: "Rare" }]);
      const asked = answerQuestions(given);

      const said = await deletePlants([ABIES]);

      const { columns, versions, yes } = asked[0];
      assert.deepEqual(
        [columns, versions],
        [["You saw", "It is now"], [["Name", "Abies", "Rare"]]],
      );
      assert.deepEqual([yes, said], ["Delete", undefined]);
      assert.equal(stored.has("1"), isStored);
    });
  }
});

test("of plants that cannot be changed, the dialog shows the names and the error", async () => {
  const service = serve([ABIES, ROSA]);
  service.refuse = (id) => id === "1" && { error: 2003, message: "The token lacks the scope" };
  deletePlants([ABIES, ROSA]);

  await assert.rejects(state.dialog.act({}), { message: "The token lacks the scope" });

  assert.deepEqual(state.dialog.content.plants, [ABIES]);
  assert.equal(state.dialog.title, "Delete this plant?");
  assert.deepEqual([state.toast.text, state.toast.plant], ["Deleted:", ROSA]);
  service.refuse = undefined;
  await state.dialog.act({});
  assert.deepEqual([state.toast.text, await undo()], ["2 plants deleted", "2 plants restored"]);
});

describe("what cannot be undone is said before", () => {
  const shown = () => textOf(state.dialog.View(state.dialog.content));

  test("if the token lacks a scope", async () => {
    serve([ROSA]);
    update({ scopes: ["plants:read", "plants:delete"] });
    deletePlants([ROSA]);

    assert.match(
      shown(),
      /With this token, this cannot be undone: it lacks the scope plants:create/,
    );
    await state.dialog.act({});
    assert.deepEqual([state.toast.text, state.toast.action], ["Deleted:", undefined]);
  });

  test("if the service keeps no changes, as its first response said", async () => {
    Object.assign(serve([ABIES, ROSA, ACER]), { keepsChanges: false });
    deletePlants([ABIES, ROSA]);
    assert.doesNotMatch(shown(), /undone/);

    await state.dialog.act({});
    const said = textOf(html`<${Toast} />`);
    deletePlants([ACER]);

    const reason = "This cannot be undone: the service keeps no changes.";
    assert.equal(said, `2 plants deleted ${reason} ×`);
    assert.ok(shown().includes(reason));
    assert.deepEqual(state.sets, []);
  });
});

test("a tag of several plants is not set over the tags of somebody else without a question", async () => {
  const plants = [ABIES, ROSA, { id: "3", name: "Acer" }, { id: "4", name: "Ulmus" }];
  const renamed = { ...plants[2], name: "Acer rubrum" };
  const { stored } = serve([{ ...ABIES, tag: "Theirs" }, { ...ROSA, tag: "Other" }, renamed]);
  const asked = answerQuestions("no");
  tagPlants(plants);

  await state.dialog.act({ tag: "Tree" }, SAVE);

  assert.equal(asked[0].title, "Somebody else has changed 3 plants");
  assert.deepEqual(asked[0].versions, [
    ["Tag of 1: Abies", "Theirs", "Tree"],
    ["Tag of 2: Rosa", "Other", "Tree"],
    ["Name of 4: Ulmus", null, "Ulmus"],
    ["Tag of 4: Ulmus", null, "Tree"],
  ]);
  assert.deepEqual(stored.get("1").tag, "Theirs");
  assert.deepEqual(stored.get("3"), { ...renamed, tag: "Tree" });
  assert.deepEqual([state.toast.text, state.toast.plant.id], ["Saved:", "3"]);
});

test("before several plants get a tag, it is said how many have another one", () => {
  tagPlants([ABIES, ROSA, { ...ACER, tag: "Maple" }]);

  assert.match(
    textOf(state.dialog.View(state.dialog.content)),
    /2 of them have a tag now: it is replaced\./,
  );
});

test("conflicts are resolved that the service shows only later, or does not list at first", async () => {
  const plants = Array.from({ length: 9 }, (_, id) => ({ ...ROSA, id: String(id) }));
  const renamed = plants.map((plant) => ({ ...plant, name: `Rosa ${plant.id}` }));
  const service = Object.assign(serve(renamed), { shown: 2, listed: 5 });
  tagPlants(plants);

  await state.dialog.act({ tag: "Bed" }, SAVE);

  const tagged = renamed.map((plant) => ({ ...plant, tag: "Bed" }));
  assert.deepEqual([...service.stored.values()], tagged);
  assert.equal(state.toast.text, "9 plants now have the tag \u2068Bed\u2069");
});

test("without the scope to read, conflicts are an error, and the other changes are made", async () => {
  const service = Object.assign(serve([{ ...ABIES, tag: "Theirs" }, ROSA]), { shown: 0 });
  tagPlants([ABIES, ROSA]);

  await assert.rejects(state.dialog.act({ tag: "Bed" }, SAVE), {
    message: "Somebody else has changed 1 plant",
  });

  assert.deepEqual([service.stored.get("1").tag, service.stored.get("2").tag], ["Theirs", "Bed"]);
});

test("after a question is left without an answer, no other follows, and the dialog remains", async () => {
  const theirs = [ABIES, ACER].map((plant) => ({ ...plant, tag: "Theirs" }));
  Object.assign(serve([...theirs, ROSA]), { shown: 1 });
  const asked = answerQuestions("");
  tagPlants([ABIES, ROSA, ACER]);

  const said = await state.dialog.act({ tag: "Bed" }, SAVE);

  assert.deepEqual([said, state.dialog.content.plants], ["", [ABIES, ACER]]);
  assert.equal(asked.length, 1);
});

test("if all that somebody else has changed is kept, nothing was done, and nothing can be undone", async () => {
  const theirs = [ABIES, ACER].map((plant) => ({ ...plant, tag: "Theirs" }));
  const { stored } = serve(theirs);
  answerQuestions("no");
  tagPlants([ABIES, ACER]);

  const said = await state.dialog.act({ tag: "Bed" }, SAVE);

  assert.deepEqual([said, state.toast.text, state.sets], [undefined, "", []]);
  assert.deepEqual([...stored.values()], theirs);
});

test("after Cancel, nothing is asked about a plant that somebody else has changed", async () => {
  const { act } = await open(ABIES);
  serve([{ ...ABIES, name: "Theirs" }], () => update({ dialog: null }));
  const asked = answerQuestions();

  await act({ name: "Mine" }, SAVE);

  assert.deepEqual([asked, state.toast.text], [[], ""]);
});

describe("what the scopes of the token do not permit is not offered", () => {
  const listing = { plants: [ROSA], links: new Map(), total: 1, isExact: true };
  const offers = [
    [["plants:create"], ["Add a plant", "Import"]],
    [["plants:read"], ["as CSV"]],
    [
      ["plants:read", "plants:update"],
      ["as CSV", "Set tag"],
    ],
    [
      ["plants:read", "plants:delete"],
      ["as CSV", "Delete"],
    ],
  ];
  const all = [...new Set(offers.flatMap(([, offered]) => offered))].sort();

  for (const [scopes, offered] of offers) {
    test(scopes.join(" and "), () => {
      update({ scopes, listing, selected: new Map([[ROSA.id, ROSA]]) });

      const text = textOf(Catalogue());

      assert.deepEqual(
        all.filter((each) => text.includes(each)),
        offered.sort(),
      );
    });
  }
});

test("a list that could not be loaded is not shown as empty", () => {
  const shownQuery = new URLSearchParams();
  update({ scopes: null, listing: null, shownQuery, problem: new ApiError("It failed", 403) });
  const missing = textOf(Catalogue());
  update({ listing: { plants: [], links: new Map(), total: 0, isExact: true }, problem: null });
  const empty = textOf(Catalogue());

  assert.match(missing, /It failed/);
  assert.doesNotMatch(missing, /no plants/);
  assert.match(empty, /There are no plants yet/);
});

describe("a dialog that renames a tag", () => {
  const open = async (dialog) => {
    const requests = answer(respondPlants([ABIES]));
    update({ dialog });
    await renameTag("Pine");
    return requests;
  };

  test("keeps the tag unless another one is typed", async () => {
    await open(null);
    const { stored } = serve([ABIES]);

    await state.dialog.act({});

    assert.equal(stored.get("1").tag, "Pine");
  });

  test("asks before it becomes that of other plants, once", async () => {
    await open(null);
    const { stored } = serve([ABIES]);
    const answers = globalThis.fetch;
    const others = respondPlants([ROSA], { "Total-Count": "12", "Preference-Applied": EXACT });
    globalThis.fetch = async (path, options) =>
      path.startsWith("plants?tag=Fir&") ? others.clone() : answers(path, options);
    const asked = answerQuestions("no", "yes");

    const said = await state.dialog.act({ tag: "Fir" }, SAVE);
    const kept = stored.get("1").tag;
    await state.dialog.act({ tag: "Fir" }, SAVE);

    assert.deepEqual([said, kept, stored.get("1").tag], ["", "Pine", "Fir"]);
    const titles = asked.map(({ title, yes }) => [title, yes]);
    assert.deepEqual(
      titles,
      Array(2).fill(["12 plants have the tag \u2068Fir\u2069 already", "Merge"]),
    );
  });

  test("leads to the plants of the new tag, and has the tags counted", async (context) => {
    context.mock.timers.enable({ apis: ["setTimeout"] });
    await open(null);
    serve([ABIES]);
    const [paths, answers] = [[], globalThis.fetch];
    globalThis.fetch = (path, options) => {
      paths.push(path);
      return answers(path, options);
    };
    wide.matches = true;

    await state.dialog.act({ tag: "Fir" }, SAVE);

    wide.matches = false;
    assert.equal(location.search, "?tag=Fir");
    assert.equal(paths.filter((path) => path.startsWith("tags?")).length, 1);
  });

  test("does not replace another one, in which text may be typed", async () => {
    const other = { title: "Add a plant" };

    const requests = await open(other);

    assert.equal(requests.length, 1);
    assert.equal(state.dialog, other);
  });
});

test("names and tags stay as they are if a browser translates the page", () => {
  assert.equal(html`<bdi class="name">Rosa</bdi>`.props.translate, false);
  assert.equal(html`<p>Rosa</p>`.props.translate, undefined);
});

test("a text that is told replaces the one before with its element, as a browser may have translated it", () => {
  const tell = (text) => html`<p role="status">${text}</p>`.props.children;

  const [one, other] = ["1 plant", "2 plants"].map(tell);

  assert.deepEqual([one.key, other.key, tell("")], ["1 plant", "2 plants", null]);
  assert.equal(textOf(tell(`Tag ${isolate("Rosa")} is new`)), "Tag Rosa is new");
  assert.equal(tell(isolate("Rosa")).props.children[1].type, "bdi");
});

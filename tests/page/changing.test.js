/** Adding, changing and deleting plants: no change is lost or made without a question. */

import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { Catalogue } from "../../src/plantstore/web/page/catalogue.js";
import { keepJob, offerUndo, resume, undoChange } from "../../src/plantstore/web/page/changes.js";
import { say, Toast } from "../../src/plantstore/web/page/elements.js";
import { html } from "../../src/plantstore/web/page/html.js";
import { addPlants, openLinkedPlant } from "../../src/plantstore/web/page/plant.js";
import { ApiError } from "../../src/plantstore/web/page/requests.js";
import { deletePlants, renameTag, tagPlants } from "../../src/plantstore/web/page/several.js";
import { onUpdate, state, update } from "../../src/plantstore/web/page/state.js";
import { UndoButton } from "../../src/plantstore/web/page/undoing.js";
import { answer, respond, respondPlants, serve, textOf, wide } from "./tab.js";

const ABIES = { id: "1", name: "Abies", tag: "Pine" };
const ROSA = { id: "2", name: "Rosa" };

const refused = (status, message = "It is refused") => respond({ message }, status);
const sent = (requests) => requests.map(({ method, path }) => `${method} ${path}`);

beforeEach(() => {
  update({
    dialog: null,
    question: null,
    toast: { text: "" },
    undos: [],
    scopes: null,
    spareId: "",
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
  await act({ tag: "Picea" });
  const named = serve([odd]);
  await act({ name: "Named" });

  assert.deepEqual(tagged.stored.get("7"), { ...odd, tag: "Picea" });
  assert.deepEqual(named.stored.get("7"), { ...odd, name: "Named" });
  assert.deepEqual([state.toast.text, state.toast.plant.name], ["Saved:", "Named"]);
});

test("a tag that is emptied is removed", async () => {
  const { act } = await open(ABIES);
  const { stored } = serve([ABIES]);

  await act({ tag: "" });

  assert.deepEqual(stored.get("1"), { id: "1", name: "Abies" });
});

test("a change is undone, and what somebody else has changed since then remains", async () => {
  const { act } = await open(ABIES);
  const { stored } = serve([ABIES]);
  await act({ name: "Mine" });
  stored.set("1", { ...stored.get("1"), tag: "Theirs" });

  await undoChange();

  assert.deepEqual(stored.get("1"), { ...ABIES, tag: "Theirs" });
  assert.deepEqual([state.toast.text, state.undos], ["Undone:", []]);
});

describe("a change by somebody else is not overwritten without a question", () => {
  const theirs = { ...ABIES, name: "Theirs", tag: undefined };

  test("fields that only one of the two has changed are merged", async () => {
    const { act } = await open(ABIES);
    const { stored } = serve([{ ...ABIES, tag: "Theirs" }]);
    const asked = answerQuestions();

    await act({ name: "Mine" });

    assert.deepEqual(asked, []);
    assert.deepEqual(stored.get("1"), { id: "1", name: "Mine", tag: "Theirs" });
  });

  test("mine is saved, also after another change meanwhile, and their other field", async () => {
    const { act } = await open(ABIES);
    const { stored } = serve([theirs], (method) => {
      if (method === "PUT" && stored.get("1") === theirs)
        stored.set("1", { ...theirs, name: "Later" });
    });
    const asked = answerQuestions("yes", "yes");

    await act({ name: "Mine" });

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

    await act({ name: "Mine", tag: "Mine" });

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

      const said = await act({ name: "Mine" });

      assert.equal(said === "", isOpen);
      assert.equal(stored.get("1"), theirs);
      assert.equal(state.toast.text, "");
    });
  }

  test("a plant that they deleted is stored again", async () => {
    const { act } = await open(ABIES);
    const { stored } = serve([]);
    const asked = answerQuestions("yes");

    await act({ name: "Mine" });

    const { title, yes, no, versions } = asked[0];
    assert.equal(title, "Somebody else has deleted plant 1");
    assert.deepEqual([yes, no], ["Restore mine", "Leave it deleted"]);
    assert.deepEqual(versions[0], ["Name", null, "Mine"]);
    assert.deepEqual(stored.get("1"), { ...ABIES, name: "Mine" });
  });
});

test("a change whose entity tag never matches ends, and the page says that a proxy may be the cause", async () => {
  const { act } = await open(ABIES);
  const { stored, requests } = serve([ABIES], (method) => method === "PUT" && refused(412));

  await assert.rejects(act({ name: "Mine" }), ({ status, message }) => {
    assert.match(message, /A proxy .* `ETag`/);
    return status === 412;
  });

  assert.equal(requests.length, 6);
  assert.deepEqual(stored.get("1"), ABIES);
});

test("without an entity tag, as after some proxies, no change is sent", async () => {
  const { act } = await open(ABIES);
  const { requests } = serve([ABIES], () => respondPlants(ABIES));

  await assert.rejects(act({ name: "Mine" }), { message: /A proxy .* `ETag`/ });

  assert.deepEqual(requests, ["GET 1"]);
});

describe("of many plants, those whose change has not begun remain", () => {
  const many = Array.from({ length: 30 }, (_, id) => ({ ...ROSA, id: String(id) }));
  const ends = {
    "after Cancel": () => update({ dialog: null }),
    "after a change that is refused three times": () => refused(412),
    "while the service is away": () => refused(503),
  };

  for (const [name, end] of Object.entries(ends)) {
    test(name, async () => {
      const begun = new Set();
      const { stored } = serve(many, (method, id) => {
        begun.add(id);
        return method === "DELETE" && end();
      });
      const asked = answerQuestions();
      deletePlants(many);

      await state.dialog.act({}).catch(() => {});

      assert.deepEqual([begun.size, asked.length], [6, 0]);
      assert.ok(stored.size >= 24);
    });
  }

  test("after Cancel, nothing is asked about those that somebody else has changed", async () => {
    const { stored } = serve([{ ...ROSA, name: "Theirs" }], () => update({ dialog: null }));
    const asked = answerQuestions();
    deletePlants([ROSA]);

    await state.dialog.act({});

    assert.deepEqual([asked.length, stored.size], [0, 1]);
  });
});

describe("of many changes that do not end as they began, all that were made are undone", () => {
  const many = Array.from({ length: 100 }, (_, id) => ({ ...ROSA, id: String(id) }));

  /** Delete the plants, and do something once 40 requests are sent. */
  async function deleteAll(interfere) {
    const isTime = () => served.requests.length === 40;
    const served = serve(many, (_method, id) => isTime() && interfere(served.stored, id));
    deletePlants(many);
    const { act } = state.dialog;
    await act({}).catch(() => {});
    return { ...served, act };
  }

  /** Undo what the page offers to undo, and return what is stored then. */
  async function undo({ stored }) {
    const before = stored.size;
    await undoChange();
    assert.ok(before < 100);
    return [stored.size, state.toast.text];
  }

  test("the user stops them, and they are counted", async () => {
    const served = await deleteAll(() => {
      state.job.isStopped = true;
    });
    const [isOpen, gone] = [state.job !== null, 100 - served.stored.size];

    assert.deepEqual([isOpen, state.toast.text], [false, `Stopped: ${gone} of 100 deleted`]);
    assert.ok(gone > 20);
    assert.deepEqual(await undo(served), [100, `${gone} plants restored`]);
  });

  test("the service was away meanwhile, and had made a change without a response", async () => {
    const served = await deleteAll((stored, id) => {
      stored.delete(id);
      return refused(503);
    });
    const first = served.stored.size;

    await served.act({});

    assert.ok(first > 0);
    assert.equal(state.toast.text, "100 plants deleted");
    assert.deepEqual(await undo(served), [100, "100 plants restored"]);
  });

  test("the tab is reloaded, also during the undo", async () => {
    let kept;
    await deleteAll(() => {
      keepJob();
      kept = window.sessionStorage.getItem("plantstore.undos");
      state.job.isStopped = true;
    });
    const { stored } = serve([]);
    window.sessionStorage.setItem("plantstore.undos", kept);

    resume();
    assert.match(state.toast.text, /^Interrupted: \d\d of 100 deleted$/);
    const { length } = state.undos[0].changes;
    const undone = undoChange();
    state.job.isStopped = true;
    await undone;
    const said = textOf(html`<${Toast} />`);
    await undoChange();

    assert.equal(said, `Stopped: 6 of ${length} restored Continue ×`);
    assert.deepEqual([state.toast.text, stored.size], [`${length} plants restored`, length]);
    assert.equal(window.sessionStorage.getItem("plantstore.undos"), "[]");
  });

  test("an undo that deletes plants was interrupted, and some of them are gone", async () => {
    const { stored } = serve(many.slice(50));
    const created = many.map((before) => ({ before, after: null }));
    offerUndo(created, "100 plants imported");

    await undoChange();

    assert.deepEqual([stored.size, state.toast.text], [0, "100 plants removed"]);
  });

  test("the computer failed, and it is not known which were made", async () => {
    const { stored } = serve(many, () => {
      window.copy ??= window.sessionStorage.getItem("plantstore.undos");
    });
    tagPlants(many);
    await state.dialog.act({ tag: "Tree" });
    for (const plant of many.slice(50)) stored.set(plant.id, plant);
    window.sessionStorage.setItem("plantstore.undos", window.copy);
    update({ toast: { text: "" } });

    resume();
    assert.equal(state.toast.text, "Interrupted: 0 of 100 now have the tag Tree");
    await undoChange();

    assert.deepEqual(
      [...stored.values()].map(({ tag }) => tag),
      many.map(({ tag }) => tag),
    );
  });
});

test("of many plants only the first are read before they are changed", async () => {
  const many = Array.from({ length: 100 }, (_, id) => ({ ...ABIES, id: String(id) }));
  const { stored, requests } = serve(many);
  tagPlants(many);

  await state.dialog.act({ tag: "Tree" });

  assert.equal([...stored.values()].filter(({ tag }) => tag === "Tree").length, 100);
  assert.deepEqual([requests.length, state.toast.text], [106, "100 plants now have the tag Tree"]);
});

test("a plant without a name is stored only after a question", async () => {
  const requests = answer(respond({ first: 5, last: 5 }), respond(""));
  answerQuestions("no", "yes");
  addPlants();
  const { act } = state.dialog;

  const kept = await act({ id: "5" }, { value: "save" });
  const stored = await act({ id: "5" }, { value: "save" });

  assert.deepEqual([kept, stored], ["", undefined]);
  assert.deepEqual(sent(requests), ["POST ids?count=1", "POST plants"]);
});

test("the next plant gets the tag of the list, and then that of the one before", async () => {
  const { stored } = serve([]);
  update({ shownQuery: new URLSearchParams({ tag: "Rosa" }) });
  const another = { value: "another", form: { reset: () => {} } };
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
  assert.equal(textOf(html`<${Toast} />`), "Saved 4 plants, the last one: 8 D Undo ×");
  update({ dialog: null });
  await undoChange();
  assert.deepEqual([stored.has("8"), state.toast.text], [false, "Undone:"]);
  assert.equal(textOf(html`<${UndoButton} />`), "Undo…");
});

test("a free id of the service is offered until it is used", async () => {
  const requests = answer(
    respond({ first: 5, last: 5 }),
    respond(""),
    respond({ first: 6, last: 6 }),
  );
  const another = { value: "another", form: { reset: () => {} } };
  addPlants();
  await offered("5");
  addPlants();

  const said = await state.dialog.act({ name: "Ulmus" }, another);
  await offered("6");

  assert.equal(said, "Saved: 5");
  assert.deepEqual([state.toast.text, state.toast.plant.name], ["Saved:", "Ulmus"]);
  assert.equal(requests[1].body, '{"id":5,"name":"Ulmus"}');
  assert.deepEqual(sent(requests), ["POST ids?count=1", "POST plants", "POST ids?count=1"]);
});

/** Wait until the service has given this id. */
function offered(id) {
  return new Promise((resolve) => {
    onUpdate(() => state.spareId === id && resolve());
  });
}

test("a deletion is confirmed, and can be undone, also after a failure", async () => {
  const { stored } = serve([ABIES, ROSA]);
  deletePlants([ABIES, ROSA]);
  const { title, act } = state.dialog;

  await act({});
  const deleted = [...stored.keys()];
  const { text } = state.toast;
  const again = serve([], () =>
    again.requests.length < 3 ? refused(503, "It is stopping") : null,
  );
  await undoChange();
  const failed = state.toast;
  await undoChange();

  assert.deepEqual([title, deleted], ["Delete 2 plants?", []]);
  assert.equal(text, "2 plants deleted");
  assert.equal(failed.text, "It is stopping. Interrupted: 0 of 2 restored");
  assert.equal(state.toast.text, "2 plants restored");
  const restored = Object.fromEntries(again.stored);
  assert.deepEqual(restored, { 1: ABIES, 2: ROSA });
});

test("each change can be undone, also after others, and after its message was closed", async () => {
  const { stored } = serve([ABIES, ROSA]);
  const kept = () => JSON.parse(window.sessionStorage.getItem("plantstore.undos"));
  const button = () => textOf(html`<${UndoButton} />`);
  deletePlants([ABIES]);
  await state.dialog.act({});
  tagPlants([ROSA]);
  await state.dialog.act({ tag: "Bed" });

  assert.deepEqual([textOf(html`<${Toast} />`), button()], ["Saved: 2 Rosa Undo ×", "Undo…"]);
  assert.equal(kept().length, 2);
  say("Exported: plants.csv");
  assert.deepEqual([textOf(html`<${Toast} />`), button()], ["Exported: plants.csv ×", "Undo…"]);
  UndoButton().props.onclick();
  const { View, content, act } = state.dialog;
  assert.match(textOf(View(content)), /^Undo a change Saved 2 Rosa Deleted 1 Abies Cancel Undo$/);
  await act({ which: "1" });
  update({ dialog: null });
  await new Promise((resolve) => onUpdate(() => state.toast.plant && resolve(undefined)));
  assert.deepEqual([stored.size, state.toast.text], [2, "Restored:"]);
  say("");
  assert.equal(button(), "Undo: Saved 2 Rosa");
  await undoChange();
  assert.deepEqual(stored.get("2"), ROSA);
  assert.deepEqual([button(), kept()], ["", []]);
});

test("what cannot be undone since the plants were deleted can be undone when they are restored", async () => {
  const { stored } = serve([ABIES, ROSA]);
  tagPlants([ABIES, ROSA]);
  await state.dialog.act({ tag: "Bed" });
  deletePlants([...stored.values()]);
  await state.dialog.act({});
  const [retag, deletion] = state.undos;
  const asked = answerQuestions("no", "");

  await undoChange(retag);
  await undoChange(retag);

  assert.deepEqual(
    asked.map(({ title, no }) => [title, no]),
    Array(2).fill(["Since then, 2 plants were deleted", "Leave them deleted"]),
  );
  assert.deepEqual([stored.size, state.undos], [0, [retag, deletion]]);
  assert.equal(state.toast.text, "Nothing was undone");
  await undoChange(deletion);
  await undoChange();
  assert.deepEqual(Object.fromEntries(stored), { 1: ABIES, 2: ROSA });
  assert.deepEqual(state.undos, []);
});

test("the last 20 changes can be undone", () => {
  for (let id = 0; id < 21; id += 1) offerUndo([{ before: ABIES, after: null }], String(id));

  assert.deepEqual([state.undos.length, state.undos[0].text], [20, "1"]);
});

test("an undo says that the plant was changed since then, and not by somebody else", async () => {
  const { stored } = serve([ABIES]);
  tagPlants([ABIES]);
  await state.dialog.act({ tag: "Bed" });
  stored.set("1", { ...ABIES, tag: "Pot" });
  const asked = answerQuestions("yes");

  await undoChange();

  const [{ title, columns, yes }] = asked;
  assert.equal(title, "Since then, plant 1 was changed");
  assert.deepEqual([columns, yes], [["Now", "Before"], "Undo all the same"]);
  assert.deepEqual(stored.get("1"), ABIES);
});

test("the attempts of a dialog have one undo", async () => {
  const { stored } = serve([ABIES, ROSA], (_, id) =>
    id === "2" ? refused(503, "It is stopping") : null,
  );
  deletePlants([ABIES, ROSA]);
  await assert.rejects(state.dialog.act({}));
  assert.equal(state.undos.length, 1);

  serve([ROSA]);
  await state.dialog.act({});

  assert.deepEqual([state.undos.length, state.undos[0].changes.length], [1, 2]);
  assert.equal(stored.size, 1);
});

test("a deletion is not undone over a plant that somebody else has stored there", async () => {
  const { stored } = serve([ROSA]);
  deletePlants([ROSA]);
  await state.dialog.act({});
  stored.set("2", { ...ROSA, name: "Theirs" });
  const asked = answerQuestions("no");

  await undoChange();

  assert.deepEqual(asked[0].versions, [["Name", "Theirs", "Rosa"]]);
  assert.equal(stored.get("2").name, "Theirs");
});

test("a deletion that somebody else has undone already is undone without a question", async () => {
  const { stored } = serve([ROSA]);
  deletePlants([ROSA]);
  await state.dialog.act({});
  stored.set("2", { ...ROSA });
  const asked = answerQuestions();

  await undoChange();

  assert.deepEqual(asked, []);
  assert.deepEqual(stored.get("2"), ROSA);
});

describe("a plant that somebody else has changed is deleted only after the difference is shown", () => {
  for (const [given, isStored] of [
    ["yes", false],
    ["no", true],
  ]) {
    test(`after "${given}"`, async () => {
      const { stored } = serve([{ ...ABIES, name: "Rare" }]);
      const asked = answerQuestions(given);
      deletePlants([ABIES]);

      const said = await state.dialog.act({});

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

test("of plants that cannot be deleted, the dialog shows the names and the error", async () => {
  const { stored } = serve([ROSA]);
  deletePlants([ABIES, ROSA]);

  await assert.rejects(state.dialog.act({}), { message: "No plant is stored under the id 1" });

  assert.equal(stored.size, 0);
  assert.deepEqual(state.dialog.content, { plants: [ABIES] });
  assert.equal(state.dialog.title, "Delete this plant?");
  assert.deepEqual([state.toast.text, state.toast.plant], ["Deleted:", ROSA]);
});

test("without the scope to create plants a deletion cannot be undone", async () => {
  serve([ROSA]);
  update({ scopes: ["plants:read", "plants:delete"] });
  deletePlants([ROSA]);

  await state.dialog.act({});

  assert.deepEqual([state.toast.text, state.undos], ["Deleted:", []]);
});

test("the tag of several plants is set and set back, and no longer selected", async () => {
  const many = Array.from({ length: 30 }, (_, id) => ({ ...ROSA, id: String(id) }));
  const { stored } = serve(many);
  update({ selected: new Map(many.map((plant) => [plant.id, plant])) });
  tagPlants(many);

  await state.dialog.act({ tag: "Tree" });
  const tagged = [...stored.values()];
  await undoChange();

  assert.deepEqual(new Set(tagged.map(({ tag }) => tag)), new Set(["Tree"]));
  assert.equal(state.selected.size, 0);
  assert.deepEqual(
    [...stored.values()].map(({ tag }) => tag),
    many.map(({ tag }) => tag),
  );
  assert.equal(state.toast.text, "30 plants changed back");
});

test("a tag of several plants is not set over the tags of somebody else without a question", async () => {
  const plants = [ABIES, ROSA, { id: "3", name: "Acer" }, { id: "4", name: "Ulmus" }];
  const renamed = { ...plants[2], name: "Acer rubrum" };
  const { stored } = serve([{ ...ABIES, tag: "Theirs" }, { ...ROSA, tag: "Other" }, renamed]);
  const asked = answerQuestions("no");
  tagPlants(plants);

  await state.dialog.act({ tag: "Tree" });

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

describe("what the scopes of the token do not permit is not offered", () => {
  const listing = { plants: [ROSA], links: new Map(), total: 1, isExact: true };
  const offers = [
    [["plants:create"], ["Add a plant", "Import", "Paste rows"]],
    [["plants:read"], ["Export 1 selected"]],
    [
      ["plants:read", "plants:update"],
      ["Export 1 selected", "Set tag"],
    ],
    [
      ["plants:read", "plants:delete"],
      ["Export 1 selected", "Delete"],
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
  update({ scopes: null, listing: null, shownQuery, problem: new ApiError("It failed") });
  const missing = textOf(Catalogue());
  update({ listing: { plants: [], links: new Map(), total: 0, isExact: true }, problem: null });
  const empty = textOf(Catalogue());

  assert.match(missing, /It failed/);
  assert.doesNotMatch(missing, /no plants/);
  assert.match(empty, /There are no plants yet/);
});

describe("a dialog that renames a tag", () => {
  const open = async (dialog) => {
    const requests = answer(respondPlants([ABIES], { "Total-Count": "1" }), respondPlants([ABIES]));
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

    await state.dialog.act({ tag: "Fir" });

    wide.matches = false;
    assert.equal(location.search, "?tag=Fir");
    assert.equal(paths.filter((path) => path.startsWith("tags?")).length, 1);
  });

  test("does not replace another one, in which text may be typed", async () => {
    const other = { title: "Add a plant" };

    const requests = await open(other);

    assert.equal(requests.length, 2);
    assert.equal(state.dialog, other);
  });
});

/** Change sets: the list of what can be undone, and what becomes of an action that is interrupted. */

import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { Toast } from "../../src/plantstore/web/page/elements.js";
import { html } from "../../src/plantstore/web/page/html.js";
import {
  attempt,
  finish,
  isRunning,
  makeAction,
  readSets,
  UndoButton,
  undoLast,
} from "../../src/plantstore/web/page/sets.js";
import { deletePlants, tagPlants } from "../../src/plantstore/web/page/several.js";
import { onUpdate, state, update } from "../../src/plantstore/web/page/state.js";
import { findAll, respond, serve, textOf } from "./tab.js";

const MANY = Array.from({ length: 100 }, (_, id) => ({ id: String(id), name: "Rosa" }));

const kept = () => JSON.parse(window.localStorage.getItem("plantstore.sets:/") ?? "[]");
const shown = () => textOf(html`<${Toast} />`);

beforeEach(() => {
  window.localStorage.removeItem("plantstore.sets:/");
  update({ dialog: null, toast: { text: "" }, sets: [], scopes: null, keepsChanges: true });
  update({ isSignedIn: true });
});

/** Wait until the page says something that matches. @param {RegExp} pattern */
function said(pattern) {
  return new Promise((resolve) =>
    onUpdate(() => pattern.test(state.toast.text) && resolve(state.toast.text)),
  );
}

/** Press the button of the feedback. */
const press = () => state.toast.action[1]();

test("an action is in the list before its request is sent, and a single change never", async () => {
  const during = [];
  serve(MANY, (change) => change === "POST changes" && void during.push(kept(), isRunning()));
  tagPlants(MANY);

  await state.dialog.act({ tag: "Bed" });
  tagPlants([{ ...MANY[0], tag: "Bed" }]);
  await state.dialog.act({ tag: "Pot" });

  const [[{ set, what, isPart }], isBusy] = during;
  assert.deepEqual(
    [what, isPart, isBusy],
    ["100 plants now have the tag \u2068Bed\u2069", true, true],
  );
  assert.deepEqual(
    kept().map((each) => [each.set, each.what, each.isPart]),
    [[set, what, undefined]],
  );
  assert.deepEqual([kept(), isRunning()], [state.sets, false]);
});

test("one of the list is chosen and undone, also in another tab, and then it is not in the list", async () => {
  const { stored } = serve(MANY);
  for (const plants of [MANY.slice(0, 40), MANY.slice(40)]) {
    deletePlants(plants);
    await state.dialog.act({});
  }
  update({ sets: [], toast: { text: "" } });

  readSets();
  assert.equal(textOf(html`<${UndoButton} />`), "Undo…");
  UndoButton().props.onclick();
  const { View, content, act } = state.dialog;
  assert.match(
    textOf(View(content)),
    /^Undo a change 60 plants deleted \S+ .* 40 plants deleted .*M Cancel Undo$/,
  );
  await act({ which: "1" });
  update({ dialog: null });
  assert.equal(await said(/restored/), "40 plants restored");

  assert.equal(stored.size, 40);
  assert.deepEqual(
    kept().map(({ what }) => what),
    ["60 plants deleted"],
  );
});

test("an entry is short, and remains if an attempt was interrupted and the next one makes nothing", async () => {
  const action = makeAction(`now have the tag ${"x".repeat(16_000)}`, 100, "plants:update");
  await assert.rejects(attempt(action, () => Promise.reject(new Error("interrupted"))));
  await attempt(action, async () => {});

  finish(action, { isRecorded: true, isChanged: false });

  assert.equal(kept()[0].isPart, true);
  assert.equal(kept()[0].what.length, 80);
});

test("the list has the last hundred", async () => {
  const sets = Array.from({ length: 100 }, (_, at) => ({ set: String(at), what: "", when: 0 }));
  update({ sets });
  serve(MANY);
  deletePlants(MANY);

  await state.dialog.act({});

  assert.deepEqual(
    [kept().length, kept()[0].set, kept()[99].what],
    [100, "1", "100 plants deleted"],
  );
});

describe("what cannot be undone any more leaves the list", () => {
  for (const status of [400, 404, 410]) {
    test(String(status), async () => {
      serve(MANY, (change) => change === "undo?set" && respond({ message: "It is gone" }, status));
      deletePlants(MANY);
      await state.dialog.act({});

      await press();

      assert.match(state.toast.text, /^There is nothing to undo: /);
      assert.deepEqual(kept(), []);
    });
  }
});

test("an undo that fails can be continued", async () => {
  const ends = [() => respond({ message: "It is stopping" }, 503), () => null];
  const { stored } = serve(MANY, (change) => change === "undo?set" && ends.shift()());
  deletePlants(MANY);
  await state.dialog.act({});

  await press();
  assert.equal(shown(), "It is stopping. Not all is undone Undo ×");
  assert.equal(kept().length, 1);
  await press();

  assert.deepEqual([stored.size, state.toast.text, kept()], [100, "100 plants restored", []]);
});

describe("an action that does not end as it began says so, and can be undone", () => {
  /** Delete all plants, but only the first ones before something happens. */
  function interrupt(many, happen) {
    const service = serve(MANY, (change, id) => change === "CHANGE" && id === many && happen());
    deletePlants(MANY);
    return { ...service, act: state.dialog.act };
  }

  test("it was stopped", async () => {
    const { stored, act } = interrupt("40", () => state.dialog.stop());

    const ended = await act({});
    const { text } = state.toast;
    const left = stored.size;
    await press();

    assert.deepEqual([ended, text], [undefined, "Stopped: 100 plants deleted, maybe not all"]);
    assert.deepEqual([left, stored.size, kept()], [60, 100, []]);
  });

  test("it was stopped before anything was changed", async () => {
    const { act } = interrupt("0", () => state.dialog.stop());
    await act({});

    await press();

    assert.match(state.toast.text, /^There is nothing to undo: nothing was changed/);
    assert.deepEqual(kept(), []);
  });

  test("it failed, and the next attempt continues the set", async () => {
    let isBroken = true;
    const { stored, sets, act } = interrupt("40", () => {
      const answer = isBroken && respond({ message: "It is busy" }, 503);
      isBroken = false;
      return answer;
    });

    await assert.rejects(act({}), { message: "It is busy" });
    assert.equal(state.toast.text, "Interrupted: 100 plants deleted, maybe not all");
    await act({});
    assert.deepEqual([stored.size, sets.size, kept().length], [0, 1, 1]);
    await press();

    assert.deepEqual([stored.size, state.toast.text], [100, "100 plants restored"]);
  });

  test("it failed and was undone, and the next attempt is another set", async () => {
    let isBroken = true;
    const { stored, sets, act } = interrupt("40", () => {
      const answer = isBroken && respond({ message: "It is busy" }, 503);
      isBroken = false;
      return answer;
    });
    await assert.rejects(act({}), { message: "It is busy" });
    await press();

    await act({});

    assert.deepEqual([stored.size, sets.size, kept().length], [0, 2, 1]);
  });
});

test("an undo is said when the list is loaded again", async () => {
  serve(MANY);
  tagPlants([MANY[0]]);
  await state.dialog.act({ tag: "Bed" });
  update({ listing: null });
  const lists = [];
  onUpdate(() => state.toast.text.startsWith("Undone") && lists.push(state.listing?.plants));

  await undoLast();

  assert.deepEqual(lists[0], []);
});

test("Ctrl+Z undoes the last change without a question, and the button lists those of many plants", async () => {
  const { stored } = serve(MANY);
  tagPlants(MANY);
  await state.dialog.act({ tag: "Bed" });
  tagPlants([{ ...MANY[0], tag: "Bed" }]);
  await state.dialog.act({ tag: "Pot" });
  const tags = () => [stored.get("0").tag, stored.get("1").tag];

  findAll("button", UndoButton())[0].onclick();
  assert.deepEqual([state.dialog.title, tags()], ["Undo a change", ["Pot", "Bed"]]);
  update({ dialog: null });
  await undoLast();
  assert.deepEqual(tags(), ["Bed", "Bed"]);
  await undoLast();
  assert.match(textOf(html`<${state.dialog.View} ...${state.dialog.content} />`), /tag Bed/);
  await state.dialog.act({});
  await said(/changed back/);

  assert.deepEqual(tags(), [undefined, undefined]);
});

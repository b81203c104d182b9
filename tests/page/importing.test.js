/** The import: what is taken, its progress, its result, its undo, and what is said if it fails. */

import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { isTyped } from "../../src/plantstore/web/page/dialogs.js";
import { chooseFile, chooseImport, watchFiles } from "../../src/plantstore/web/page/importing.js";
import { addPlants } from "../../src/plantstore/web/page/plant.js";
import { openPreview } from "../../src/plantstore/web/page/preview.js";
import { onUpdate, state, update } from "../../src/plantstore/web/page/state.js";
import { answerFile, respond, respondPlants, serve, textOf, withResponse } from "./tab.js";

const IMPORT = { value: "import" };

beforeEach(() => {
  onUpdate(() => {});
  update({ dialog: null, question: null, scopes: null, toast: { text: "" }, sets: [] });
  update({ isSignedIn: true, keepsChanges: true });
});

const text = () => textOf(state.dialog.View(state.dialog.content));

/** Wait until something is so. */
async function until(isSo) {
  for (let turn = 0; turn < 1000 && !isSo(); turn += 1) await new Promise(setImmediate);
  assert.ok(isSo());
}

/** Open the preview of a file, and wait until it was checked. */
async function open(content) {
  openPreview(new File([content], "my.plants.csv"));
  await until(() => state.dialog.content.preview.result || state.dialog.error);
}

/** Answer the requests for ids before those of the service. */
function answerIds(take) {
  const others = globalThis.fetch;
  globalThis.fetch = async (path, options) =>
    path.startsWith("ids") ? take(path) : others(path, options);
}

test("new plants are stored, and those that exist are changed, in one set", async () => {
  const { stored, sets } = serve([{ id: "1", name: "A", tag: "T" }]);
  await open("id,name\n1,A2\n3,C\n");

  const said = await state.dialog.act({}, IMPORT);

  assert.deepEqual(
    [said, state.toast.text],
    [undefined, "1 new, 1 changed: my.plants.csv"],
    "the dialog is closed",
  );
  assert.equal(state.sets[0].what, state.toast.text);
  assert.deepEqual(
    [...stored.values()],
    [
      { id: "1", name: "A2", tag: "T" },
      { id: "3", name: "C" },
    ],
  );
  assert.equal(sets.size, 1);
});

test("tags of plants are changed by their names, and the rest of them stays", async () => {
  const plants = [
    { id: "7", name: "ROSA alba", tag: "Bed" },
    { id: "8", name: "Abies", tag: "Tree" },
  ];
  const { stored } = serve(plants);
  const others = globalThis.fetch;
  globalThis.fetch = (path, options) =>
    path.startsWith("plants?") ? respondPlants(plants) : others(path, options);
  await open("Name,Tag\nRosa alba,Wall\nAbies,Tree\n");
  state.dialog.content.preview.twins = "replace";

  await state.dialog.act({}, IMPORT);

  assert.equal(state.toast.text, "1 changed: my.plants.csv");
  assert.deepEqual([...stored.values()], [{ id: "7", name: "ROSA alba", tag: "Wall" }, plants[1]]);
});

test("what is skipped, or is there already, is not imported", async () => {
  const { stored } = serve([
    { id: "1", name: "A" },
    { id: "2", name: "B" },
  ]);
  await open("id,name\n1,A2\n2,B\n3,C\n");
  state.dialog.content.preview.conflict = "skip";

  await state.dialog.act({}, IMPORT);

  assert.equal(state.toast.text, "1 new: my.plants.csv");
  assert.deepEqual(
    [...stored.values()].map(({ name }) => name),
    ["A", "B", "C"],
  );
});

test("the dialog remains if rows are refused, and says what was imported", async () => {
  serve([]);
  await open("id;name\nx;A\n2;B\n");

  const said = await state.dialog.act({}, IMPORT);

  assert.equal(said, "Imported: 1 new, 1 refused");
  assert.equal(
    text(),
    "Import my.plants.csv Row 2: The id must be a whole number x · A Save the refused rows Close",
  );
});

test("rows without ids get them from the service, and keep them if it is tried again", async () => {
  const service = serve([], (request) =>
    request === "POST changes" ? respond({ message: "It is busy" }, 503) : null,
  );
  const counts = [];
  const firsts = [7, 1007, 2009];
  answerIds((path) => {
    counts.push(path);
    const first = firsts[counts.length - 1];
    return respond({ first, last: first });
  });
  await open(`Name\n${"Rosa\n".repeat(2_001)}`);

  await assert.rejects(state.dialog.act({}, IMPORT), { message: "It is busy" });
  const { preview } = state.dialog.content;
  await state.dialog.act({}, { value: "check" });

  assert.deepEqual(counts, ["ids?count=1000", "ids?count=1000", "ids?count=1"]);
  const ids = preview.rows.map(({ plant: { id } }) => id);
  assert.deepEqual([ids[0], ids[999], ids[1000], ids.at(-1)], ["7", "1006", "1007", "2009"]);
  assert.equal(service.stored.size, 0);
});

test("what others have changed since the preview is overwritten only after a question", async () => {
  const { stored } = serve([
    { id: "1", name: "A" },
    { id: "2", name: "B" },
  ]);
  await open("id,name\n1,A2\n2,B2\n");
  stored.set("2", { id: "2", name: "Theirs" });
  onUpdate(() => state.question?.answer("no"));

  await state.dialog.act({}, IMPORT);

  assert.equal(state.toast.text, "1 changed: my.plants.csv");
  assert.deepEqual([stored.get("1").name, stored.get("2").name], ["A2", "Theirs"]);
});

test("an import that is stopped takes no further ids, and is checked again", async () => {
  let taken = 0;
  serve([]);
  await open(`Name\n${"Rosa\n".repeat(2_001)}`);
  answerIds(() => {
    taken += 1;
    state.dialog.stop();
    return respond({ first: 1, last: 1000 });
  });

  const said = await state.dialog.act({}, IMPORT);

  assert.deepEqual([said, taken], ["Stopped", 1]);
  assert.match(text(), /2,001 new .* Import$/);
});

describe("an import can be undone", () => {
  const importTwo = async (keepsChanges = true) => {
    const service = serve([{ id: "1", name: "A" }]);
    service.keepsChanges = keepsChanges;
    await open("id,name\n1,Abies\n2,New\n");
    await state.dialog.act({}, IMPORT);
    return service;
  };

  test("what it created is deleted, and what it replaced is as before", async () => {
    const { stored } = await importTwo();

    await state.toast.action[1]();

    assert.equal(state.toast.text, "1 plant removed, 1 changed back");
    assert.deepEqual([...stored.values()], [{ id: "1", name: "A" }]);
  });

  test("but not without a scope that it needs", async () => {
    update({ scopes: ["plants:create", "plants:read", "plants:update"] });
    await importTwo();

    assert.deepEqual([state.toast.action, state.sets], [undefined, []]);
    serve([{ id: "1", name: "A" }]);
    update({ dialog: null });
    await open("id,name\n1,Abies\n");
    await state.dialog.act({}, IMPORT);
    assert.equal(state.toast.action[0], "Undo");
  });

  test("but not if the service keeps no changes, which is said", async () => {
    await importTwo(false);

    const { text, note, action } = state.toast;
    assert.equal(text, "1 new, 1 changed: my.plants.csv");
    assert.deepEqual(
      [note, action],
      ["This cannot be undone: the service keeps no changes.", undefined],
    );
  });

  test("and if it was stopped, the page says how many plants are stored, and what is left", async () => {
    const rows = Array.from({ length: 9 }, (_, id) => `${id},A`);
    let isImporting = false;
    serve([], (request, id) => {
      if (isImporting && request === "CHANGE" && id === "4") state.dialog.stop?.();
    });
    await open(`id,name\n${rows.join("\n")}`);
    isImporting = true;

    const said = await state.dialog.act({}, IMPORT);
    isImporting = false;
    await until(() => state.toast.text);

    assert.equal(said, "Stopped");
    assert.equal(state.toast.text, "Stopped: 9 new: my.plants.csv, maybe not all");
    assert.equal(state.toast.action[0], "Undo");
    assert.match(text(), /5 new, 4 the same .* Import$/);
  });
});

describe("an import that fails says why, and is checked again", () => {
  const message = "It is refused";
  const foreign = "The response is not from the Plant Store";
  const failures = [
    ["a limit", 429, { error: 3005, message }, message],
    ["an error of the service", 500, { error: 5000, message }, message],
    ["a proxy that limits bodies", 413, "<h1>Too large</h1>", `${foreign}: 413`],
    ["another server", 200, "{}", `${foreign}: 200`],
  ];

  for (const [name, status, body, problem] of failures) {
    test(name, async () => {
      serve([]);
      await open("id,name\n1,A\n");
      answerFile(withResponse(body, status));

      await assert.rejects(state.dialog.act({}, IMPORT), { message: problem });

      serve([{ id: "1", name: "A" }]);
      await state.dialog.act({}, { value: "check" });
      assert.match(text(), /Nothing to import: 1 the same/);
    });
  }

  test("a connection that broke off", async () => {
    serve([]);
    await open("id,name\n1,A\n");
    answerFile((request) => request.onerror());

    await assert.rejects(state.dialog.act({}, IMPORT), { message: "The service does not respond" });
  });
});

test("while a file is imported, the dialog says so, is stopped, and the tab asks before it is closed", async () => {
  serve([]);
  await open("id,name\n1,A\n");
  const { preview } = state.dialog.content;
  const { promise, resolve } = Promise.withResolvers();
  const others = answerFile(resolve);

  const sending = state.dialog.act({}, IMPORT);
  await promise;
  const during = [isTyped(), text()];
  answerFile(others);
  state.dialog.stop();

  assert.equal(await sending, "Stopped");
  assert.deepEqual(during, [true, "Import my.plants.csv Stop"]);
  assert.equal(preview.isDone, undefined);
});

test("files are imported one at a time", () => {
  const files = ["one.csv", "two.csv"].map((name) => new File(["id,name\n"], name));

  chooseFile({ currentTarget: { files } });

  assert.deepEqual([state.toast.text, state.dialog], ["Import one file at a time", null]);
});

test("a file that is dropped where plants cannot be added is not ignored", () => {
  update({ scopes: ["plants:read"] });
  watchFiles();

  document.ondrop({ type: "drop", dataTransfer: { types: ["Files"] }, preventDefault: () => {} });

  assert.deepEqual([state.toast.text, state.isDropping], ["You cannot import plants here", false]);
});

describe("what is pasted is previewed", () => {
  /** Paste texts by their media types into an element that has some of these selectors. */
  const paste = async (text, files = [], element = "body") => {
    watchFiles();
    const target = { closest: (selector) => (selector.includes(element) ? target : null) };
    const clipboardData = { files, getData: () => text };
    const event = { target, clipboardData, preventDefault: () => {} };
    document.onpaste(event);
    await import("../../src/plantstore/web/page/preview.js");
    await new Promise(setImmediate);
    return state.dialog?.title;
  };

  beforeEach(() => serve([]));

  test("rows, also if the dialog of the import is open", async () => {
    assert.equal(await paste("1\tRosa"), "Import pasted rows");
    update({ dialog: null });
    chooseImport();

    assert.equal(await paste("1\tRosa"), "Import pasted rows");
    assert.ok(state.dialog.content.preview.isPasted);
  });

  test("several lines, also in a text field", async () => {
    assert.equal(await paste("Rosa\nAcer\n", [], "input"), "Import pasted rows");
  });

  test("several lines, also while a plant is added", async () => {
    addPlants();

    assert.equal(await paste("Rosa\nAcer\n", [], "textarea"), "Import pasted rows");
  });

  test("a file, also in a text field", async () => {
    assert.equal(await paste("", [new File(["id\n"], "a.csv")], "input"), "Import a.csv");
  });

  test("but no blanks, no text in a text field, and nothing without the scope or in a dialog", async () => {
    const titles = [await paste(" \n"), await paste("Rosa\n", [], "input")];
    update({ scopes: ["plants:read"] });
    titles.push(await paste("Rosa"));
    update({ scopes: null, dialog: { title: "Add a plant" } });

    assert.deepEqual(
      [...titles, await paste("Rosa")],
      [undefined, undefined, undefined, "Add a plant"],
    );
  });
});

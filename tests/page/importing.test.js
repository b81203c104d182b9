/** The import: what is taken, its progress, its result, its undo, and what is said if it fails. */

import assert from "node:assert/strict";
import { resolveObjectURL } from "node:buffer";
import { beforeEach, describe, test } from "node:test";
import { client } from "../../src/plantstore/web/page/client.js";
import { isTyped } from "../../src/plantstore/web/page/dialogs.js";
import { chooseFile, chooseImport, watchFiles } from "../../src/plantstore/web/page/importing.js";
import { addPlants } from "../../src/plantstore/web/page/plant.js";
import { ApiError } from "../../src/plantstore/web/page/requests.js";
import { importPlants, SentView } from "../../src/plantstore/web/page/sending.js";
import { onUpdate, state, update } from "../../src/plantstore/web/page/state.js";
import { planOf } from "./plans.js";
import { answer, answerFile, findAll, respond, textOf, withResponse } from "./tab.js";

const SAFE = "Importing the same file again is safe.";
const NONE = { stored: 0, already_stored: 0, replaced: 0, skipped: 0, refused: 0, errors: [] };

beforeEach(() => {
  answer();
  update({ dialog: null, scopes: null, toast: { text: "" }, sets: [] });
  update({ isSignedIn: true, keepsChanges: true });
});

/** Return the preview of a file that a dialog shows. */
async function show(content = "id,name\n1,A\n", result = undefined, chosen = {}) {
  const plan = { ...(await planOf(content, chosen)), result };
  update({ dialog: { title: "Import my.plants.csv" } });
  return { plan };
}

/** Import it, and return what is said in the dialog, or undefined if it is closed, or the error. */
async function send(preview) {
  const said = await importPlants(preview).catch((error) => error);
  if (!(said instanceof ApiError || typeof said !== "object")) throw said;
  Object.assign(state.dialog, said instanceof ApiError ? { error: said } : { said });
  return said;
}

/** Import a file, and return its preview and what became of it. */
async function importFile(act, content) {
  answerFile(act);
  const preview = await show(content);
  return { preview, said: await send(preview), text: state.toast.text };
}

/** Stop what the dialog does. */
const stop = () => state.dialog.stop();

const shown = (preview) => textOf(SentView({ preview }));

/** Return what the page says when it says something. */
function said() {
  return new Promise((resolve) => {
    onUpdate(() => state.toast.text && resolve(state.toast.text));
  });
}

describe("the result has the number of each outcome", () => {
  const results = [
    [{}, "Nothing was imported: 0 new", undefined],
    [{ already_stored: 7 }, "Nothing was imported: 0 new, 7 the same", undefined],
    [{ stored: 1 }, "1 plant imported: my.plants.csv", undefined],
    [
      { stored: 30_000, already_stored: 1_000, replaced: 2, refused: 3 },
      "30,000 new, 2 changed: my.plants.csv",
      "Imported: 30,000 new, 1,000 the same, 2 change, 3 refused",
    ],
    [
      { stored: 1, skipped: 6, refused: 1 },
      "1 plant imported: my.plants.csv",
      "Imported: 1 new, 6 skipped, 1 refused",
    ],
  ];

  for (const [result, text, said] of results) {
    test(text, async () => {
      const ended = await importFile(withResponse({ ...NONE, ...result }));

      assert.deepEqual([ended.text, ended.said], [text, said], "a dialog only if rows are refused");
    });
  }
});

test("rows that the page does not send are refused, too, and saved with the others", async () => {
  const errors = [{ line: 2, error: 1002, message: "It is refused" }];

  const content = "id;name\nx;A\n1;B;C\n";
  const { preview, said } = await importFile(
    withResponse({ ...NONE, refused: 1, errors }),
    content,
  );

  assert.equal(said, "Imported: 0 new, 2 refused");
  assert.match(shown(preview), /2 It is refused x · A 3 .* Save the refused rows .* Close$/);
  const { name, url } = preview.saved;
  assert.equal(name, "my.plants-refused.csv");
  const csv =
    "\ufeffid;name;reason\r\nx;A;It is refused\r\n1;B;It has more cells than the first row;C\r\n";
  assert.equal(Buffer.from(await resolveObjectURL(url).arrayBuffer()).toString(), csv);
});

test("rows without ids get them from the service, and keep them if it is tried again", async () => {
  const ranges = [
    { first: 7, last: 1006 },
    { first: 1007, last: 2006 },
    { first: 2009, last: 2009 },
  ];
  const counts = [];
  globalThis.fetch = async (path) => {
    if (path.startsWith("ids")) counts.push(path);
    return respond(path.startsWith("ids") ? ranges.shift() : []);
  };
  const bodies = [];
  const act = async (request) => {
    bodies.push(await request.body.text());
    withResponse({ message: "It is busy" }, 503)(request);
  };

  const { preview } = await importFile(act, `Name\n${"Rosa\n".repeat(2_001)}`);
  await send(preview);

  assert.deepEqual(counts, ["ids?count=1000", "ids?count=1000", "ids?count=1"]);
  assert.match(bodies[0], /^id,name\r\n7,Rosa\r\n8,Rosa\r\n/);
  assert.equal(bodies[1], bodies[0]);
});

test("an import does with plants that exist what its preview said", async () => {
  const preview = await show("id,name\n1,A\n", undefined, { conflict: "skip" });
  const paths = [];
  answerFile((request) => {
    paths.push(request.path);
    withResponse(NONE)(request);
  });

  await send(preview);

  assert.deepEqual(paths, ["plants.csv?on-conflict=skip"]);
});

test("plants that others have changed since the preview are kept, and counted", async () => {
  const result = { ...NONE, stored: 1, replaced: 2 };
  const preview = await show("id,name\n1,A2\n2,B2\n3,C\n", result, { conflict: "replace" });
  const changing = (id, name) => ({ old: { id, name, tag: "T" }, plant: { id, name: `${name}2` } });
  preview.plan.changing = [changing("1", "A"), changing("2", "B")];
  const sent = [];
  answerFile(async (request) => {
    const { path, body, set } = request;
    sent.push([path, set, await body.text()]);
    const made = { replaced: 1, refused: 1, errors: [{ line: 2, error: 3011, message: "" }] };
    const counts = path === "changes" ? made : { stored: 1 };
    withResponse({ ...NONE, ...counts }, 200, "", { "Change-Set": set })(request);
  });

  await send(preview);

  const said = "1 new, 1 changed, 1 changed by others and kept: my.plants.csv";
  assert.equal(state.toast.text, said);
  const [[path, set, file], [, other, changes]] = sent;
  assert.deepEqual([path, file], ["plants.csv?on-conflict=skip", "id,name\r\n3,C\r\n"]);
  assert.match(changes, /^{"id":1,"before":{"name":"A","tag":"T"},"after":{"name":"A2"}}\n.*\n$/);
  assert.equal(set, other, "one undo for all");
});

test("an import that is stopped takes no further ids", async () => {
  let taken = 0;
  globalThis.fetch = async (path) => {
    if (!path.startsWith("ids")) return respond([]);
    taken += 1;
    stop();
    return respond({ first: 1, last: 1000 });
  };

  const said = await send(await show(`Name\n${"Rosa\n".repeat(2_001)}`));

  assert.equal(said, "Stopped");
  assert.equal(taken, 1);
});

test("a link leads to the imported plants if all of them are new", async () => {
  const linksAfter = async (stored) => {
    await importFile(withResponse({ ...NONE, stored }), "id,name\n30,A\n7,B\n");
    return findAll("a", state.toast.link).map(({ href }) => href);
  };

  assert.deepEqual([await linksAfter(2), await linksAfter(1)], [["?after=6"], []]);
});

describe("an import can be undone", () => {
  const importTwo = async (fields, result = { stored: 1, replaced: 1 }) => {
    let set;
    answerFile((request) => {
      set = request.set;
      const named = fields ?? { "Change-Set": set };
      withResponse({ ...NONE, ...result }, 200, "", named)(request);
    });
    await send(await show("id,name\n1,Abies\n2,New\n", result));
    return set;
  };

  test("what it created is deleted, and what it replaced is as before", async () => {
    const set = await importTwo();
    assert.equal(state.toast.text, "1 new, 1 changed: my.plants.csv");
    const requests = answer(
      respond({ restored: 1, deleted: 1, recreated: 0, kept: 0, kept_ids: [] }),
    );

    await state.toast.action[1]();

    assert.equal(requests[0].path, `undo?set=${set}`);
    assert.equal(state.toast.text, "1 plant removed, 1 changed back");
  });

  test("but not without a scope that it needs", async () => {
    update({ scopes: ["plants:create", "plants:read"] });
    await importTwo();

    assert.deepEqual([state.toast.action, state.sets], [undefined, []]);
    update({ scopes: ["plants:update"] });
    await importTwo(undefined, { stored: 0, replaced: 2 });
    assert.equal(state.toast.action[0], "Undo");
  });

  test("but not if the service keeps no changes, which is said", async () => {
    await importTwo({});

    const { text, note, action } = state.toast;
    assert.equal(text, "1 new, 1 changed: my.plants.csv");
    assert.deepEqual(
      [note, action],
      ["This cannot be undone: the service keeps no changes.", undefined],
    );
  });

  test("and if it was stopped, the page says how many plants are stored", async () => {
    answer(respond({ restored: 0, deleted: 4_000, recreated: 0, kept: 0, kept_ids: [] }));
    answerFile(stop);
    const rows = Array.from({ length: 9_900 }, (_, id) => `${id},A`);
    const preview = await show(`id,name\n${rows.join("\n")}`);

    await send(preview);
    await said();

    assert.match(shown(preview), new RegExp(`${SAFE} Stopped Close Try again$`));
    assert.equal(state.toast.text, "Stopped: 4,000 of 9,900 plants imported: my.plants.csv");
    assert.equal(state.toast.action[0], "Undo");
  });
});

test("an import that is tried again counts what all its attempts have stored", async () => {
  globalThis.fetch = async () => respond({ message: "It is stopping" }, 503);
  const { preview } = await importFile(withResponse({ message: "It is stopping" }, 503));
  await said();
  answer(respond({ restored: 0, deleted: 60_000, recreated: 0, kept: 0 }));
  answerFile((request) => {
    const fields = { "Change-Set": request.set };
    withResponse({ ...NONE, stored: 12_000, already_stored: 48_000 }, 200, "", fields)(request);
  });

  await send(preview);

  assert.equal(state.toast.text, "60,000 plants imported: my.plants.csv");
  assert.deepEqual(
    state.sets.map(({ what }) => what),
    ["60,000 plants imported: my.plants.csv"],
  );
});

describe("an import that fails says why, and is tried again", () => {
  const message = "It is refused";
  const foreign = "The response is not from the Plant Store";
  const failures = [
    ["an invalid file", 400, { error: 1008, message }, message],
    ["a limit", 429, { error: 3005, message }, message],
    ["an error of the service", 500, { error: 5000, message }, message],
    ["a proxy that limits bodies", 413, "<h1>Too large</h1>", `${foreign}: 413`],
    ["another server", 200, "{}", `${foreign}: 200`],
  ];

  for (const [name, status, body, problem] of failures) {
    test(name, async () => {
      const content = `id,name\n\n${"1,A\n".repeat(2_000)}`;
      const { preview, said } = await importFile(withResponse(body, status), content);

      assert.equal(said.message, problem);
      assert.match(shown(preview), new RegExp(`${SAFE} ${problem} Close Try again$`));
    });
  }

  test("a connection that broke off", async () => {
    const { said } = await importFile((request) => request.onerror());

    assert.equal(said.message, "The service does not respond");
  });
});

test("an import with a revoked token leads to the sign-in", async () => {
  const body = { message: "The token is revoked" };
  const refusal = new Promise((resolve) => {
    client.onrefusal = resolve;
  });
  answer(respond(body, 401)); // The list is loaded after the import.

  await importFile(withResponse(body, 401));

  assert.equal((await refusal).message, body.message);
});

test("while a file is imported, the dialog says so, is stopped, and the tab asks before it is closed", async () => {
  answerFile(() => {});
  const preview = await show();

  const sending = send(preview);
  const during = [isTyped(), shown(preview)];
  stop();
  await sending;

  assert.deepEqual(during, [true, "Import my.plants.csv The service is storing the plants… Stop"]);
  assert.match(shown(preview), /Try again$/);
});

test("files are imported one at a time", () => {
  const files = ["one.csv", "two.csv"].map((name) => new File(["id,name\n"], name));

  chooseFile({ currentTarget: { files } });

  assert.deepEqual([state.toast.text, state.dialog], ["Import one file at a time", null]);
});

test("an import that is stopped after its response is not done", async () => {
  const { preview, said } = await importFile((request) => {
    stop();
    withResponse({ ...NONE, stored: 1 })(request);
  });

  assert.deepEqual([said, preview.isDone], ["Stopped", undefined]);
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

  beforeEach(() => answerFile(withResponse(NONE)));

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

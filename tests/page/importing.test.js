/** The import: its progress, its result, its undo, and what is said if it fails. */

import assert from "node:assert/strict";
import { resolveObjectURL } from "node:buffer";
import { beforeEach, describe, test } from "node:test";
import { client } from "../../src/plantstore/web/page/client.js";
import {
  chooseFile,
  chooseImport,
  Importing,
  isImporting,
  startImport,
  stopImport,
  watchFiles,
} from "../../src/plantstore/web/page/importing.js";
import { onUpdate, state, update } from "../../src/plantstore/web/page/state.js";
import { planOf } from "./plans.js";
import { answer, answerFile, respond, textOf, withResponse } from "./tab.js";

const SAFE = "Importing the same file again is safe.";
const NONE = { stored: 0, already_stored: 0, replaced: 0, skipped: 0, refused: 0, errors: [] };

beforeEach(() => {
  answer();
  update({ importing: {}, dialog: null, scopes: null, toast: { text: "" }, sets: [] });
  update({ isSignedIn: true, keepsChanges: true });
});

/** Begin an import. */
async function start(content = "id,name\nx,A\n", result = undefined) {
  const plan = await planOf(content);
  startImport({ ...plan, result });
}

/** Import a file, and return what the page shows of it at the end; and what it says. */
async function importFile(act, content) {
  answerFile(act);
  await start(content);
  return { ...(await end()), text: state.toast.text };
}

function end() {
  return new Promise((resolve) => {
    onUpdate(() => !state.importing.isRunning && resolve(state.importing));
  });
}

/** Return what the page says when it says something. */
function said() {
  return new Promise((resolve) => {
    onUpdate(() => state.toast.text && resolve(state.toast.text));
  });
}

describe("the result has the number of each outcome", () => {
  const results = [
    [{}, "Import finished: 0 stored.", undefined],
    [{ already_stored: 7 }, "Import finished: 0 stored, 7 already there.", undefined],
    [{ stored: 1 }, "1 plant imported: my.plants.csv", undefined],
    [
      { stored: 30_000, already_stored: 1_000, replaced: 2, refused: 3 },
      "30,000 new, 2 changed: my.plants.csv",
      "Import finished: 30,000 stored, 1,000 already there, 2 updated, 3 refused.",
    ],
    [
      { stored: 1, skipped: 6, refused: 1 },
      "1 plant imported: my.plants.csv",
      "Import finished: 1 stored, 6 skipped, 1 refused.",
    ],
  ];

  for (const [result, text, said] of results) {
    test(text, async () => {
      const ended = await importFile(withResponse({ ...NONE, ...result }));

      assert.deepEqual([ended.text, ended.said, ended.problem], [text, said, undefined]);
      assert.equal(
        textOf(Importing()) === "",
        said === undefined,
        "a panel only if rows are refused",
      );
    });
  }
});

test("rows that the page does not send are refused, too, and saved with the others", async () => {
  const errors = [{ line: 2, error: 1002, message: "It is refused" }];

  const content = "id;name\nx;A\n1;B;C\n";
  const ended = await importFile(withResponse({ ...NONE, refused: 1, errors }), content);

  assert.equal(ended.said, "Import finished: 0 stored, 2 refused.");
  assert.deepEqual(
    ended.refused.rows.map(({ row }) => row),
    [2, 3],
  );
  const [{ label, name, url }] = ended.files;
  assert.deepEqual([label, name], ["Save the refused rows", "my.plants-refused.csv"]);
  const csv =
    "\ufeffid;name;reason\r\nx;A;It is refused\r\n1;B;It has more cells than the first row;C\r\n";
  assert.equal(Buffer.from(await resolveObjectURL(url).arrayBuffer()).toString(), csv);
});

test("rows without ids get them from the service, and keep them if it is tried again", async () => {
  const ranges = [
    { first: 7, last: 1006 },
    { first: 1007, last: 1007 },
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

  const ended = await importFile(act, `Name\n${"Rosa\n".repeat(2_001)}`);
  startImport(ended.plan);
  const again = await end();

  assert.deepEqual(counts, ["ids?count=1000", "ids?count=1000", "ids?count=1"]);
  assert.match(bodies[0], /^id,name\r\n7,Rosa\r\n8,Rosa\r\n/);
  assert.equal(bodies[1], bodies[0]);
  assert.deepEqual(
    again.files.map(({ label, name }) => [label, name]),
    [["Save the file with its ids", "my.plants-with-ids.csv"]],
  );
});

test("an import does with plants that exist what its preview said", async () => {
  const plan = await planOf("id,name\n1,A\n", { conflict: "replace" });
  const paths = [];
  answerFile((request) => {
    paths.push(request.path);
    withResponse(NONE)(request);
  });

  startImport(plan);
  await end();

  assert.deepEqual(paths, ["plants.csv?on-conflict=replace"]);
});

test("an import that is stopped takes no further ids", async () => {
  let taken = 0;
  globalThis.fetch = async (path) => {
    if (!path.startsWith("ids")) return respond([]);
    taken += 1;
    stopImport();
    return respond({ first: 1, last: 1000 });
  };

  await start(`Name\n${"Rosa\n".repeat(2_001)}`);
  const { problem } = await end();

  assert.match(problem, /^Stopped/);
  assert.equal(taken, 1);
});

describe("an import can be undone", () => {
  const importTwo = async (fields, result = { stored: 1, replaced: 1 }) => {
    let set;
    answerFile((request) => {
      set = request.set;
      const named = fields ?? { "Change-Set": set };
      withResponse({ ...NONE, ...result }, 200, "", named)(request);
    });
    await start("id,name\n1,Abies\n2,New\n", result);
    await end();
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
    answerFile(stopImport);

    await start(`id,name\n${Array.from({ length: 9_900 }, (_, id) => `${id},A`).join("\n")}`);
    await said();

    assert.equal(state.importing.problem, `Stopped. ${SAFE}`);
    assert.equal(state.toast.text, "Stopped: 4,000 of 9,900 plants imported: my.plants.csv");
    assert.equal(state.toast.action[0], "Undo");
  });
});

describe("an import that fails says why, what is stored, and whether to try again", () => {
  const message = "It is refused";
  const foreign = "The response is not from the Plant Store";
  const failures = [
    ["an invalid file", 400, { error: 1008, message }, message, false],
    ["a limit", 429, { error: 3005, message }, message, true],
    ["an error of the service", 500, { error: 5000, message }, `${message}. ${SAFE}`, true],
    ["a proxy that limits bodies", 413, "<h1>Too large</h1>", `${foreign}: 413. ${SAFE}`, true],
    ["a proxy without a service", 502, "<h1>502</h1>", `${foreign}: 502. ${SAFE}`, true],
    ["another server", 200, "{}", `${foreign}: 200. ${SAFE}`, true],
  ];

  for (const [name, status, body, problem, canRetry] of failures) {
    test(name, async () => {
      const ended = await importFile(
        withResponse(body, status),
        `id,name\n\n${"1,A\n".repeat(2_000)}`,
      );

      assert.deepEqual([ended.problem, ended.canRetry], [problem, canRetry]);
      assert.equal(/Try again/.test(textOf(Importing())), canRetry);
    });
  }
});

test("an import whose connection breaks off may have stored rows", async () => {
  const ended = await importFile((request) => request.onerror());

  assert.equal(ended.problem, `The service does not respond. ${SAFE}`);
  assert.equal(ended.canRetry, true);
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

test("while a file is imported, the page says so, and the import can be stopped", () => {
  update({ importing: { file: { name: "large.csv" }, isRunning: true } });

  assert.equal(textOf(Importing()), "Import large.csv The service is storing the plants… Stop");
});

test("files are imported one at a time", async () => {
  const choose = (...names) =>
    chooseFile({ currentTarget: { files: names.map((name) => new File(["id,name\n"], name)) } });
  answerFile(() => {});

  choose("one.csv", "two.csv");
  const together = state.toast.text;
  update({ toast: { text: "" } });
  await start();
  choose("other.csv");
  const during = state.toast.text;
  stopImport();
  await end();

  const problem = "Import one file at a time";
  assert.deepEqual([together, during, state.dialog], [problem, problem, null]);
});

test("an import that is stopped after its response does not change what the next one shows", async () => {
  const errors = [{ line: 2, error: 1002, message: "It is refused" }];
  answerFile((request) => {
    stopImport();
    withResponse({ ...NONE, refused: 1, errors })(request);
  });
  await start();
  const stopped = await end();
  const next = await importFile(withResponse({ ...NONE, stored: 1 }));

  assert.equal(stopped.problem, `Stopped. ${SAFE}`);
  assert.equal(next.text, "1 plant imported: my.plants.csv");
  assert.deepEqual([next.problem, next.refused], [undefined, undefined]);
});

test("a tab with an import asks before it is closed, unless the import was stopped", async () => {
  answerFile(() => {});

  const before = isImporting();
  await start();
  const during = isImporting();
  stopImport();
  const stopped = isImporting();
  await end();

  assert.deepEqual([before, during, stopped], [false, true, false]);
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
    assert.equal(await paste("1\tRosa"), "Import Pasted rows");
    update({ dialog: null });
    chooseImport();

    assert.equal(await paste("1\tRosa"), "Import Pasted rows");
    assert.ok(state.dialog.content.preview.isPasted);
  });

  test("a file, also in a text field", async () => {
    assert.equal(await paste("", [new File(["id\n"], "a.csv")], "input"), "Import a.csv");
  });

  test("but no blanks, no text in a text field, and nothing without the scope or in a dialog", async () => {
    const titles = [await paste(" \n"), await paste("Rosa", [], "input")];
    update({ scopes: ["plants:read"] });
    titles.push(await paste("Rosa"));
    update({ scopes: null, dialog: { title: "Add a plant" } });

    assert.deepEqual(
      [...titles, await paste("Rosa")],
      [undefined, undefined, undefined, "Add a plant"],
    );
  });
});

/** The import: its progress, its result, its undo, and what is said if it fails. */

import assert from "node:assert/strict";
import { resolveObjectURL } from "node:buffer";
import { beforeEach, describe, test } from "node:test";
import { undoChange } from "../../src/plantstore/web/page/changes.js";
import { client } from "../../src/plantstore/web/page/client.js";
import {
  chooseFile,
  Importing,
  isImporting,
  startImport,
  stopImport,
} from "../../src/plantstore/web/page/importing.js";
import { onUpdate, state, update } from "../../src/plantstore/web/page/state.js";
import { planOf } from "./plans.js";
import { answer, answerFile, respond, respondPlants, serve, textOf, withResponse } from "./tab.js";

const MAYBE = "Rows that were sent may be stored. Importing the same file again is safe.";
const NONE = { stored: 0, already_stored: 0, replaced: 0, refused: 0, errors: [] };

beforeEach(() => {
  answer();
  update({ importing: {}, dialog: null, scopes: null, toast: { text: "" } });
  update({ isSignedIn: true });
});

/** Begin an import. */
async function start(content = "id,name\nx,A\n", result = undefined, replaces = false) {
  const plan = await planOf(content, { replaces });
  startImport({ ...plan, result });
}

/** Import a file, and return what the page shows of it at the end. */
async function importFile(act, content) {
  answerFile(act);
  await start(content);
  return await end();
}

function end() {
  return new Promise((resolve) => {
    onUpdate(() => state.importing.sent === undefined && resolve(state.importing));
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
    [{ stored: 1 }, "1 stored"],
    [{}, "0 stored"],
    [
      { stored: 30_000, already_stored: 1_000, replaced: 2, refused: 3 },
      "30,000 stored, 1,000 already there, 2 updated, 3 refused",
    ],
  ];

  for (const [result, said] of results) {
    test(said, async () => {
      const ended = await importFile(withResponse({ ...NONE, ...result }));

      assert.equal(ended.said, `Import finished: ${said}.`);
      assert.equal(ended.problem, undefined);
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
  assert.equal(again.numbered, "New ids: 7 to 2009.");
  assert.deepEqual(
    again.files.map(({ label, name }) => [label, name]),
    [["Save the file with its ids", "my.plants-with-ids.csv"]],
  );
});

test("an import does with plants that exist what its preview said", async () => {
  const plan = await planOf("id,name\n1,A\n", { replaces: true });
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
  const OLD = { id: "2", name: "Old", tag: "T" };
  const NEW = { id: "2", name: "New", tag: "T" };

  /** Import new plants and one that exists, while somebody else changes others. */
  async function importTwo(
    result,
    { scopes = null, act = withResponse({ ...NONE, ...result }) } = {},
  ) {
    update({ scopes });
    const taken = { line: 3, error: 1004, message: "`id` is taken" };
    const paths = [];
    answerFile((request) => {
      paths.push(request.path);
      if (request.path.endsWith("dry-run=true"))
        withResponse({ ...NONE, refused: 1, errors: [taken] })(request);
      else act(request);
    });
    const feed = [
      { change: "created", plant: { id: 1, name: "Abies" } },
      { change: "replaced", plant: { ...NEW, id: 2 } },
      { change: "replaced", plant: { id: 3, name: "Theirs" } },
      { change: "created", plant: { id: 4, name: "Picea" } },
      { change: "replaced", plant: { id: 4, name: "Theirs, since" } },
    ];
    globalThis.fetch = async (path) => {
      paths.push(path);
      if (path === "plants/2") return respondPlants(OLD);
      if (path.startsWith("changes?after=now")) return respond([], 200, { "Changes-After": "7" });
      if (path.startsWith("changes?after=7")) return respond(feed, 200, { "Changes-After": "10" });
      return respond([]);
    };
    await start("id,name\n1,Abies\n2,New\n3,Theirs\n4,Picea\n", { ...NONE, ...result }, true);
    return paths;
  }

  test("what it created is deleted, and what it replaced is as before", async () => {
    await importTwo({ stored: 1, replaced: 1 });
    assert.equal(await said(), "2 plants imported");
    const { stored } = serve([{ id: "1", name: "Abies" }, NEW, { id: "3", name: "Theirs" }]);

    await undoChange();

    assert.deepEqual([...stored.values()], [OLD, { id: "3", name: "Theirs" }]);
  });

  test("also after it was stopped", async () => {
    await importTwo({ stored: 1, replaced: 1 }, { act: stopImport });

    assert.equal(await said(), "2 plants imported");
    assert.match(state.importing.problem, /^Stopped/);
  });

  for (const result of [{ stored: 10_001 }, { stored: 1, replaced: 1, refused: 1000 }]) {
    test(`but not of more plants than can be changed back: ${JSON.stringify(result)}`, async () => {
      const paths = await importTwo(result);
      await end();

      assert.ok(!paths.some((path) => path.startsWith("changes")));
    });
  }

  test("but not without the scopes that it needs", async () => {
    const paths = await importTwo(
      { stored: 1 },
      { scopes: ["plants:create", "plants:read", "changes:read"] },
    );
    await end();

    assert.ok(!paths.some((path) => path.startsWith("changes")));
  });
});

describe("an import that fails says why, what is stored, and whether to try again", () => {
  const message = "It is refused";
  const stored = "The rows up to 1,002 are stored, unless they were refused";
  const foreign = "The response is not from the Plant Store";
  const failures = [
    ["an invalid file", 400, { error: 1008, message }, message, false],
    ["a limit", 429, { error: 3005, message }, message, true],
    ["an error of the service", 500, { error: 5000, message }, `${message}. ${MAYBE}`, true],
    [
      "an import that is cut off",
      503,
      { error: 5003, message, lines_stored_through: 1_001 },
      `${message}. ${stored}; later rows may be stored, too. Importing the same file again is safe.`,
      true,
    ],
    [
      "an import of which it is not known what is stored",
      503,
      { error: 5003, message, lines_stored_through: 0 },
      `${message}. ${MAYBE}`,
      true,
    ],
    ["a proxy that limits bodies", 413, "<h1>Too large</h1>", `${foreign}: 413. ${MAYBE}`, true],
    ["a proxy without a service", 502, "<h1>502</h1>", `${foreign}: 502. ${MAYBE}`, true],
    ["another server", 200, "{}", `${foreign}: 200. ${MAYBE}`, true],
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

  assert.equal(ended.problem, `The connection to the service broke off. ${MAYBE}`);
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

test("while a file is sent, the page shows how much, and then that the service stores", async () => {
  const file = { name: "large.csv", size: 30_300_000 };

  update({ importing: { file, sent: 1_250_000 } });
  const sending = textOf(Importing());
  update({ importing: { file, sent: file.size } });
  const storing = textOf(Importing());
  update({ importing: { file: { name: "small.csv", size: 2_000 }, sent: 500 } });
  const small = textOf(Importing());

  assert.equal(sending, "Import large.csv 1.3 of 30.3 MB sent Stop");
  const stores = "Everything is sent. The service is storing the plants…";
  assert.equal(storing, `Import large.csv ${stores} Stop`);
  assert.equal(small, "Import small.csv 0.5 of 2.0 kB sent Stop");
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

  assert.equal(stopped.problem, `Stopped. ${MAYBE}`);
  assert.equal(next.said, "Import finished: 1 stored.");
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

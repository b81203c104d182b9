/** The import: its progress, its result, and what is said if it fails. */

import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { client } from "../../src/plantstore/web/page/client.js";
import {
  chooseFile,
  Importing,
  isImporting,
  stopImport,
} from "../../src/plantstore/web/page/importing.js";
import { onUpdate, state, update } from "../../src/plantstore/web/page/state.js";
import { answer, answerFile, respond, textOf, withResponse } from "./tab.js";

const MAYBE = "Rows that were sent may be stored. Importing the same file again is safe.";
const NONE = { stored: 0, already_stored: 0, replaced: 0, refused: 0, errors: [] };

beforeEach(() => {
  answer();
  update({ importing: {}, replaces: false });
});

function choose(...names) {
  const files = names.map((name) => new File(["id,name\nx,A\n"], name));
  chooseFile({ currentTarget: { files } });
}

/** Import a file, and return what the page shows of it at the end. */
async function importFile(act, name = "plants.csv") {
  answerFile(act);
  choose(name);
  return await end();
}

function end() {
  return new Promise((resolve) => {
    onUpdate(() => state.importing.sent === undefined && resolve(state.importing));
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

describe("the result says what the file had", () => {
  const files = [
    [
      "empty names",
      "id,name,tag\n1,\n2,\n",
      "Import finished: 0 stored. 2 rows have an empty name.",
      "",
    ],
    [
      "an encoding",
      new Uint8Array([0xff, 0xfe, 0x69, 0]),
      undefined,
      "The file was read as UTF-16LE",
    ],
    ["no tags", "id,name\n", undefined, "so the plants that exist keep their tags"],
  ];

  for (const [name, content, said = "Import finished: 0 stored.", warning] of files) {
    test(name, async () => {
      update({ replaces: warning.includes("tags") });
      answerFile(withResponse(NONE));

      chooseFile({ currentTarget: { files: [new File([content], "plants.csv")] } });
      const ended = await end();

      assert.equal(ended.said, said);
      assert.ok(ended.warning.endsWith(warning));
    });
  }
});

test("after the line sep=, errors have the numbers of the lines of the file", async () => {
  const errors = [
    { line: 2, error: 1002, message: "It is refused" },
    { line: 3, error: 1002, message: "It is refused", last_line: 4 },
  ];
  answerFile(withResponse({ ...NONE, refused: 3, errors }));

  const content = 'sep=,\nid,name\nx,A\n1,"open\n2,B\n';
  chooseFile({ currentTarget: { files: [new File([content], "plants.csv")] } });
  const { refused } = await end();

  const shown = refused.rows.map(({ line, last_line, row }) => [line, last_line, row]);
  assert.deepEqual(shown, [
    [3, undefined, "x,A"],
    [4, 5, '1,"open\n2,B'],
  ]);
});

test("a file without ids is imported only after a question, with ids that are shown", async () => {
  const ranges = [
    { first: 7, last: 1006 },
    { first: 1007, last: 1007 },
    { first: 9, last: 9 },
  ];
  const counts = [];
  globalThis.fetch = async (path) => {
    if (path.startsWith("ids")) counts.push(path);
    return respond(path.startsWith("ids") ? ranges.shift() : []);
  };
  const bodies = [];
  answerFile(async (request) => {
    bodies.push(await request.body.text());
    withResponse({ ...NONE, stored: 2001 })(request);
  });
  const questions = [];
  const answers = ["no", "yes"];
  const importNames = async () => {
    const content = `Name\n${"Rosa\n".repeat(2_001)}`;
    chooseFile({ currentTarget: { files: [new File([content], "names.csv")] } });
    return await new Promise((resolve) => {
      onUpdate(() => {
        const { question, importing } = state;
        if (question && !questions.includes(question)) {
          questions.push(question);
          question.answer(answers.shift());
        } else if (importing.sent === undefined) resolve(importing);
      });
    });
  };

  const refused = await importNames();
  const ended = await importNames();

  assert.equal(refused.problem, "Nothing was imported");
  assert.equal(questions[1].yes, "Number the 2,001 rows");
  assert.deepEqual(counts, ["ids?count=1000", "ids?count=1000", "ids?count=1"]);
  assert.match(bodies[0], /^id,Name\n7,Rosa\n8,Rosa\n/);
  assert.deepEqual(
    [ended.file.name, ended.numbered.said, ended.said],
    ["names-with-ids.csv", "The rows have the ids 7 to 1007, 9.", "Import finished: 2,001 stored."],
  );
});

test("an import that is stopped takes no further ids", async () => {
  let taken = 0;
  globalThis.fetch = async (path) => {
    if (!path.startsWith("ids")) return respond([]);
    taken += 1;
    stopImport();
    return respond({ first: 1, last: 1000 });
  };
  const content = `Name\n${"Rosa\n".repeat(2_001)}`;
  chooseFile({ currentTarget: { files: [new File([content], "names.csv")] } });

  const problem = await new Promise((resolve) => {
    onUpdate(() => {
      const { question, importing } = state;
      question?.answer("yes");
      if (importing.problem) resolve(importing.problem);
    });
  });

  assert.match(problem, /^Stopped/);
  assert.equal(taken, 1);
});

test("the warnings of the service are shown with the result", async () => {
  const warnings = ['Column "more" is ignored', "The file is empty"];

  const ended = await importFile(withResponse({ ...NONE, warnings }));

  assert.equal(ended.warning, warnings.join(". "));
});

describe("an import that fails says why, what is stored, and whether to try again", () => {
  const message = "It is refused";
  const stored = "Rows up to line 1,001 are stored, unless they were refused";
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
      const ended = await importFile(withResponse(body, status));

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

test("a file that cannot be read is not tried again", async () => {
  const changed = new File(["id,name\n"], "changed.csv");
  changed.slice = () => ({ arrayBuffer: () => Promise.reject(new Error("NotReadableError")) });
  answerFile((request) => request.onerror());

  chooseFile({ currentTarget: { files: [changed] } });
  const ended = await end();

  const message = "The file cannot be read: it is a folder, or was changed or removed";
  assert.equal(ended.problem, message);
  assert.ok(!ended.canRetry);
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
  const stores = "The file is sent. The service is storing the plants…";
  assert.equal(storing, `Import large.csv ${stores} Stop`);
  assert.equal(small, "Import small.csv 0.5 of 2.0 kB sent Stop");
});

test("files are imported one at a time", async () => {
  answerFile(() => {});

  choose("one.csv", "two.csv");
  const together = state.importing;
  choose("plants.csv");
  choose("other.csv");
  const during = state.importing;
  stopImport();
  await end();

  const problem = "Import one file at a time";
  assert.deepEqual(together, { problem });
  assert.deepEqual([during.file.name, during.problem], ["plants.csv", problem]);
});

test("an import that is stopped after its response does not change what the next one shows", async () => {
  const errors = [{ line: 2, error: 1002, message: "It is refused" }];
  answerFile(withResponse({ ...NONE, refused: 1, errors }));
  choose("stopped.csv");

  stopImport();
  choose("early.csv");
  const early = state.importing;
  const stopped = await end();
  const next = await importFile(withResponse({ ...NONE, stored: 1 }), "next.csv");

  assert.equal(early.problem, "Import one file at a time");
  assert.deepEqual([stopped.file.name, stopped.problem], ["stopped.csv", `Stopped. ${MAYBE}`]);
  assert.deepEqual([next.file.name, next.said], ["next.csv", "Import finished: 1 stored."]);
  assert.deepEqual([next.problem, next.refused], [undefined, undefined]);
});

test("a tab with an import asks before it is closed, unless the import was stopped", async () => {
  answerFile(() => {});

  const before = isImporting();
  choose("plants.csv");
  const during = isImporting();
  stopImport();
  const stopped = isImporting();
  await end();

  assert.deepEqual([before, during, stopped], [false, true, false]);
});

/** The preview of an import: the columns that are suggested, and the CSV that is sent. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { beforeEach, describe, test } from "node:test";
import { makePlan, suggest } from "../../src/plantstore/web/page/plan.js";
import { openPreview } from "../../src/plantstore/web/page/preview.js";
import { onUpdate, state, update } from "../../src/plantstore/web/page/state.js";
import { planOf, previewOf } from "./plans.js";
import { answer, answerFile, respond, respondPlants, textOf, withResponse } from "./tab.js";

/** The files that the command and the service read, too. */
const CASES = JSON.parse(readFileSync(new URL("../support/csv_cases.json", import.meta.url)));

const NONE = { stored: 0, already_stored: 0, replaced: 0, refused: 0, errors: [] };

const { signal } = new AbortController();

beforeEach(() => {
  answer();
  update({ dialog: null, scopes: null, importing: {} });
});

describe("columns are suggested by their usual names, or by their order", () => {
  const files = [
    ["id,name,tag\n1,A,B", { id: 0, name: 1, tag: 2 }, true],
    ["Nr;Name;Gattung\n1;A;B", { id: 0, name: 1, tag: 2 }, true],
    ["Gattung;Art;Nr.;id\nA;B;9;1", { id: 3, name: 1, tag: 0 }, true],
    ["Name\nRosa\nAbies", { id: -1, name: 0, tag: -1 }, true],
    ["Label,Latin,Price\n1,A,3\n2,B,4", { id: 0, name: 1, tag: -1 }, true],
    ["1,Rosa,Shrub\n2,Abies,Tree", { id: 0, name: 1, tag: 2 }, false],
    ["id,tag\n1,Shrub\n2,Tree", { id: 0, name: -1, tag: 1 }, true],
    [
      "id\tmodified\tcatalogNumber\tscientificName\tgenus\n1\t2024-05-01\tB1\tA\tB",
      [0, 3, 4],
      true,
    ],
    ["Accession Number,Botanical Name,Bed\n2024.0001,A,B1", [-1, 1, -1], true],
    ["Accession,Taxon\n7,A", [0, 1, -1], true],
    ["id,genus,species,scientific name\n1,A,b,A b", [0, 3, 1], true],
    ["Planted,Seen,Count,Latin\n2024-05-01,1 May 2024,7,A\n,,,", [-1, 3, -1], true],
    ["Plant,Genus\n1,A\n2,B", [-1, -1, 1], true],
    ["id,name\n1,4711\n2,4712", [0, 1, -1], true],
    ["Label,Latin\n1,A\n2b,B\n3,C", [0, 1, -1], true],
    ["Quantity,Latin\n1,A\n2,B", [-1, 1, -1], true],
    ["Label,Latin\n3,A\n10,B\n3,C", [-1, 1, -1], true],
    ["3,A\n10,B\n3,C", [-1, 1, -1], false],
  ];

  for (const [content, columns, isHeaded] of files) {
    test(content.split("\n")[0], async () => {
      const preview = await previewOf(content);

      const { id, name, tag } = preview.columns;
      const expected = Array.isArray(columns) ? columns : Object.values(columns);
      assert.deepEqual([[id, name, tag], preview.isHeaded], [expected, isHeaded]);
    });
  }

  test("of pasted rows, the first one is a plant unless it has usual names", async () => {
    const bare = await previewOf("Rosa\tShrub\nAbies\tTree", true);
    const named = await previewOf("Name\tTag\nRosa\tShrub", true);

    assert.deepEqual([bare.isHeaded, bare.columns], [false, { id: -1, name: 0, tag: 1 }]);
    assert.equal(named.isHeaded, true);
  });
});

describe("the names of the columns are below a title", () => {
  const files = [
    ["Nursery Greene;;\n;;\nid;name;tag\n1;A;B", 2],
    ["Table 1\nid,name,tag\n1,A,B", 1],
    ["Plants,Plants,Plants\nLabel,Latin,Bed\n1,A,B", 1],
    ["Stock,,,2024-05-01\nWhat,Where,Size,When\nA,B,C,D", 1],
    ["Plant,,\nid,name,tag\n1,A,B", 1],
    ["Name\nTag\nA", 0],
    ["Latin,Bed\nRosa,A\nAbies,Group", 0],
    ["id,name\n1,A,\n2,B,C", 0],
  ];

  for (const [content, top] of files) {
    test(content.split("\n")[top], async () => {
      const preview = await previewOf(content);
      const plan = await makePlan(preview, signal);

      assert.deepEqual([preview.top, preview.isHeaded], [top, true]);
      assert.ok(plan.indexes.every((index) => index > top));
      assert.equal([...plan.faults.keys()].filter((index) => index <= top).length, 0);
    });
  }

  test("or in another row, which is chosen", async () => {
    const preview = await previewOf("id,name\n1,A\nNr,Sorte\n2,B");

    suggest(preview, 2);

    const { file } = await makePlan(preview, signal);
    assert.equal(await file.text(), "id,name\r\n2,B\r\n");
  });
});

test("blanks at the ends of ids, names and tags are not sent", async () => {
  const { file } = await planOf("id,name,tag\n 1\u00a0,\u00a0Rosa alba ,\u2003Rosa\u00a0\n");

  assert.equal(await file.text(), "id,name,tag\r\n1,Rosa alba,Rosa\r\n");
});

describe("the service gets the same plants as from the file itself, without blanks at the ends", () => {
  for (const { name, content, plants, refused = [] } of CASES.filter(({ error }) => !error)) {
    test(name, async () => {
      const { file, faults, table } = await planOf(content);

      // A wrong quote may reach into the next row, which is then refused, too.
      const wrong = [...faults.keys()].map((index) => table.rows[index].join()).join();
      const sent = await previewOf(await file.text());
      const isBlank = (id) => refused.some(([, row]) => row.startsWith(` ${id}`));
      const valid = sent.table.rows.filter(([id]) => /^-?\d+$/.test(id) && !isBlank(id));
      assert.deepEqual(
        valid.map(([id, text, tag]) => [Number(id), text, tag || null]),
        plants
          .map(([id, text, tag]) => [id, text.trim(), tag?.trim() || null])
          .filter(([, text]) => text !== "" && !wrong.includes(text)),
      );
    });
  }
});

test("the rows of the file are known by the lines of what is sent", async () => {
  const { file, lines, indexes } = await planOf('sep=;\nname;id\n\n"A\nB";1\n;\nC;2\n');

  assert.equal(await file.text(), 'id,name\r\n1,"A\nB"\r\n2,C\r\n');
  assert.deepEqual(
    [lines, indexes],
    [
      [2, 4],
      [2, 4],
    ],
  );
});

test("a file without tags is sent without the column, so that the stored tags stay", async () => {
  const { file } = await planOf("id,name,price\n1,Rosa,7\n");

  assert.equal(await file.text(), "id,name\r\n1,Rosa\r\n");
});

describe("a row that would be stored wrongly is not sent", () => {
  const rows = [
    ["2,Rosa, alba,Shrub", "It has more cells than the first row"],
    ["2", "The name is missing"],
    ["2,,Shrub", "The name is missing"],
    ['2,"open', "A quote is missing or wrong here"],
    [`2,${"x".repeat(16_384)}`, "It has more than 16,384 characters"],
  ];

  for (const [row, reason] of rows) {
    test(`${row.slice(0, 20)}: ${reason}`, async () => {
      const { file, faults } = await planOf(`id,name,tag\n1,A,\n${row}\n`);

      assert.deepEqual([...faults], [[2, reason]]);
      assert.equal(await file.text(), "id,name,tag\r\n1,A,\r\n");
    });
  }
});

describe("rows whose id other rows have with another plant name each other, and are not sent", () => {
  const content = "id,name,tag\n7,A,\n8,B,\n7,C,\n8,B,\n9,D,\n7,A,\n9,D,x\n9\n";
  const named = [
    [1, "Row 7 has this id, too"],
    [3, "Row 7 has this id, too"],
    [5, "Row 8 has this id, too"],
    [6, "Row 2 has this id, too"],
    [7, "Row 6 has this id, too"],
  ];
  const nameless = [8, "The name is missing"];

  for (const replaces of [false, true]) {
    test(`with${replaces ? "" : "out"} updates`, async () => {
      const { file, faults, isRepeating } = await planOf(content, { replaces });

      assert.deepEqual([...faults], [...named, nameless]);
      assert.equal(await file.text(), "id,name,tag\r\n8,B,\r\n8,B,\r\n");
      assert.equal(isRepeating, true);
    });
  }

  test("but the last one if this is chosen", async () => {
    const { file, faults } = await planOf(content, { takesLast: true });

    assert.deepEqual([...faults.keys()], [1, 3, 5, 8]);
    assert.equal(await file.text(), "id,name,tag\r\n8,B,\r\n8,B,\r\n7,A,\r\n9,D,x\r\n");
  });

  test("a file without tags repeats an id only with another name", async () => {
    const { faults, isRepeating } = await planOf("id,name,price\n7,A,1\n7,A,2\n,B\n,C\n");

    assert.deepEqual([faults.size, isRepeating], [0, false]);
  });
});

test("if the encoding is a guess, plants with other letters are shown first", async () => {
  const preview = await previewOf(`id,name\n${"1,Rosa\n".repeat(9)}2,Äpfel\n`);
  preview.table.isGuessed = true;

  const { shown } = await makePlan(preview, signal);

  assert.deepEqual([shown.length, shown[0][1], shown[1][1]], [5, "Äpfel", "Rosa"]);
});

test("a cell that a workbook has wrongly is a fault, if its column is used", async () => {
  const preview = await previewOf("id,name,price\n1,A,7\n2,B,8\n");
  const fault = (column, text) => new Map([[column, text]]);
  preview.table.cellFaults = new Map([
    [1, fault(2, "of a price")],
    [2, fault(1, "of a name")],
  ]);

  const { faults, ids } = await makePlan(preview, signal);

  assert.deepEqual([[...faults], ids], [[[2, "of a name"]], ["1"]]);
});

test("a column of a sheet without a name can be chosen", async () => {
  const preview = await previewOf("id,name\n1,A\n");
  preview.table.sheets = ["Plants"];
  preview.table.rows[1].push("Shrub");

  const { header, faults } = await makePlan(preview, signal);

  assert.deepEqual([header, faults.size], [["id", "name", ""], 0]);
});

test("rows without ids get them, and so does the file with all its columns", async () => {
  const plan = await planOf("Name;Price\nRosa;7\n;\nAbies;8\n");

  const numbered = await plan.giveIds(["70", "71"].values(), signal);

  assert.equal(await numbered.file.text(), "id,name\r\n70,Rosa\r\n71,Abies\r\n");
  // TextDecoder, and so text(), removes the byte order mark.
  assert.equal(await numbered.own.text(), "id;Name;Price\r\n70;Rosa;7\r\n71;Abies;8\r\n");
  assert.deepEqual([numbered.own.name, numbered.giveIds], ["my.plants-with-ids.csv", undefined]);
});

test("rows without an id get one, also beside others, and those of a shorter row", async () => {
  const plan = await planOf("Name;Nr\nRosa;7\nAcer;\nAbies\n;\nTilia;x\n");

  const numbered = await plan.giveIds(["70", "71"].values(), signal);

  assert.equal(plan.unnumbered, 2);
  assert.equal(
    await numbered.file.text(),
    "id,name\r\n7,Rosa\r\n70,Acer\r\n71,Abies\r\nx,Tilia\r\n",
  );
  assert.equal(
    await numbered.own.text(),
    "Name;Nr\r\nRosa;7\r\nAcer;70\r\nAbies;71\r\nTilia;x\r\n",
  );
  assert.equal((await planOf("id,name\n1,Rosa\n")).giveIds, undefined);
});

/** Open the preview of a file, and wait until the service was asked. */
async function open(content, result = NONE) {
  const requests = [];
  answerFile((request) => {
    requests.push(request);
    withResponse({ ...NONE, ...result })(request);
  });
  const text = () => textOf(state.dialog.View(state.dialog.content));
  const isDone = () => state.dialog?.content.preview?.plan?.result || state.dialog?.error;
  const done = () => new Promise((resolve) => onUpdate(() => isDone() && resolve(undefined)));
  openPreview(new File([content], "plants.csv"));
  await done();
  return { requests, text, done };
}

test("without a column of names, only the tags of plants that exist can be imported", async () => {
  const { text, requests, done } = await open("id,tag\n1,Shrub\n9,Tree\nx,Tree\n");
  assert.match(text(), /Choose the column of the names/);
  assert.match(text(), /Cancel$/);
  globalThis.fetch = async (path) => {
    if (path.startsWith("plants/1")) return respondPlants({ id: "1", name: "Rosa", tag: "Old" });
    return respond({ error: 1005, message: "No plant is stored under the id 9" }, 404);
  };

  state.dialog.content.preview.replaces = true;
  state.dialog.act({}, { value: "check" });
  await done();

  const { plan } = state.dialog.content.preview;
  assert.equal(await requests.at(-1).body.text(), "id,name,tag\r\n1,Rosa,Shrub\r\n");
  assert.deepEqual(plan.readSent(0), { id: "1", name: "Rosa", tag: "Shrub" });
  assert.deepEqual([...plan.faults.values()], Array(2).fill("No plant has this id"));
  assert.match(text(), /Plants that exist keep their names\..* Import$/);

  const rows = Array.from({ length: 1001 }, (_, id) => `${id},Tree\n`);
  const many = await open(`id,tag\n${rows.join("")}`);
  state.dialog.content.preview.replaces = true;
  state.dialog.act({}, { value: "check" });
  await many.done();
  assert.match(many.text(), /Choose the column of the names\. .* 1,000 plants\. Cancel$/);
});

test("the preview says what the service would do, and stores nothing", async () => {
  const result = { stored: 1204, already_stored: 31, replaced: 1007, refused: 2 };

  const { requests, text } = await open("id,name,price\n1,Rosa,7\n2\n", result);

  assert.match(text(), /1,204 new, 31 the same, 1,007 change, 3 refused/);
  assert.match(text(), /Not used: price/);
  assert.doesNotMatch(text(), /undone/);
  update({ scopes: ["plants:create"] });
  assert.match(text(), /cannot be undone: it lacks the scope plants:delete/);
  assert.deepEqual(
    requests.map(({ path }) => path),
    ["plants.csv?dry-run=true"],
  );
});

test("plants that an update changes are shown before and after, and the next file updates none", async () => {
  const taken = { line: 2, error: 1004, message: "`id` is taken" };
  const { text } = await open("id,name\n1,Rosa\n2,Abies\n", { refused: 1, errors: [taken] });
  const { preview } = state.dialog.content;
  assert.match(text(), /Plants with some of these ids exist/);
  answerFile((request) => {
    const isUpdate = request.path.includes("on-conflict=replace");
    const result = isUpdate ? { replaced: 1, already_stored: 1 } : { refused: 1, errors: [taken] };
    withResponse({ ...NONE, ...result })(request);
  });
  globalThis.fetch = async () => respondPlants({ id: "1", name: "Old", tag: "Shrub" });
  preview.replaces = true;

  state.dialog.act({}, { value: "check" });
  await new Promise((resolve) => onUpdate(() => preview.plan?.changing && resolve(undefined)));

  assert.match(text(), /1 ?: Old \(Shrub\) → +Rosa \(Shrub\)/);
  update({ dialog: null });
  await open("id,name\n1,Rosa\n");
  assert.equal(state.dialog.content.preview.replaces, false);
});

test("a file that cannot be read, or checked, says why", async () => {
  const { text } = await open("\0\0");
  const unreadable = text();
  const { error } = state.dialog;
  answerFile(withResponse({ message: "It is busy" }, 503));
  update({ dialog: null });
  openPreview(new File(["id,name\n1,A"], "plants.csv"));
  await new Promise((resolve) => onUpdate(() => state.dialog?.error && resolve(undefined)));

  assert.match(unreadable, /neither CSV nor a workbook/);
  assert.deepEqual([error.isOutage, state.dialog.error.isOutage], [false, true]); // The latter may end.
  assert.match(textOf(state.dialog.View(state.dialog.content)), /It is busy .*Try again/);
});

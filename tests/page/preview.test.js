/** The preview of an import: the columns that are suggested, and the CSV that is sent. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { beforeEach, describe, test } from "node:test";
import { makePlan, suggest, writePlan } from "../../src/plantstore/web/page/plan.js";
import { openPreview } from "../../src/plantstore/web/page/preview.js";
import { onUpdate, state, update } from "../../src/plantstore/web/page/state.js";
import { planOf, previewOf } from "./plans.js";
import { answer, answerFile, findAll, respondPlants, textOf, withResponse } from "./tab.js";

/** The files that the command and the service read, too. */
const CASES = JSON.parse(readFileSync(new URL("../support/csv_cases.json", import.meta.url)));

const NONE = { stored: 0, already_stored: 0, replaced: 0, refused: 0, errors: [] };

/** That another plant has the id of the first row. */
const TAKEN = { line: 2, error: 1004, message: "`id` is taken" };

const { signal } = new AbortController();

beforeEach(() => {
  stored = [];
  answer();
  update({ dialog: null, scopes: null });
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
    ["Rosa canina L.\nAcer rubrum\nTilia cordata", [-1, 0, -1], false],
    ["Rosa canina L.,\nAcer rubrum,Tree\nTilia,Tree", [-1, 0, 1], false],
    ["Rosa canina L.,7\nAcer rubrum,many", [-1, 0, 1], false],
    ["Sorszám,Ár,Név\n1,7,A\n2,8,B", [0, 2, -1], true],
    ["B7,Rosa\n2,Acer\n3,Tilia", [0, 1, -1], false],
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
    ["Stock,,,2024-05-01\nWhat,Where,Size,When\nA,B,C,D", 1, false],
    ["Plant,,\nid,name,tag\n1,A,B", 1],
    ["Name\nTag\nA", 0],
    ["Latin,Bed\nRosa,A\nAbies,Group", 0],
    ["id,name\n1,A,\n2,B,C", 0],
  ];

  for (const [content, top, isHeaded = true] of files) {
    test(content.split("\n")[top], async () => {
      const preview = await previewOf(content);
      const plan = await makePlan(preview, signal);

      assert.deepEqual([preview.top, preview.isHeaded], [top, isHeaded]);
      assert.ok(plan.sent.every(({ index }) => index > top || !isHeaded));
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
  const { file, sent } = await planOf('sep=;\nname;id\n\n"A\nB";1\n;\nC;2\n');

  assert.equal(await file.text(), 'id,name\r\n1,"A\nB"\r\n2,C\r\n');
  assert.deepEqual(
    [sent.map(({ line }) => line), sent.map(({ index }) => index)],
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

describe("rows whose id other rows have with another plant", () => {
  const content = "id,name,tag\n7,A,\n8,B,\n7,C,\n8,B,\n9,D,\n7,A,\n9,D,x\n9\n";
  const named = [
    [1, "Row 7 has this id, too"],
    [3, "Row 7 has this id, too"],
    [5, "Row 8 has this id, too"],
    [6, "Row 2 has this id, too"],
    [7, "Row 6 has this id, too"],
  ];
  const nameless = [8, "The name is missing"];

  test("name each other, and are not sent", async () => {
    const { file, faults } = await planOf(content);

    assert.deepEqual([...faults], [...named, nameless]);
    assert.equal(await file.text(), "id,name,tag\r\n8,B,\r\n8,B,\r\n");
  });

  test("a file without tags repeats an id only with another name", async () => {
    const { faults } = await planOf("id,name,price\n7,A,1\n7,A,2\n,B\n,C\n");

    assert.equal(faults.size, 0);
  });
});

test("a wrong id is not reported as a repeated one", async () => {
  const { faults, sent } = await planOf("id,name\nx12,A\nx12,B\n");

  assert.deepEqual([faults.size, sent.length], [0, 2], "the service says what is wrong");
});

describe("a last row of totals is no plant, unless it is chosen", () => {
  const files = [
    ["Name,Count\nRosa,2\nAcer,3\nTotal,5", 1],
    ["Pflanze;Anzahl\nRosa;2\nSUMME:;2\n;", 1],
    ["Count,Name\n2,Rosa\n2,Grand total", 1],
    ["id,name,tag\n7,Rosa,\nTotal,1,", 1],
    ["Название\tСорт\nРоза\tA\nИтого:\t1", 1],
    ["id,name\n7,Rosa\n8,Total", 0],
    ["Name\nTotal", 0],
    ["Name\nTotal\nRosa", 0],
    ["Name\nRosa\nSum and Substance", 0],
  ];

  for (const [content, left] of files) {
    test(content.split("\n").at(-1), async () => {
      const plan = await planOf(content);
      const all = await planOf(content, { takesTotal: true });

      assert.deepEqual([plan.left, plan.total >= 0], [left, left > 0]);
      assert.deepEqual([all.left, all.sent.length], [0, plan.sent.length + left]);
    });
  }

  test("which the preview offers", async () => {
    await open("Name\nRosa\nTotal\n", () => ({ ...NONE, stored: 1 }));
    assert.match(text(), /Import the total as a plant\. Row 3: Total 1 new, 1 skipped /);

    const boxes = findAll("input", state.dialog.View(state.dialog.content));
    boxes.find(({ type }) => type === "checkbox").onchange({ currentTarget: { checked: true } });
    await checked();

    assert.equal(state.dialog.content.preview.plan.sent.length, 2);
  });
});

test("a cell that a workbook has wrongly is a fault, if its column is used", async () => {
  const preview = await previewOf("id,name,price\n1,A,7\n2,B,8\n");
  const fault = (column, text) => new Map([[column, text]]);
  preview.table.cellFaults = new Map([
    [1, fault(2, "of a price")],
    [2, fault(1, "of a name")],
  ]);

  const { faults, sent } = await makePlan(preview, signal);

  assert.deepEqual([[...faults], sent.length], [[[2, "of a name"]], 1]);
});

test("a column of a sheet without a name can be chosen", async () => {
  const preview = await previewOf("id,name\n1,A\n");
  preview.table.sheets = ["Plants"];
  preview.table.rows[1].push("Shrub");

  const { header, faults } = await makePlan(preview, signal);

  assert.deepEqual([header, faults.size], [["id", "name", ""], 0]);
});

test("rows without an id get one, also beside others, and those of a shorter row", async () => {
  const plan = await planOf("Name;Nr\nRosa;7\nAcer;\nAbies\n;\nTilia;x\n");

  await writePlan(plan, ["70", "71"].values(), signal);

  assert.equal(await plan.file.text(), "id,name\r\n7,Rosa\r\n70,Acer\r\n71,Abies\r\nx,Tilia\r\n");
});

/** The plants that the service compares with those of files. */
let stored = [];

/** Answer a list of changes: those of plants that are stored are refused. */
async function compare(request) {
  const changes = (await request.body.text()).trim().split("\n").map(JSON.parse);
  const errors = changes.flatMap(({ id }, at) => {
    const plant = stored.find((each) => each.id === String(id));
    return plant ? { line: at + 1, error: 3011, message: "", plant } : [];
  });
  const text = JSON.stringify({ ...NONE, refused: errors.length, errors: errors.slice(0, 1000) });
  withResponse(text.replace(/"id":"(\d+)"/g, '"id":$1'))(request);
}

/** Answer imports: `resultOf` returns the result by what becomes of rows whose id a plant has. */
function answerImports(resultOf) {
  const requests = [];
  answerFile((request) => {
    if (request.path.startsWith("changes")) return void compare(request);
    requests.push(request);
    const query = new URLSearchParams(request.path.split("?")[1]);
    withResponse({ ...NONE, ...resultOf(query.get("on-conflict")) })(request);
  });
  return requests;
}

const text = () => textOf(state.dialog.View(state.dialog.content));
const hasImport = () => / Import$/.test(text());

/** Wait until the service was asked. */
function checked() {
  const isDone = () => state.dialog?.content.preview?.plan?.result || state.dialog?.error;
  return new Promise((resolve) => onUpdate(() => isDone() && resolve(undefined)));
}

/** Open the preview of a file, and wait until the service was asked. */
async function open(content, resultOf = () => NONE) {
  const requests = answerImports(resultOf);
  update({ dialog: null });
  openPreview(new File([content], "plants.csv"));
  await checked();
  return requests;
}

/** Choose an answer of a question. */
async function choose(legend, value) {
  const groups = findAll("fieldset", state.dialog.View(state.dialog.content));
  const { children } = groups.find((group) => textOf(group.children).includes(legend));
  const radio = findAll("input", children).find((input) => input.value === value);
  radio.onchange({ currentTarget: radio });
  await checked();
}

describe("if plants exist with other names or tags, the preview asks what becomes of them", () => {
  const result = (conflict) =>
    conflict === "replace" ? { stored: 1, replaced: 1 } : { refused: 1, errors: [TAKEN] };
  const question = /1 plant exists 1 ?: Old \(Shrub\) → +Rosa \(Shrub\) Update Skip/;

  beforeEach(() => {
    stored = [{ id: "1", name: "Old", tag: "Shrub" }];
  });

  for (const [answer, said] of [
    ["replace", /1 new, 1 change 1 plant/],
    ["skip", /1 new, 1 skipped 1 plant/],
  ]) {
    test(answer, async () => {
      await open("id,name\n1,Rosa\n2,Abies\n", result);
      assert.match(text(), question);

      await choose("exists", answer);

      assert.match(text(), said);
      assert.equal(state.dialog.content.preview.plan.conflict, answer);
      assert.ok(hasImport());
      await open("id,name\n1,Rosa\n2,Abies\n", result);
      assert.equal(state.dialog.content.preview.conflict, undefined, "the next file asks again");
    });
  }

  test("and if all are skipped, there is nothing to import", async () => {
    await open("id,name\n1,Rosa\n", () => ({ ...result("replace"), stored: 0 }));
    assert.ok(hasImport());

    await choose("exists", "skip");

    assert.match(text(), /0 new, 1 skipped/);
    assert.ok(!hasImport());
  });

  for (const scope of ["plants:read", "plants:update"]) {
    test(`but not if the token has only ${scope}: then these rows are refused`, async () => {
      update({ scopes: ["plants:create", scope] });

      const requests = await open("id,name\n1,Rosa\n", result);

      assert.ok(requests.every(({ path }) => path.includes("on-conflict=refuse")));
      assert.match(text(), /0 new, 1 refused/);
      assert.doesNotMatch(text(), /Update/);
    });
  }
});

test("what is there already needs no import", async () => {
  await open("id,name\n1,Rosa\n", () => ({ already_stored: 1 }));

  assert.match(text(), /0 new, 1 the same/);
  assert.ok(!hasImport());
});

describe("if names of new plants are there already, the preview asks whether to skip them", () => {
  const sent = async () => await state.dialog.content.preview.plan.file.text();
  const plants = [
    { id: "7", name: "Rosa × Alba" },
    { id: "8", name: "Rosa albida" },
  ];
  const paths = [];
  let fields = {};

  beforeEach(() => {
    paths.length = 0;
    fields = {};
    globalThis.fetch = async (path) => {
      paths.push(path);
      return respondPlants(path.includes("from=A") ? [] : plants, fields);
    };
  });

  test("with the names as the search folds them", async () => {
    await open("Name\nrosa x alba\nAbies\nROSA ×ALBA\n", () => ({ stored: 1 }));
    assert.match(
      text(),
      /2 of the names are there already 7 ?: Rosa × Alba Skip Import as new plants/,
    );

    await choose("there already", "skip");

    assert.match(await sent(), /^id,name\r\n-?\d+,Abies\r\n$/);
    assert.match(text(), /1 new, 2 skipped/);
    await choose("there already", "import");
    assert.match(await sent(), /alba.*Abies.*ALBA/s);
    assert.deepEqual(paths, ["plants?sort=name&limit=1000"], "each name is sought once");
  });

  test("and a row with an id is not asked about", async () => {
    await open("id,name\n7,Rosa x alba\n", () => ({ already_stored: 1 }));

    assert.deepEqual(paths, []);
  });

  test("few names are sought one by one in a large catalogue", async () => {
    fields = { "Total-Count": "100000", Link: '<plants?sort=name&from=b&after=1>; rel="next"' };

    await open("Name\nAbies\nRosa x alba\n", () => ({ stored: 2 }));

    assert.match(text(), /1 of the names is there already 7 ?: Rosa × Alba Skip/);
    assert.deepEqual(paths, [
      "plants?sort=name&limit=1000",
      "plants?sort=name&from=Abies&limit=20",
      "plants?sort=name&from=Rosa+x+alba&limit=20",
    ]);
  });

  test("and skips them if all of them are: the file was imported before", async () => {
    await open("Name\nrosa x alba\nRosa albida\n");
    assert.match(text(), /Nothing to import: 0 new, 2 skipped 2 of the names are there already/);

    await choose("there already", "import");

    assert.equal(state.dialog.content.preview.plan.sent.length, 2);
  });

  test("skipped rows get no id", async () => {
    await open("Nr,Name\n,Rosa x alba\n,Abies\n");
    await choose("there already", "skip");

    const { plan } = state.dialog.content.preview;
    await writePlan(plan, ["70"].values(), signal);

    assert.equal(await plan.file.text(), "id,name\r\n70,Abies\r\n");
  });
});

describe("numbers in a first column without a usual name are ids", () => {
  const idOf = async (...plants) => {
    stored = plants;
    await open("3,Rosa Alba\n10,Abies\n", (conflict) =>
      conflict === "replace" ? { replaced: 1 } : { refused: 1, errors: [TAKEN] },
    );
    return state.dialog.content.preview.columns.id;
  };

  test("if the plants that have them have these names", async () => {
    assert.equal(await idOf({ id: "3", name: "rosa alba", tag: "Bed" }), 0);
  });

  test("and not if they have others", async () => {
    assert.equal(await idOf({ id: "3", name: "Tilia" }), -1);
    assert.match(text(), /Each row gets a new id/);
    assert.match(text(), /as ids have other names\. If these are their ids, choose the column\./);
  });

  test("nor if their names cannot be read", async () => {
    assert.equal(await idOf(), -1);
  });

  for (const [renamed, same, id] of [
    [1, 4, 0],
    [2, 58, 0],
    [3, 3, 0],
    [60, 80, 0],
    [3, 2, -1],
    [80, 60, -1],
  ]) {
    test(`also if ${renamed} were renamed, and ${same} not: ${id === 0}`, async () => {
      stored = Array.from({ length: renamed }, (_, at) => ({ id: String(at + 1), name: "New" }));
      const rows = Array.from({ length: renamed + same }, (_, at) => `${at + 1},Rosa ${at},7\n`);

      await open(`Art.No,Plant name,Quantity\n${rows.join("")}`, (conflict) => ({
        already_stored: same,
        ...(conflict === "replace" ? { replaced: renamed } : { refused: renamed }),
      }));

      assert.equal(state.dialog.content.preview.columns.id, id);
    });
  }
});

describe("a row is the same if only blanks at the ends are stored besides", () => {
  const openStored = async (plants, content) => {
    stored = plants;
    const bodies = [];
    answerFile(async (request) => {
      if (request.path.startsWith("changes")) return compare(request);
      const body = await request.body.text();
      bodies.push(body);
      withResponse({ ...NONE, replaced: body.split("\r\n").length - 2 })(request);
    });
    update({ dialog: null });
    openPreview(new File([content], "plants.csv"));
    await checked();
    return bodies;
  };
  const blank = (id) => ({ id: String(id), name: `Rosa ${id} `, tag: "Bed\u00a0" });

  test("and is not sent", async () => {
    const plants = [blank(1), { id: "2", name: "Abies" }, { id: "3", name: "Acer", tag: " " }];

    const bodies = await openStored(plants, "id,name,tag\n1,Rosa 1 ,Bed \n2,Tilia,\n3,Acer,\n");

    assert.equal(bodies.at(-1), "id,name,tag\r\n2,Tilia,\r\n");
    assert.match(text(), /0 new, 2 the same, 1 change 1 plant exists 2 ?: Abies → +Tilia Update/);
  });

  test("however many there are", async () => {
    const ids = Array.from({ length: 120 }, (_, at) => at + 1);

    await openStored(ids.map(blank), `id,name\n${ids.map((id) => `${id},Rosa ${id}\n`).join("")}`);

    assert.match(
      text(),
      / Row 1: id · name 1 .* 5 Rosa 5 … and 115 more Nothing to import: 0 new, 120 the same Close$/,
    );
    assert.ok(!hasImport());
  });
});

test("without a column of names, only the tags of plants that exist can be imported", async () => {
  stored = [{ id: "1", name: "Rosa", tag: "Old" }];

  const requests = await open("id,tag\n1,Shrub\n9,Tree\nx,Tree\n", () => ({ replaced: 1 }));

  const { plan } = state.dialog.content.preview;
  assert.equal(await requests[0].body.text(), "id,name,tag\r\n1,Rosa,Shrub\r\n");
  assert.equal(plan.conflict, "replace");
  const plant = { id: "1", name: "Rosa", tag: "Shrub" };
  assert.deepEqual(plan.changing, [{ old: stored[0], plant }]);
  assert.deepEqual([...plan.faults.values()], Array(2).fill("No plant has this id"));
  assert.doesNotMatch(text(), /Skip/);
  assert.ok(hasImport());
});

describe("plants whose ids or names are pasted are selected", () => {
  const select = async (rows, resultOf = () => NONE) => {
    answerImports(resultOf);
    update({ dialog: null, selected: new Map() });
    openPreview(new File([rows], "pasted rows"), true);
    await checked();
    assert.match(text(), /^Select plants .* Select 1 plant$/);

    const said = await state.dialog.act({}, { value: "select" });

    return [said, ...state.selected.values()];
  };

  test("ids", async () => {
    const rosa = { id: "7", name: "Rosa", tag: "Bed" };
    stored = [rosa];

    assert.deepEqual(await select("7\n8\n", () => ({ already_stored: 1 })), [undefined, rosa]);
    assert.match(text(), /0 new, 1 the same, 1 refused .* 2 No plant has this id 8 Close Select/);
  });

  test("names", async () => {
    const rosa = { id: "7", name: "Rosa" };
    globalThis.fetch = async () => respondPlants([rosa]);

    assert.deepEqual(await select("rosa\n"), [undefined, rosa]);
    assert.match(text(), / Name Column 1 Tag /, "also if there is one column");
  });

  const plants = ["Acer rubrum L.", "Acer rubrum L. ", "acer  rubrum l."].map((name, at) => ({
    ...{ id: String(at), name },
  }));
  const selectAll = async (pasted) => {
    answerImports(() => NONE);
    update({ dialog: null, selected: new Map() });
    openPreview(new File([pasted], "pasted rows"), true);
    await checked();
    await state.dialog.act({}, { value: "select" });
    return [...state.selected.keys()];
  };

  for (const [pasted, ids, said] of [
    ["Acer rubrum L.", ["0", "1"], "1 of the names is there already: 2 plants"],
    ["ACER RUBRUM L.", ["0", "1", "2"], "1 of the names is there already: 3 plants"],
  ]) {
    test(`all that have exactly the name, or else that fold to it: ${pasted}`, async () => {
      globalThis.fetch = async () => respondPlants(plants);

      assert.deepEqual(await selectAll(pasted), ids);
      assert.ok(text().includes(said), text());
    });
  }

  test("also if many have it in a large catalogue", async () => {
    const many = Array.from({ length: 1200 }, (_, id) => ({ id: String(id), name: "Rosa" }));
    const fields = { "Total-Count": "100000", Link: '<plants?sort=name&after=999>; rel="next"' };
    globalThis.fetch = async (path) => {
      const query = new URLSearchParams(path.split("?")[1]);
      const from = Number(query.get("after") ?? -1) + 1;
      const page = many.slice(from, from + Number(query.get("limit")));
      return respondPlants([...page, ...(from > 0 ? [{ id: "x", name: "Tilia" }] : [])], fields);
    };

    assert.equal((await selectAll("Rosa")).length, 1200);
  });

  test("beside new names, they are no default", async () => {
    globalThis.fetch = async () => respondPlants([{ id: "7", name: "Rosa" }]);
    answerImports(() => ({ stored: 2 }));
    update({ dialog: null });
    openPreview(new File(["Rosa\nAbies\n"], "pasted rows"), true);
    await checked();

    assert.match(text(), /^Import pasted rows .* Cancel Import Select 1 plant$/);
  });
});

test("the encoding must be chosen, if no character tells it", async () => {
  const bytes = Uint8Array.from("id,name\n1,R\xf9\x9ee", (char) => char.charCodeAt(0));
  const select = () =>
    findAll("select", state.dialog.View(state.dialog.content)).find(({ required }) => required);
  await open(bytes, () => ({ stored: 1 }));
  const before = textOf(select().children);

  select().onchange({ currentTarget: { value: "iso-8859-15" } });
  await checked();

  assert.match(before, /^Choose… Růže – Central European \(windows-1250\) .*Rùže – /);
  const chosen = select().children.find(({ props }) => props.selected);
  assert.equal(chosen.props.value, "iso-8859-15");
  assert.equal(findAll("select", state.dialog.View(state.dialog.content)).length > 1, true);
  await open("id,name\n1,Růže", () => ({ stored: 1 }));
  assert.equal(select(), undefined);
});

test("the preview says what the service would do, and stores nothing", async () => {
  const result = { stored: 1204, already_stored: 31, refused: 2 };

  const requests = await open("id,name,price\n1,Rosa,7\n2\n", () => result);

  assert.match(text(), /1,204 new, 31 the same, 3 refused/);
  assert.match(text(), /Not used: price/);
  assert.doesNotMatch(text(), /undone/);
  update({ scopes: ["plants:create"] });
  assert.match(text(), /cannot be undone: it lacks the scope plants:delete/);
  assert.deepEqual(
    requests.map(({ path }) => path),
    ["plants.csv?on-conflict=replace&dry-run=true"],
  );
});

test("a file that cannot be read, or checked, says why", async () => {
  await open("\0\0");
  const unreadable = text();
  const { error } = state.dialog;
  answerFile(withResponse({ message: "It is busy" }, 503));
  update({ dialog: null });
  openPreview(new File(["id,name\n1,A"], "plants.csv"));
  await new Promise((resolve) => onUpdate(() => state.dialog?.error && resolve(undefined)));

  assert.match(unreadable, /This file cannot be read: it is neither CSV nor a workbook/);
  assert.deepEqual([error.isOutage, state.dialog.error.isOutage], [false, true]); // The latter may end.
  assert.match(textOf(state.dialog.View(state.dialog.content)), /It is busy .*Try again/);
});

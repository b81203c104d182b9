/** The preview of an import: the columns that are suggested, and what becomes of the rows. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { beforeEach, describe, test } from "node:test";
import { readRows, suggest } from "../../src/plantstore/web/page/plan.js";
import { openPreview } from "../../src/plantstore/web/page/preview.js";
import { onUpdate, state, update } from "../../src/plantstore/web/page/state.js";
import { listFaults, listPlants, previewOf } from "./plans.js";
import { answer, answerFile, findAll, respondPlants, textOf, withResponse } from "./tab.js";

/** The files that the command and the service read, too. */
const CASES = JSON.parse(readFileSync(new URL("../support/csv_cases.json", import.meta.url)));

const NONE = { stored: 0, already_stored: 0, replaced: 0, refused: 0, errors: [] };

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
    ["Accession Number,Botanical Name,Bed\n2024.0001,A,B1", [-1, 1, 2], true],
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
    test(content.split("\n")[0], () => {
      const preview = previewOf(content);

      const { id, name, tag } = preview.columns;
      const expected = Array.isArray(columns) ? columns : Object.values(columns);
      assert.deepEqual([[id, name, tag], preview.isHeaded], [expected, isHeaded]);
    });
  }

  test("of pasted rows, the first one is a plant unless it has usual names", () => {
    const bare = previewOf("Rosa\tShrub\nAbies\tTree", true);
    const named = previewOf("Name\tTag\nRosa\tShrub", true);

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
    test(content.split("\n")[top], () => {
      const preview = previewOf(content);

      assert.deepEqual([preview.top, preview.isHeaded], [top, isHeaded]);
      assert.ok(preview.rows.every(({ index }) => index > top || !isHeaded));
    });
  }

  test("or in another row, which is chosen", () => {
    const preview = previewOf("id,name\n1,A\nNr,Sorte\n2,B");

    suggest(preview, 2);

    assert.deepEqual(listPlants({ rows: readRows(preview) }), ["2|B|"]);
  });
});

test("blanks at the ends of ids, names and tags are not sent, nor zeros before ids", () => {
  const preview = previewOf("id,name,tag\n 1\u00a0,\u00a0Rosa alba ,\u2003Rosa\u00a0\n007,A,\n");

  assert.deepEqual(listPlants(preview), ["1|Rosa alba|Rosa", "7|A|"]);
});

describe("the service gets the same plants as from the file itself, without blanks at the ends", () => {
  for (const { name, content, plants, refused = [] } of CASES.filter(({ error }) => !error)) {
    test(name, () => {
      const preview = previewOf(content);

      // A wrong quote may reach into the next row, which is then refused, too.
      const wrong = listFaults(preview)
        .map(([index]) => preview.table.rows[index].join())
        .join();
      const isBlank = (text) => refused.some(([, row]) => row.startsWith(` ${text.split("|")[0]}`));
      assert.deepEqual(
        listPlants(preview).filter((text) => !isBlank(text)),
        plants
          .map(([id, text, tag]) => [id, text.trim(), tag?.trim()].join("|"))
          .filter((text) => !text.includes("||") && !wrong.includes(text.split("|")[1])),
      );
    });
  }
});

test("accents that are characters of their own are not sent", () => {
  const preview = previewOf("name,tag\nVườn,Rosé\n".normalize("NFD"));

  assert.deepEqual(listPlants(preview), ["|Vườn|Rosé".normalize("NFC")]);
});

describe("a column of genera is put before one of epithets", () => {
  const files = [
    [
      "Genus,Species,Cultivar\nRosa,canina,\nRosa,× alba,Suaveolens",
      ["Rosa canina", "Rosa × alba"],
    ],
    ["genus\tspecificEpithet\nRosa\tcanina", ["Rosa canina"]],
    ["Art;Gattung\nRosa canina;Rosa\nAcer;", ["Rosa canina", "Acer"]],
    ["Genus,Name\nRosa,canina", ["canina"]],
  ];

  for (const [content, names] of files) {
    test(content.split("\n")[0], () => {
      const { rows } = previewOf(content);

      assert.deepEqual(
        rows.map(({ plant }) => plant.name),
        names,
      );
    });
  }
});

test("the rows have the numbers of the file", () => {
  const { rows } = previewOf('sep=;\nname;id\n\n"A\nB";1\n;\nC;2\n');

  assert.deepEqual(
    rows.map(({ index, plant: { name } }) => [index, name]),
    [
      [3, "A\nB"],
      [5, "C"],
    ],
  );
});

describe("a row that would be stored wrongly is not sent", () => {
  const rows = [
    ["2,Rosa, alba,Shrub", "It has more cells than the first row"],
    ["2", "The name is missing"],
    ["2,,Shrub", "The name is missing"],
    ["x12,Rosa", "The id must be a whole number"],
    ["9223372036854775808,Rosa", "The id has too many digits"],
    ['2,"open', "A quote is missing or wrong here"],
    [`2,${"x".repeat(16_384)}`, "It has more than 16,384 characters"],
    ["Total,1", "It has the totals of the other rows"],
    ["SUMME:,2", "It has the totals of the other rows"],
    [",Grand total", "It has the totals of the other rows"],
    ["2,Rosa,\x1b$B:y\x1b(B", "It has a control character"],
    ["Итого:,1", "It has the totals of the other rows"],
  ];

  for (const [row, reason] of rows) {
    test(`${row.slice(0, 20)}: ${reason}`, () => {
      const preview = previewOf(`id,name,tag\n1,A,\n${row}\n`);

      assert.deepEqual(listFaults(preview), [[2, reason]]);
      assert.deepEqual(listPlants(preview), ["1|A|"]);
    });
  }
});

describe("a plant may have the name of a total", () => {
  for (const content of [
    "id,name\n7,Rosa\n8,Total",
    "Name\nTotal",
    "Name\nTotal\nRosa",
    "Name\nRosa\nSum and Substance",
  ]) {
    test(content, () => assert.deepEqual(listFaults(previewOf(content)), []));
  }
});

describe("rows whose id other rows have with another plant", () => {
  const content = "id,name,tag\n7,A,\n8,B,\n7,C,\n8,B,\n9,D,\n7,A,\n9,D,x\n9\n";

  test("name each other, and are not sent", () => {
    const preview = previewOf(content);

    assert.deepEqual(listFaults(preview), [
      [1, "Row 7 has this id, too"],
      [3, "Row 7 has this id, too"],
      [5, "Row 8 has this id, too"],
      [6, "Row 2 has this id, too"],
      [7, "Row 6 has this id, too"],
      [8, "The name is missing"],
    ]);
    assert.deepEqual(listPlants(preview), ["8|B|"]);
  });

  test("a file without tags repeats an id only with another name", () => {
    const preview = previewOf("id,name,price\n7,A,1\n7,A,2\n,B\n,C\n");

    assert.deepEqual([listFaults(preview), listPlants(preview)], [[], ["7|A|", "|B|", "|C|"]]);
  });
});

test("a cell that a workbook has wrongly is a fault, if its column is used", () => {
  const preview = previewOf("id,name,price\n1,A,7\n2,B,8\n");
  const fault = (column, text) => new Map([[column, text]]);
  preview.table.cellFaults = new Map([
    [1, fault(2, "of a price")],
    [2, fault(1, "of a name")],
  ]);

  assert.deepEqual(listFaults({ rows: readRows(preview) }), [[2, "of a name"]]);
});

test("a column of a sheet without a name can be chosen", () => {
  const preview = previewOf("id,name\n1,A\n");
  preview.table.sheets = ["Plants"];
  preview.table.rows[1].push("Shrub");
  preview.columns.tag = 2;

  assert.deepEqual(listPlants({ rows: readRows(preview) }), ["1|A|Shrub"]);
});

/** The plants that are stored, and what the service knows of other rows. */
let stored = [];
let others = [];

/** Answer dry runs of changes: rows whose id another plant has are refused. */
async function compare(request) {
  const changes = (await request.body.text()).trim().split("\n").map(JSON.parse);
  const find = (id) => stored.find((each) => each.id === String(id));
  const isSame = (plant, { name, tag }) => plant.name === name && plant.tag === tag;
  const errors = changes.flatMap(({ id, after }, at) => {
    const plant = find(id);
    if (plant && !isSame(plant, after)) return { line: at + 1, error: 3011, message: "", plant };
    return others
      .filter(({ name }) => name === after.name)
      .map((each) => ({ line: at + 1, ...each }));
  });
  const same = changes.filter(({ id, after }) => find(id) && isSame(find(id), after)).length;
  const counts = { refused: errors.length, already_stored: same };
  const text = JSON.stringify({ ...NONE, ...counts, errors: errors.slice(0, 1000) });
  withResponse(text.replace(/"id":"(\d+)"/g, '"id":$1'))(request);
}

const text = () => textOf(state.dialog.View(state.dialog.content));
const hasImport = () => / Import$/.test(text());

/** Wait until the service was asked. */
function checked() {
  const isDone = () => state.dialog?.content.preview?.result || state.dialog?.error;
  return new Promise((resolve) => onUpdate(() => isDone() && resolve(undefined)));
}

/** Open the preview of a file, and wait until the service was asked. */
async function open(content, isPasted = false) {
  const requests = [];
  answerFile((request) => {
    requests.push(request);
    compare(request);
  });
  update({ dialog: null });
  openPreview(new File([content], "plants.csv"), isPasted);
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
  const question = /1 stored plant differs 1 ?: Old \(Shrub\) → +Rosa \(Shrub\) Update Skip/;

  beforeEach(() => {
    stored = [{ id: "1", name: "Old", tag: "Shrub" }];
  });

  for (const [answer, said] of [
    ["replace", /1 new, 1 change 1 stored plant/],
    ["skip", /1 new, 1 skipped 1 stored plant/],
  ]) {
    test(answer, async () => {
      await open("id,name\n1,Rosa\n2,Abies\n");
      assert.match(text(), question);

      await choose("differs", answer);

      assert.match(text(), said);
      assert.ok(hasImport());
      await open("id,name\n1,Rosa\n2,Abies\n");
      assert.equal(state.dialog.content.preview.conflict, undefined, "the next file asks again");
    });
  }

  test("and if all are skipped, there is nothing to import", async () => {
    await open("id,name\n1,Rosa\n");
    assert.ok(hasImport());

    await choose("differs", "skip");

    assert.match(text(), /1 skipped/);
    assert.ok(!hasImport());
  });

  for (const scope of ["plants:read", "plants:update"]) {
    test(`but not if the token has only ${scope}: then these rows are refused`, async () => {
      update({ scopes: ["plants:create", scope] });
      if (scope !== "plants:read") {
        stored = [];
        others = [{ name: "Rosa", error: 3011, message: "" }];
      }

      await open("id,name\n1,Rosa\n");

      others = [];
      assert.match(text(), /1 refused/);
      assert.match(text(), /Row 2: Another plant has this id/);
      assert.doesNotMatch(text(), /Update/);
    });
  }
});

test("what the service refuses is said", async () => {
  others = [{ name: "Rosa", error: 1002, message: "`after.name` has a wrong character" }];

  await open("id,name\n1,Abies\n,Rosa\n");

  others = [];
  assert.match(text(), /1 new, 1 refused .*Row 3: The name has a wrong character/);
});

test("of many plants that exist, those are found that the service tells only later", async () => {
  stored = Array.from({ length: 2_500 }, (_, id) => ({ id: String(id), name: "Old" }));

  const requests = await open(`id,name\n${stored.map(({ id }) => `${id},New\n`).join("")}`);

  assert.match(text(), /2,500 change 2,500 stored plants differ/);
  assert.equal(requests.length, 3);
});

test("what is there already needs no import", async () => {
  stored = [{ id: "1", name: "Rosa" }];
  await open("id,name\n1,Rosa\n");

  assert.match(text(), /1 the same/);
  assert.ok(!hasImport());
});

describe("if names of new plants are there already, the preview asks whether to skip them", () => {
  /** The names of the rows that are shown. */
  const shown = () => {
    const [rows] = findAll("tbody", state.dialog.View(state.dialog.content));
    return textOf(rows.children);
  };
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
    await open("Name\nrosa x alba\nAbies\nROSA ×ALBA\n");
    assert.match(
      text(),
      /2 of the names are there already 7 ?: Rosa × Alba Skip Import as new plants/,
    );

    await choose("there already", "skip");

    assert.equal(shown(), "Row 1: Name new Abies");
    assert.match(text(), /1 new, 2 skipped/);
    await choose("there already", "import");
    assert.match(shown(), /alba.*Abies.*ALBA/s);
    assert.deepEqual(paths, ["plants?sort=name&limit=1000"], "each name is sought once");
  });

  test("and a row with an id is not asked about", async () => {
    await open("id,name\n7,Rosa x alba\n");

    assert.deepEqual(paths, []);
  });

  test("few names are sought one by one in a large catalogue", async () => {
    fields = { "Total-Count": "100000", Link: '<plants?sort=name&from=b&after=1>; rel="next"' };

    await open("Name\nAbies\nRosa x alba\n");

    assert.match(text(), /1 of the names is there already 7 ?: Rosa × Alba Skip/);
    assert.deepEqual(paths, [
      "plants?sort=name&limit=1000",
      "plants?sort=name&from=Abies&limit=20",
      "plants?sort=name&from=Rosa+x+alba&limit=20",
    ]);
  });

  test("and skips them if all of them are: the file was imported before", async () => {
    await open("Name\nrosa x alba\nRosa albida\n");
    assert.match(text(), /Nothing to import: 2 skipped 2 of the names are there already/);

    await choose("there already", "import");

    assert.match(text(), /2 new 2 of the names/);
  });
});

describe("the names of a file without ids may be those of plants whose tags it changes", () => {
  const shown = () => {
    const [rows] = findAll("tbody", state.dialog.View(state.dialog.content));
    return textOf(rows.children);
  };

  beforeEach(() => {
    const plants = [
      { id: "7", name: "Rosa × alba", tag: "Bed" },
      { id: "8", name: "Abies", tag: "Tree" },
      { id: "9", name: "Acer" },
      { id: "10", name: "Acer" },
      { id: "11", name: "Tilia" },
      { id: "12", name: "Vườn".normalize("NFD"), tag: "Vườn".normalize("NFD") },
    ];
    globalThis.fetch = async () => respondPlants(plants);
  });

  test("if a plant and a row are the only ones with the name", async () => {
    await open(
      "Name,Tag\nrosa x alba,Wall\nAbies,Tree\nAcer,Wall\nTilia,A\ntilia,B\nVườn,Vườn\nNew,\n",
    );
    assert.match(
      text(),
      /7 ?: Rosa × alba \(Bed\) → +Rosa × alba \(Wall\) 8 ?: Abies \(Tree\) 9 ?:/,
    );
    assert.match(text(), /Skip Update their tags, except the 3 whose name is not unique Import as/);

    await choose("there already", "replace");

    assert.match(text(), /1 new, 1 change, 5 skipped/);
    assert.match(shown(), / 7 Rosa × alba Wall new New$/);
    assert.ok(hasImport());
  });

  test("also if all names are there, but not if no tag differs or without the scope", async () => {
    await open("Name,Tag\nAbies,Conifer\n");
    assert.equal(state.dialog.content.preview.twins, undefined);
    await open("Name,Tag\nAbies,Tree\n");
    const { twins } = state.dialog.content.preview;
    assert.deepEqual([twins, /Update/.test(text())], ["skip", false]);
    update({ scopes: ["plants:read", "plants:create"] });
    await open("Name,Tag\nAbies,Conifer\n");
    assert.doesNotMatch(text(), /Update/);
  });

  test("but not if the file has ids, or no tags", async () => {
    await open("id,Name,Tag\n1,New,\n,Abies,Wall\n");
    assert.doesNotMatch(text(), /Update/);
    await open("Name,Price\nAbies,7\n");
    assert.doesNotMatch(text(), /Update/);
  });
});

describe("if a name is there in several rows without ids, the preview asks about all but the first", () => {
  for (const [answer, said] of [
    ["skip", /2 new, 2 skipped/],
    ["import", /4 new/],
  ]) {
    test(answer, async () => {
      await open("Rosa alba\tA\nRosa ALBA\tB\nAcer\tA\nRosa alba\tA", true);
      assert.match(
        text(),
        /2 of the names are repeated Row 2 ?: Rosa ALBA \(B\) Row 4 ?: Rosa alba \(A\) Skip Import/,
      );

      await choose("repeated", answer);

      assert.match(text(), said);
    });
  }
});

test("a question that must be answered is shown", async () => {
  await open("Rosa\nRosa", true);
  const { props } = state.dialog.View(state.dialog.content);
  const shown = [];

  props.oninvalidCapture({ target: { scrollIntoView: (where) => shown.push(where) } });

  assert.deepEqual(shown, [{ block: "center" }]);
});

describe("the columns that are not used are named", () => {
  const texts = [
    ["A\tB\tC\nD\tE\tF", "Column 3"],
    ["A\tB\nD\tE\tF\t\tG", "Column 3, Column 5"],
    ["Name\tPrice\nA\t7", "Price"],
  ];

  for (const [content, names] of texts) {
    test(names, async () => {
      await open(content, true);

      assert.match(text(), new RegExp(`Not used: ${names} Plants without`));
    });
  }
});

test("a row without an id is new, whatever plant has the least id", async () => {
  stored = [{ id: String(-(2 ** 63)), name: "A" }];

  await open("Name\nRosa\n");

  assert.match(text(), /1 new/);
});

test("the number of further plants is that of those that would be stored", async () => {
  stored = Array.from({ length: 3 }, (_, id) => ({ id: String(id), name: "A" }));
  const rows = Array.from({ length: 12 }, (_, id) => `${id},${id === 7 ? "" : "A"}\n`);

  await open(`id,name\n${rows.join("")}x,A\n`);

  assert.match(text(), /… and 3 more 8 new, 3 the same, 2 refused/);
});

describe("numbers in a first column without a usual name are ids", () => {
  const idOf = async (...plants) => {
    stored = plants;
    await open("3,Rosa Alba\n10,Abies\n");
    return state.dialog.content.preview.columns.id;
  };

  test("if the plants that have them have these names", async () => {
    assert.equal(await idOf({ id: "3", name: "rosa alba", tag: "Bed" }), 0);
  });

  test("and not if they have others", async () => {
    assert.equal(await idOf({ id: "3", name: "Tilia" }), -1);
    assert.match(text(), /Plants without an id get one/);
    assert.match(text(), /as ids have other names\. If these are their ids, choose the column\./);
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
      stored = Array.from({ length: renamed + same }, (_, at) => ({
        id: String(at + 1),
        name: at < renamed ? "New" : `Rosa ${at}`,
      }));
      const rows = Array.from({ length: renamed + same }, (_, at) => `${at + 1},Rosa ${at},7\n`);

      await open(`Art.No,Plant name,Quantity\n${rows.join("")}`);

      assert.equal(state.dialog.content.preview.columns.id, id);
    });
  }
});

describe("a row is the same if only blanks at the ends are stored besides", () => {
  const blank = (id) => ({ id: String(id), name: `Rosa ${id} `, tag: "Bed\u00a0" });

  test("and is not sent", async () => {
    stored = [blank(1), { id: "2", name: "Abies" }, { id: "3", name: "Acer", tag: " " }];

    await open("id,name,tag\n1,Rosa 1 ,Bed \n2,Tilia,\n3,Acer,\n");

    assert.match(text(), /2 the same, 1 change 1 stored plant differs 2 ?: Abies → +Tilia Update/);
  });

  test("however many there are", async () => {
    const ids = Array.from({ length: 120 }, (_, at) => at + 1);
    stored = ids.map(blank);

    await open(`id,name\n${ids.map((id) => `${id},Rosa ${id}\n`).join("")}`);

    assert.match(
      text(),
      / Row 1: id · name 1 .* 5 Rosa 5 Bed Nothing to import: 120 the same Close$/,
    );
    assert.ok(!hasImport());
  });
});

test("a file without tags leaves the tags of plants that exist", async () => {
  stored = [{ id: "1", name: "Rosa", tag: "Shrub" }];

  await open("id,name,price\n1,Rosa,7\n");

  assert.match(text(), /1 the same/);
});

test("without a column of names, only the tags of plants that exist can be imported", async () => {
  stored = [
    { id: "1", name: "Rosa", tag: "Old" },
    { id: "2", name: "Acer", tag: "Tree" },
  ];

  await open("id,tag\n1,Shrub\n2,Tree\n9,Tree\nx,Tree\n");

  const { rows } = state.dialog.content.preview;
  assert.deepEqual(rows[0].plant, { id: "1", name: "Rosa", tag: "Shrub" });
  assert.match(text(), /1 the same, 1 change, 2 refused/);
  assert.match(
    text(),
    / Row 4: No plant has this id 9 · Tree Row 5: The id must be a whole number /,
  );
  assert.doesNotMatch(text(), /Skip/);
  assert.ok(hasImport());
});

test("the encoding must be chosen, if no character tells it", async () => {
  const bytes = Uint8Array.from("id,name\n1,R\xf9\x9ee", (char) => char.charCodeAt(0));
  const select = () =>
    findAll("select", state.dialog.View(state.dialog.content)).find(({ required }) => required);
  await open(bytes);
  const before = textOf(select().children);

  select().onchange({ currentTarget: { value: "iso-8859-15" } });
  assert.match(textOf(state.dialog.View(state.dialog.content)), /Reading…/);
  await checked();

  assert.match(before, /^Choose… .*Rùže – windows-1252 .*Růže – windows-1250 /);
  const chosen = select().children.find(({ props }) => props.selected);
  assert.equal(chosen.props.value, "iso-8859-15");
  assert.equal(findAll("select", state.dialog.View(state.dialog.content)).length > 1, true);
  await open("id,name\n1,Růže");
  assert.equal(select(), undefined);
});

test("the preview says what the service would do, and stores nothing", async () => {
  stored = [{ id: "3", name: "Acer" }];

  const requests = await open("id,name,price\n1,Rosa,7\n2\n3,Acer,8\n");

  assert.match(text(), /1 new, 1 the same, 1 refused/);
  assert.match(text(), /Not used: price/);
  assert.doesNotMatch(text(), /undone/);
  update({ scopes: ["plants:create"] });
  assert.match(text(), /cannot be undone: it lacks the scope plants:delete/);
  assert.deepEqual(
    requests.map(({ path }) => path),
    ["changes?dry-run"],
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

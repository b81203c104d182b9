/** Workbooks of spreadsheets. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { library, makeWorkbook, readSheet } from "../../src/plantstore/web/page/sheetjs.js";

const { CFB, utils, write } = await library;

const OFFICE = "http://schemas.openxmlformats.org";
const RELATIONS = `${OFFICE}/officeDocument/2006/relationships`;
const MAIN = `xmlns="${OFFICE}/spreadsheetml/2006/main" xmlns:r="${RELATIONS}"`;

/** Return a ZIP archive. @param {Record<string, string|Uint8Array>} files */
function zip(files) {
  const archive = CFB.utils.cfb_new();
  for (const [name, content] of Object.entries(files)) {
    const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
    CFB.utils.cfb_add(archive, `/${name}`, bytes);
  }
  return new Uint8Array(CFB.write(archive, { type: "array", fileType: "zip", compression: true }));
}

/** Return an .xlsx of one sheet, from the XML of its rows. */
function pack(
  rows,
  { texts = "", formats = [], after = "", workbook = "", calculation = "", parts = {} } = {},
) {
  const names = { sheet: "worksheets/sheet1.xml", texts: "sharedStrings.xml", ...parts };
  const type = (part, kind) =>
    `<Override PartName="/xl/${part}" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.${kind}+xml"/>`;
  const relate = (id, kind, target) =>
    `<Relationship Id="${id}" Type="${RELATIONS}/${kind}" Target="${target}"/>`;
  const relations = (...each) =>
    `<Relationships xmlns="${OFFICE}/package/2006/relationships">${each.join("")}</Relationships>`;
  const list = formats.map((code, at) => `<numFmt numFmtId="${200 + at}" formatCode="${code}"/>`);
  const styles = formats.map((_, at) => `<xf numFmtId="${200 + at}"/>`);
  return zip({
    "[Content_Types].xml": `<Types xmlns="${OFFICE}/package/2006/content-types">${type("workbook.xml", "sheet.main")}${type(names.sheet, "worksheet")}${type(names.texts, "sharedStrings")}${type("styles.xml", "styles")}</Types>`,
    "_rels/.rels": relations(relate("a", "officeDocument", "xl/workbook.xml")),
    "xl/workbook.xml": `<workbook ${MAIN}>${workbook}<sheets><sheet name="Plants &amp; more" sheetId="1" r:id="a"/></sheets><calcPr calcId="1" ${calculation}/></workbook>`,
    "xl/_rels/workbook.xml.rels": relations(
      relate("a", "worksheet", names.sheet),
      relate("b", "sharedStrings", names.texts),
      relate("c", "styles", "styles.xml"),
    ),
    "xl/styles.xml": `<styleSheet ${MAIN}><numFmts count="${list.length}">${list.join("")}</numFmts><fills><fill/></fills><cellXfs><xf numFmtId="0"/>${styles.join("")}</cellXfs></styleSheet>`,
    [`xl/${names.texts}`]: `<sst ${MAIN}>${texts}</sst>`,
    [`xl/${names.sheet}`]: `<worksheet ${MAIN}><sheetData>${rows}</sheetData>${after}</worksheet>`,
  });
}

/** Return a workbook that SheetJS writes. @param {Record<string, object>} sheets @param {object} more */
function save(sheets, more = {}, bookType = "xlsx") {
  const book = { SheetNames: Object.keys(sheets), Sheets: sheets, ...more };
  return new Uint8Array(write(book, { type: "array", bookType, cellStyles: true }));
}

const read = async (...given) => (await readSheet(pack(...given))).rows;

/** Return what is wrong with cells, as [row, column, text]. */
const listFaults = ({ cellFaults }) =>
  [...cellFaults].flatMap(([row, cells]) =>
    [...cells].map(([column, text]) => [row, column, text]),
  );

const NO_RESULT = "A formula without a result: open the file in a spreadsheet, and save it";

describe("a text is read as a spreadsheet shows it", () => {
  const texts =
    "<si><t>Rosa &amp; ×</t></si><si><r><t>two </t></r><r><t>parts</t></r><rPh><t>x</t></rPh></si>" +
    '<si/><si><t xml:space="preserve"> a_x000D_b_x000d_c_x005F_x0041_ </t></si>' +
    "<si><t>&#x1F33F; &#127801; 𠮷 &#233;</t></si><si><t><![CDATA[a & <b>]]></t></si>";
  const cells = [
    ['<c r="A1" t="s"><v>0</v></c>', "Rosa & ×"],
    ['<c r="A1" t="s"><v>1</v></c>', "two parts"],
    ['<c r="A1" t="s"><v>3</v></c>', " a\rb\rc_x0041_ "],
    ['<c r="A1" t="s"><v>4</v></c>', "🌿 🌹 𠮷 é"],
    ['<c r="A1" t="s"><v>5</v></c>', "a & <b>"],
    ['<c r="A1" t="inlineStr"><is><t>in &#x1F33F;</t><r><t>line</t></r></is></c>', "in 🌿"],
    ['<c r="A1" t="str"><f>B1</f><v>a &amp;lt; &#233;🌿_x005F_x0041_</v></c>', "a &lt; é🌿_x0041_"],
    ['<c r="A1" t="b"><v>1</v></c>', "TRUE"],
    ["<c><v>7</v></c>", "7"],
    ['<c r="A1" t="d"><v>2024-05-01</v></c>', "2024-05-01"],
  ];

  for (const [cell, text] of cells) {
    test(text, async () => {
      assert.deepEqual(await read(`<row r="1">${cell}</row>`, { texts }), [[text]]);
    });
  }

  test("parts may have other names", async () => {
    const parts = { sheet: "data/one.xml", texts: "words.xml" };
    const rows = '<row r="1"><c r="A1" t="s"><v>0</v></c></row>';

    assert.deepEqual(await read(rows, { texts, parts }), [["Rosa & ×"]]);
  });
});

describe("a number is read in its format", () => {
  const numbers = [
    ["General", "12.0", "12"],
    ["General", "4.02E+12", "4020000000000"],
    ["General", "0.30000000000000004", "0.3"],
    ["#,##0.00", "40201", "40201"],
    ["0.00E+00", "40201", "40201"],
    ["00000", "7", "00007"],
    ["&quot;Bed &quot;0", "7", "Bed 7"],
    ["0.0%", "0.125", "12.5%"],
    ["h:mm", "0.5625", "13:30"],
    ["[h]:mm", "1.25", "30:00"],
    ["dd.mm.yyyy", "45413", "2024-05-01"],
    ["[$-407]d. mmmm yyyy;@", "45413.9", "2024-05-01"],
    ["d/m/yy h:mm", "45413.5625", "2024-05-01 13:30"],
    ["yyyy-mm-dd h:mm:ss", "45413.562511574", "2024-05-01 13:30:01"],
  ];

  for (const [format, value, text] of numbers) {
    test(`${format}: ${text}`, async () => {
      const rows = `<row r="1"><c r="A1" s="1"><v>${value}</v></c></row>`;

      assert.deepEqual(await read(rows, { formats: [format] }), [[text]]);
    });
  }

  test("and a date in the calendar of its workbook", async () => {
    const rows = '<row r="1"><c r="A1" s="1"><v>43951</v></c></row>';
    const workbook = '<workbookPr date1904="1"/>';

    const found = await read(rows, { formats: ["dd/mm/yy"], workbook });

    assert.deepEqual(found, [["2024-05-01"]]);
  });

  test("but one that spreadsheets round is a fault", async () => {
    const cells = ["999999999999999", "1234567890123456"].map((value) => `<c><v>${value}</v></c>`);

    const table = await readSheet(pack(`<row r="1">${cells.join("")}</row>`));

    assert.match(listFaults(table).join(), /^0,1,Spreadsheets keep 15 digits/);
  });
});

test("cells and rows have their places, also without addresses", async () => {
  const rows =
    '<row r="2"><c t="str"><v>a</v></c><c/><c><v>1</v></c><c r="AB2"><v>2</v></c></row><row r="4"/><row><c><v>3</v></c></row>';

  const found = await read(rows);

  assert.deepEqual([found.length, found[1].length], [5, 28]);
  assert.deepEqual([found[1].slice(0, 4), found[1][27]], [["a", "", "1", ""], "2"]);
  assert.deepEqual([found[0], found[2], found[4]], [[], [], ["3"]]);
});

describe("a formula without a result and an error are faults", () => {
  const cells = [
    ["<c><f>A9</f></c>", NO_RESULT],
    ["<c><f>A9</f><v></v></c>", NO_RESULT],
    ['<c r="A1"><f t="array" ref="A1:A2">B1:B2</f></c>', NO_RESULT],
    ['<c t="e"><v>#N/A</v></c>', "An error of the spreadsheet: #N/A"],
    ['<c t="e"><f>1/0</f><v>#DIV/0!</v></c>', "An error of the spreadsheet: #DIV/0!"],
    ['<c t="str"><f>A9</f><v>Err:508</v></c>', "An error of the spreadsheet: Err:508"],
    ['<c t="str"><f>IF(A9,"","x")</f><v></v></c>', undefined],
    ['<c t="str"><f>A9</f><v>Rosa</v></c>', undefined],
    ["<c><f>A9</f><v>0</v></c>", undefined],
  ];

  for (const [cell, fault] of cells) {
    test(cell, async () => {
      const [found] = listFaults(await readSheet(pack(`<row r="1">${cell}</row>`)));

      assert.equal(found?.[2], fault);
    });
  }

  test("and so is the 0 of a workbook that was never calculated", async () => {
    const rows = '<row r="1"><c><f>A9</f><v>0</v></c><c t="str"><f>A9</f><v>Rosa</v></c></row>';

    const table = await readSheet(pack(rows, { calculation: 'fullCalcOnLoad="1"' }));

    assert.deepEqual(listFaults(table), [[0, 0, NO_RESULT]]);
  });
});

describe("a formula of an .xls is a fault, unless its result is told", () => {
  /** Return an .xls (BIFF8) of one cell, which has the formula 1+1. @param {number[]} result */
  const make = (result) => {
    const record = (type, bytes) => [type & 255, type >> 8, bytes.length, 0, ...bytes];
    const begin = (kind) =>
      record(0x809, [0, 6, kind, 0, 0xbb, 0xd, 0xcc, 7, 0, 0, 0, 0, 6, 0, 0, 0]);
    const end = record(0x0a, []);
    const globals = begin(5);
    const place = globals.length + 4 + 9 + end.length;
    const sheet = record(0x85, [place, 0, 0, 0, 0, 0, 1, 0, 65]);
    const code = [7, 0, 0x1e, 1, 0, 0x1e, 1, 0, 3];
    const formula = record(6, [0, 0, 0, 0, 0, 0, ...result, 0, 0, 0, 0, 0, 0, ...code]);
    const stream = [...globals, ...sheet, ...end, ...begin(16), ...formula, ...end];
    const archive = CFB.utils.cfb_new();
    CFB.utils.cfb_add(archive, "/Workbook", new Uint8Array(stream));
    return new Uint8Array(CFB.write(archive, { type: "array" }));
  };
  const told = "A formula whose result an .xls does not tell: save it as .xlsx";

  for (const [name, result, fault] of [
    ["2", [0, 0, 0, 0, 0, 0, 0, 64], undefined],
    ["0, which LibreOffice writes for a text", [0, 0, 0, 0, 0, 0, 0, 0], told],
    ["an empty text, which others write if there is none", [3, 0, 0, 0, 0, 0, 255, 255], told],
  ]) {
    test(name, async () => {
      const [found] = listFaults(await readSheet(make(result)));

      assert.equal(found?.[2], fault);
    });
  }
});

describe("what a spreadsheet hides or merges is told", () => {
  const sheet = () => ({
    ...utils.aoa_to_sheet([
      ["id", "name", "tag"],
      [1, "A", "Bed"],
      [2, "B"],
      [3, "C"],
    ]),
    "!merges": [utils.decode_range("C2:C3")],
    "!rows": [undefined, { hidden: true }, undefined, { hidden: true }, { hidden: true }],
  });
  const hidden = { Workbook: { Sheets: [{ Hidden: 2 }, { Hidden: 0 }, { Hidden: 0 }] } };

  for (const kind of ["xlsx", "xls"]) {
    test(`in an .${kind}, whose first visible sheet with cells is read`, async () => {
      const empty = utils.aoa_to_sheet([]);
      const bytes = save(
        { Old: utils.aoa_to_sheet([["x"]]), Empty: empty, New: sheet() },
        hidden,
        kind,
      );

      const table = await readSheet(bytes);

      assert.deepEqual([table.sheet, table.sheets], [2, ["Old (hidden)", "Empty", "New"]]);
      assert.deepEqual(
        table.rows.map((cells) => cells[2]),
        ["tag", "Bed", "Bed", undefined],
      );
      assert.deepEqual(table.notes, [
        "Merged cells are split: each has their value.",
        ...(kind === "xlsx" ? ["Hidden rows are imported, too: 2."] : []), // SheetJS writes none as .xls
      ]);
      assert.deepEqual((await readSheet(bytes, 0)).rows, [["x"]]);
    });
  }
});

test("a workbook begins with its first visible sheet that has a column of names", async () => {
  const cells = (...rows) => utils.aoa_to_sheet(rows);
  const sheets = {
    Hidden: cells(["id", "name"]),
    Cover: cells(["Nursery Greene"], ["No", "Price"]),
    Stock: cells(["Nursery Greene"], [], [null, "Nr.", "Plant name"], [null, 1, "Rosa"]),
    Other: cells(["id", "name"]),
  };
  const hidden = { Workbook: { Sheets: [{ Hidden: 1 }, {}, {}, {}] } };

  assert.equal((await readSheet(save(sheets, hidden))).sheet, 2);
});

describe("OpenDocument", () => {
  const cell = (type, text) =>
    `<table:table-cell ${type}>${text ? `<text:p>${text}</text:p>` : "<text:p/>"}</table:table-cell>`;
  const content = (rows) =>
    `<office:document-content xmlns:office="o" xmlns:table="t" xmlns:text="x" xmlns:style="s" xmlns:calcext="c"><office:automatic-styles><style:style style:name="ta1" style:family="table"><style:table-properties table:display="false"/></style:style></office:automatic-styles><office:body><office:spreadsheet><table:table table:name="Old" table:style-name="ta1"><table:table-row>${cell("", "x")}</table:table-row></table:table><table:table table:name="New" table:style-name="ta2">${rows}</table:table></office:spreadsheet></office:body></office:document-content>`;
  const make = (rows, manifest = "") =>
    zip({
      "META-INF/manifest.xml": `<m>${manifest}</m>`,
      "content.xml": content(rows),
      "styles.xml": "<s/>",
    });

  test("has texts, faults and hidden parts, too", async () => {
    const string = 'office:value-type="string"';
    const table = await readSheet(
      make(
        `<table:table-row>${cell(string, "&#x1F33F; _x0041_")}${cell('office:value-type="date" office:date-value="2024-05-01"', "1.5.24")}${cell('office:value-type="boolean" office:boolean-value="true"', "WAHR")}</table:table-row>` +
          `<table:table-row table:number-rows-repeated="2" table:visibility="collapse">${cell(string, "a")}</table:table-row>` +
          `<table:table-row><table:table-cell table:formula="of:=[.A9]"/>${cell('table:formula="of:=1/0" office:value-type="string" calcext:value-type="error"', "#DIV/0!")}${cell('table:formula="of:=&quot;&quot;"', "")}</table:table-row>` +
          '<table:table-row table:number-rows-repeated="1048570"><table:table-cell table:number-columns-repeated="16384"/></table:table-row>',
      ),
    );

    assert.deepEqual(table.sheets, ["Old (hidden)", "New"]);
    assert.deepEqual(table.rows.slice(0, 3), [["🌿 _x0041_", "2024-05-01", "TRUE"], ["a"], ["a"]]);
    assert.deepEqual(table.notes, ["Hidden rows are imported, too: 2."]);
    assert.deepEqual(
      listFaults(table).map(([row, column]) => [row, column]),
      [
        [3, 0],
        [3, 1],
      ],
    );
  });

  test("may be protected by a password", async () => {
    const bytes = make("", "<manifest:encryption-data/>");

    await assert.rejects(readSheet(bytes), /protected by a password/);
  });
});

describe("a workbook that cannot be read is refused with a reason", () => {
  const locked = () => {
    const archive = CFB.utils.cfb_new();
    CFB.utils.cfb_add(archive, "/EncryptedPackage", new Uint8Array(99));
    return new Uint8Array(CFB.write(archive, { type: "array" }));
  };
  const latin = () => {
    const archive = CFB.read(pack(one, { texts: "<si><t>é</t></si>" }), { type: "array" });
    const part = CFB.find(archive, "/xl/sharedStrings.xml");
    part.content = Uint8Array.from(part.content.filter((byte) => byte !== 0xc3)); // of é
    return new Uint8Array(CFB.write(archive, { type: "array", fileType: "zip" }));
  };
  const old = () => save({ A: utils.aoa_to_sheet([["x"]]) }, {}, "biff5");
  const far = (row) => `<row r="${row}"><c r="XFD${row}"><v>1</v></c></row>`;
  const merged = '<mergeCells><mergeCell ref="A1:XFD1048576"/></mergeCells>';
  const one = '<row r="1"><c r="A1" t="s"><v>0</v></c></row>';
  const files = [
    ["a ZIP archive of something else", () => zip({ "a.txt": "a" }), /cannot be read/],
    ["a part of a file", () => pack("").subarray(0, 300), /cannot be read/],
    ["a text that is missing", () => pack(one), /cannot be read/],
    [
      "a row beyond the last one",
      () => pack('<row r="9999999"><c><v>1</v></c></row>'),
      /cannot be/,
    ],
    ["other bytes than UTF-8", latin, /cannot be read/],
    ["an address that is none", () => pack('<row><c r="a1"><v>1</v></c></row>'), /cannot be read/],
    ["entities", () => pack("", { texts: '<!ENTITY a "b">' }), /cannot be read/],
    ["a password", locked, /protected by a password/],
    ["texts in encodings before Unicode", old, /cannot be read/],
    [
      "rows that are wide",
      () => pack(Array.from({ length: 700 }, (_, at) => far(at + 1)).join("")),
      /too large/,
    ],
    [
      "one merge of all cells",
      () => pack(one, { texts: "<si><t>a</t></si>", after: merged }),
      /too large/,
    ],
    [
      "a long text in many cells",
      () =>
        pack(one.repeat(200).replaceAll(' r="1"', "").replaceAll(' r="A1"', ""), {
          texts: `<si><t>${"x".repeat(600_000)}</t></si>`,
        }),
      /too large/,
    ],
  ];

  for (const [name, make, message] of files) {
    test(name, async () => {
      await assert.rejects(readSheet(make()), message);
    });
  }
});

test("a workbook that is made has only texts, and is read as it was", async () => {
  const rows = [
    ["id", "name", "tag"],
    ["-9223372036854775808", "=1+1", "2024-05-01"],
    ["007", "🌿 & <b> _x0041_", ""],
    ["1", 'Rosa\n"x"', "50%"],
  ];

  const bytes = await makeWorkbook(rows);

  const part = CFB.find(CFB.read(bytes, { type: "array" }), "/xl/worksheets/sheet1.xml").content;
  const sheet = new TextDecoder().decode(part);
  const cells = sheet.match(/<c [^>]*>/g);
  assert.equal(cells.length, 11);
  assert.equal(sheet.match(/<col [^>]*customWidth="1"/g)?.length, 3);
  assert.ok(cells.every((cell) => /t="s"/.test(cell)));
  rows[2].pop();
  assert.deepEqual((await readSheet(bytes)).rows, rows);
});

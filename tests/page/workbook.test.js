/** Workbooks of spreadsheets. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { strToU8, zipSync } from "../../src/plantstore/web/fflate/fflate.mjs";
import { UnreadableError } from "../../src/plantstore/web/page/csv.js";
import { readWorkbook } from "../../src/plantstore/web/page/workbook.js";

/** Pack a workbook with the rows of its first sheet, and those of a second one. */
function pack(rows, { texts = "", others = "", prefix = "" } = {}) {
  const sheet = (content) =>
    `<?xml version="1.0"?><${prefix}worksheet><${prefix}sheetData>${content}</${prefix}sheetData></${prefix}worksheet>`;
  const files = {
    "docProps/app.xml": "<a/>",
    "xl/worksheets/sheet2.xml": sheet(others),
    "xl/worksheets/sheet1.xml": sheet(rows),
    "xl/sharedStrings.xml": `<sst xmlns="x">${texts}</sst>`,
    "xl/workbook.xml":
      '<workbook xmlns:r="x"><sheets><sheet name="Plants &amp; more" r:id="a"/><sheet name="Other" r:id="b"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels":
      '<Relationships><Relationship Id="b" Target="worksheets/sheet2.xml"/><Relationship Id="a" Target="/xl/worksheets/sheet1.xml"/></Relationships>',
  };
  return zipSync(Object.fromEntries(Object.entries(files).map(([k, v]) => [k, strToU8(v)])));
}

const read = async (...given) => (await readWorkbook(pack(...given), 0)).rows;

describe("a cell is read as a spreadsheet shows it", () => {
  const texts =
    "<si><t>Rosa &amp; ×</t></si><si><r><t>two </t></r><r><t>parts</t></r><rPh><t>x</t></rPh></si>" +
    '<si/><si><t xml:space="preserve"> a_x000D_b </t></si>';
  const cells = [
    ['<c r="A1" t="s"><v>0</v></c>', "Rosa & ×"],
    ['<c r="A1" t="s"><v>1</v></c>', "two parts"],
    ['<c r="A1" t="s"><v>3</v></c>', " a\rb "],
    ['<c r="A1" t="s"><v>9</v></c>', ""],
    ['<c r="A1" t="inlineStr"><is><t>in</t><r><t>line</t></r></is></c>', "inline"],
    ['<c r="A1" t="str"><f>A2&amp;"x"</f><v>of a formula</v></c>', "of a formula"],
    ['<c r="A1"><v>12.0</v></c>', "12"],
    ['<c r="A1"><v>4.02E+12</v></c>', "4020000000000"],
    ['<c r="A1"><v>9.00719925474099E+15</v></c>', "9.00719925474099E+15"],
    ['<c r="A1" t="b"><v>1</v></c>', "TRUE"],
    ['<c r="A1" t="e"><v>#N/A</v></c>', "#N/A"],
    ["<c><v>7</v></c>", "7"],
  ];

  for (const [cell, text] of cells) {
    test(text || "a text that is missing", async () => {
      assert.deepEqual(await read(`<row r="1">${cell}</row>`, { texts }), [[text]]);
    });
  }
});

test("cells and rows have their places, also if others are missing", async () => {
  const rows =
    '<row r="2"><c r="C2"><v>1</v></c><c r="AB2"><v>2</v></c></row><row r="4"/><row r="5"><c r="A5"><v>3</v></c></row>';

  const found = await read(rows);

  assert.deepEqual([found.length, found[1].length], [5, 28]);
  assert.deepEqual([found[1][2], found[1][27], found[4], found[2]], ["1", "2", ["3"], []]);
});

test("elements may have a prefix", async () => {
  const rows = '<x:row r="1"><x:c r="A1"><x:v>1</x:v></x:c></x:row>';

  assert.deepEqual(await read(rows, { prefix: "x:" }), [["1"]]);
});

test("a sheet is chosen", async () => {
  const bytes = pack("", { others: '<row r="1"><c r="A1"><v>2</v></c></row>' });

  const { rows, sheets } = await readWorkbook(bytes, 1);

  assert.deepEqual([rows, sheets], [[["2"]], ["Plants & more", "Other"]]);
});

test("a large sheet is read in steps", async () => {
  const rows = Array.from(
    { length: 60_000 },
    (_, at) =>
      `<row r="${at + 1}"><c r="A${at + 1}" t="inlineStr"><is><t>Rosa ${at}</t></is></c></row>`,
  );

  const found = await read(rows.join(""));

  assert.equal(found.length, 60_000);
  assert.ok(found.every(([name], at) => name === `Rosa ${at}`));
});

describe("a workbook that cannot be read is refused with a reason", () => {
  const bomb = () =>
    zipSync({ "xl/worksheets/sheet1.xml": new Uint8Array(120_000_000) }, { level: 1 });
  const files = [
    ["a ZIP archive of something else", () => zipSync({ "a.txt": strToU8("a") }), /cannot be read/],
    ["a part of a file", () => pack("").subarray(0, 300), /cannot be read/],
    ["rows in a wrong order", () => pack('<row r="2"></row><row r="1"></row>'), /cannot be read/],
    ["a row beyond the last one", () => pack('<row r="99999999"></row>'), /cannot be read/],
    ["XML that is broken", () => pack('<row r="1"><c></row>'), /cannot be read/],
    ["a content that is very large", bomb, /more than 100 MB/],
  ];

  for (const [name, make, message] of files) {
    test(name, async () => {
      const error = await readWorkbook(make(), 0).catch((reason) => reason);

      assert.ok(error instanceof UnreadableError, String(error));
      assert.match(error.message, message);
    });
  }
});

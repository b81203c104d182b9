/** What spreadsheets write, and the service does not take: encodings, `sep=`, and rows without ids. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import {
  countNameless,
  numberRows,
  readCsv,
  readRows,
  WorkbookError,
} from "../../src/plantstore/web/page/csv.js";

const TEXT = "id;name\r\n1;Äpfel “”\r\n";

/** The files that the command and the service read, too. */
const CASES = JSON.parse(readFileSync(new URL("../support/csv_cases.json", import.meta.url)));

const read = (...parts) => readCsv(new File(parts, "plants.csv"));

/** Encode a text in UTF-16. */
function encode(text, isLittle) {
  const view = new DataView(new ArrayBuffer(2 * text.length));
  for (let at = 0; at < text.length; at += 1) view.setUint16(2 * at, text.charCodeAt(at), isLittle);
  return view;
}

describe("the encoding of a file is detected", () => {
  const single = Uint8Array.from("id;name\r\n1;\xc4pfel \x93\x94\r\n", (char) =>
    char.charCodeAt(0),
  );
  const files = [
    ["UTF-8", TEXT],
    ["UTF-8", `\ufeff${TEXT}`],
    ["UTF-16LE", encode(`\ufeff${TEXT}`, true)],
    ["UTF-16BE", encode(`\ufeff${TEXT}`, false)],
    ["Windows-1252", single],
  ];

  for (const [encoding, content] of files) {
    test(`${encoding} of ${content.constructor.name}`, async () => {
      const csv = await read(content);

      assert.equal(csv.encoding, encoding);
      assert.equal(await csv.body.text(), TEXT);
    });
  }

  test("one row that is not UTF-8 does not change the others", async () => {
    const { encoding } = await read("id;name\n1;Rosa ×\n2;", new Uint8Array([0xc4]), "pfel\n");

    assert.equal(encoding, "UTF-8");
  });

  test("a workbook is not CSV", async () => {
    await assert.rejects(read("PK\x03\x04"), WorkbookError);
    await assert.rejects(read(new Uint8Array([0xd0, 0xcf, 0x11, 0xe0])), WorkbookError);
  });

  test("a file that is not text is sent as it is", async () => {
    const png = Uint8Array.from("\x89PNG\r\n\x1a\n\xff\xfe", (char) => char.charCodeAt(0));

    const { body } = await read(png);

    assert.deepEqual(new Uint8Array(await body.arrayBuffer()), png);
  });
});

describe("the line sep= is not sent, and its separator is used", () => {
  for (const [name, start] of [
    ["alone", "sep=;\r\n"],
    ["in quotes", '"sep=;"\n'],
    ["after a byte order mark", "\ufeffsep=;\r\n"],
    ["after two byte order marks", "\ufeff\ufeffsep=;\r\n"],
  ]) {
    test(name, async () => {
      const { body, skipped, separator, columns } = await read(start, 'a,name;ID;"Na""me";name\n');

      assert.equal(await body.text(), 'a,name;ID;"Na""me";name\n');
      assert.deepEqual([skipped, separator], [1, ";"]);
      assert.deepEqual(columns, ["a,name", "id", 'na"me', "name"]);
    });
  }
});

describe("rows with an empty name are counted", () => {
  const files = [
    ['id,name\n1,A\n2,\n3,""\n', 2],
    ["name\tid\r\tx\rA\ty\r\r", 1],
    ['id,tag,name\n1,"a\n2,b,\n",X\n2,"""",\n', 1],
    ['id,name\n1\n2,a"b\n3,', 1],
    ["number\n1\n", 0],
    [" ID , name\u00a0\n1,\n,\n", 1],
  ];

  for (const [content, many] of files) {
    test(JSON.stringify(content), async () => {
      const csv = await read(content);

      assert.equal(await countNameless(csv), many);
    });
  }

  test("also in a large file", async () => {
    const rows = Array.from({ length: 100_000 }, (_, id) => `${id},${id % 10 ? "Rosa" : ""},\r\n`);
    const csv = await read("id,name,tag\r\n", ...rows);

    assert.equal(await countNameless(csv), 10_000);
  });
});

describe("the page takes the same rows for empty as the service", () => {
  const isLine = ([, text]) => !/[\r\n]./.test(text);
  const cases = CASES.filter(({ error, refused = [] }) => !error && refused.every(isLine));

  for (const { name, content, plants, refused = [] } of cases) {
    test(name, async () => {
      const csv = await read(content);

      assert.ok(csv.columns.includes("id") && csv.columns.includes("name"));
      assert.equal((await readRows(csv)).length, plants.length + refused.length);
    });
  }
});

test("a file gets a column with ids", async () => {
  const csv = await read('sep=;\nName;Tag\n\n"Rosa\n×";\n"open;x\nAbies');
  const rows = await readRows(csv);

  const file = numberRows(csv, rows, ["7", "8", "9"].values());

  assert.equal(file.name, "plants-with-ids.csv");
  assert.equal(await file.text(), 'id;Name;Tag\n7;"Rosa\n×";\n8;"open;x\n9;Abies');
});

/** The rows that the service refused: their texts, and the file for a spreadsheet. */

import assert from "node:assert/strict";
import { resolveObjectURL } from "node:buffer";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { RefusedRows, readRefused } from "../../src/plantstore/web/page/refused.js";
import { textOf } from "./tab.js";

/** The files that the command and the service read, too. */
const CASES = JSON.parse(readFileSync(new URL("../support/csv_cases.json", import.meta.url)));

/** Return the refused rows of a file, with the errors of these lines, which may be first and last ones. */
async function read(content, lines, total = lines.length, name = "plants.csv") {
  const errors = lines.map((of) => {
    const [line, last_line] = [of].flat();
    return { line, error: 1002, message: `Line ${line}`, ...(last_line > line && { last_line }) };
  });
  const refused = await readRefused(new File([content], name), { errors, refused: total });
  const csv = await resolveObjectURL(refused.url).text();
  return { ...refused, csv, texts: refused.rows.map(({ row }) => row) };
}

describe("the refused rows of a file are found by their lines", () => {
  for (const { name, content, refused } of CASES.filter((each) => each.refused)) {
    test(name, async () => {
      const lines = refused.map(([, text]) =>
        text.replace(/(\r\n|\r|\n)$/, "").split(/\r\n|\r|\n/),
      );
      const firstAndLast = refused.map(([line], at) => [line, line + lines[at].length - 1]);

      const { texts } = await read(content, firstAndLast);

      assert.deepEqual(
        texts,
        lines.map((each) => each.join("\n")),
      );
    });
  }
});

test("a line, and a character, may end at the border of two pieces of the file", async () => {
  const bytes = new TextEncoder().encode("first\r\nse×ond\rthird\r\r\nfifth");
  const file = new File([], "plants.csv");
  // One byte is one piece.
  file.stream = () => ReadableStream.from(Array.from(bytes, (byte) => new Uint8Array([byte])));
  const errors = [1, 2, 3, 4, 5].map((line) => ({ line, error: 1002, message: "" }));

  const { rows } = await readRefused(file, { errors, refused: 5 });

  const texts = rows.map(({ row }) => row);
  assert.deepEqual(texts, ["first", "se×ond", "third", "", "fifth"]);
});

test("a row that is not UTF-8 is shown with replacement characters", async () => {
  const { texts } = await read(new Uint8Array([0x31, 0x2c, 0xc4, 0x70]), [1]);

  assert.deepEqual(texts, ["1,\ufffdp"]);
});

test("of a large row, five hundred characters are shown", async () => {
  const { texts } = await read(`id,name\r\n1,${"🌱".repeat(5_000)}\r\n2,B\r\n,C`, [2, 4]);

  assert.deepEqual(texts, [`1,${"🌱".repeat(498)}…`, ",C"]);
});

test("the saved file has the lines, error, message and text of each row", async () => {
  const content = 'id,name\n1,"open\nrow\nx,y\n';

  const { name, csv } = await read(content, [[2, 3], 4], 3, "my.plants.csv");

  assert.equal(name, "my.plants-refused.csv");
  const header = '"line","error","message","row"';
  const rows = ['"2 to 3","1002","Line 2","1,""open\nrow"', '"4","1002","Line 4","x,y"'];
  // TextDecoder, and so text(), removes the byte order mark.
  assert.equal(csv.replace("\ufeff", ""), [header, ...rows, ""].join("\r\n"));
});

describe("no cell of the saved file is a formula for a spreadsheet", () => {
  const formulas = [
    "=cmd|' /C calc'!A0",
    "+1",
    "-1",
    "@SUM(1)",
    "'=1",
    "' =1",
    '"=1"',
    "\uff1d1",
    "\uff0b1",
    "\uff0d1",
    "\uff20A",
  ];

  for (const formula of formulas) {
    test(formula, async () => {
      const content = `${formula};${formula},${formula}\t${formula}`;

      const { csv, texts } = await read(content, [1]);

      assert.deepEqual(texts, [content]);
      const saved = csv.split('"Line 1",')[1];
      // A spreadsheet separates cells at one of these characters.
      assert.doesNotMatch(saved, /(^|[;,\t])["\s]*[=+\-@\uff1d\uff0b\uff0d\uff20]/);
    });
  }
});

test("the page says how many rows were refused if it does not list them all", async () => {
  const { rows } = await read("id\nx\ny\n", [2, 3]);

  const some = textOf(RefusedRows({ rows, total: 1_200 }));
  const all = textOf(RefusedRows({ rows, total: 2 }));

  assert.match(some, /^These are the first 2 of the 1,200 refused rows\./);
  assert.equal(all, "Line Reason Row 2 Line 2 x 3 Line 3 y");

  const several = await read("id\nx\ny\n", [[2, 3]]);
  assert.equal(textOf(RefusedRows(several)), "Line Reason Row 2 to 3 Line 2 x\ny");
});

test("without refused rows there is no file", async () => {
  const none = await readRefused(new File(["id\n"], "plants.csv"), { errors: [], refused: 0 });

  assert.equal(none, undefined);
});

/** CSV of spreadsheets, in any encoding, and pasted rows. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { readCsv, readPasted } from "../../src/plantstore/web/page/csv.js";
import { ENCODINGS } from "../../src/plantstore/web/page/encodings.js";

/** Encode a text: one byte for each character, or two. */
const bytesOf = (text) => Uint8Array.from(text, (char) => char.charCodeAt(0));

const utf16 = (text, isLittle) => {
  const view = new DataView(new ArrayBuffer(2 * text.length));
  for (let at = 0; at < text.length; at += 1) view.setUint16(2 * at, text.charCodeAt(at), isLittle);
  return new Uint8Array(view.buffer);
};

const read = async (content, encoding) =>
  readCsv(typeof content === "string" ? new TextEncoder().encode(content) : content, encoding);

describe("the encoding of a file is detected, and offered if nothing tells it", () => {
  const files = [
    [undefined, "1;Äpfel “”\r\n", "Äpfel “”"],
    [undefined, "\ufeff\ufeff1;Äpfel\r\n", "Äpfel"],
    [undefined, utf16("\ufeff1;Äpfel\n", true), "Äpfel"],
    [undefined, utf16("\ufeff1;Äpfel\n", false), "Äpfel"],
    ["windows-1252", bytesOf("1;\xc4pfel\r\n"), "Äpfel"],
    ["windows-1251", bytesOf("1;\xd0\xee\xe7\xe0\r\n"), "Роза"],
    ["koi8-r", bytesOf("1;\xf2\xcf\xda\xc1\r\n"), "Роза"],
    ["windows-1250", bytesOf("1;bia\xb3a r\xf3\xbfa\r\n"), "biała róża"],
    ["windows-1250", bytesOf("1;R\xf9\x9ee\r\n"), "Růže"],
    ["macintosh", bytesOf("1;Ros\x8e \x8a\r\n"), "Rosé ä"],
    ["shift_jis", bytesOf("1;\x83o\x83\x89\n"), "バラ"],
    ["euc-jp", bytesOf("1;\xba\xf9\xa4\xce\xcc\xda\n"), "桜の木"],
    ["euc-kr", bytesOf("1;\xc0\xe5\xb9\xcc\n"), "장미"],
    ["iso-2022-jp", bytesOf("1;\x1b$B:y$NLZ\x1b(B\n"), "桜の木"],
    ["gbk", bytesOf("1;\xc3\xb5\xb9\xe5\xd4\xc2\xbc\xbe\n"), "玫瑰月季"],
    ["big5", bytesOf("1;\xaa\xb4\xba\xc0\xc2\xb8\xb2\x79\xaa\xe1\n"), "玫瑰繡球花"],
  ];

  for (const [encoding, content, name] of files) {
    test(`${encoding}: ${name}`, async () => {
      const { encodings } = await read(content);
      const { rows } = await read(content, encoding);

      assert.deepEqual(rows[0], ["1", name]);
      const [, example] = encodings.find(([each]) => each === encoding) ?? [];
      assert.deepEqual([example, encodings.length > 0], [encoding && name, encoding !== undefined]);
    });
  }

  test("another one can be chosen", async () => {
    const { rows } = await read(bytesOf("1;\xf8e\xb9\n"), "windows-1250");

    assert.equal(rows[0][1], "řeą");
  });

  test("or one of those that browsers know", async () => {
    const { rows } = await read(bytesOf("1;\x83o\x83\x89\n"), "shift_jis");

    assert.equal(rows[0][1], "バラ");
    for (const name of ENCODINGS) assert.equal(new TextDecoder(name).encoding, name);
  });

  test("one row that is not UTF-8 does not change the others", async () => {
    const table = await read(bytesOf("id,name\n1,Rosa \xc3\x97\n2,\xc4pfel\n"));

    assert.deepEqual([table.rows[1][1], [...table.faults.keys()]], ["Rosa ×", [2]]);
    assert.equal(table.encodings[0][0], "utf-8");
  });
});

describe("the separator is that of the first row", () => {
  const files = [
    ["id,name", ["id", "name"]],
    ["price, in EUR;id;name", ["price, in EUR", "id", "name"]],
    ["name;a, b, c", ["name", "a, b, c"]],
    ["1\tRosa; alba, x", ["1", "Rosa; alba, x"]],
    ["Rosa, alba", ["Rosa", " alba"]],
    ['"id";"na""me"', ["id", 'na"me']],
  ];

  for (const [content, cells] of files) {
    test(content, async () => {
      assert.deepEqual((await read(`${content}\n`)).rows[0], cells);
    });
  }

  test("or is named by it", async () => {
    const { rows } = await read("\ufeffsep=,\nid,name;tag");

    assert.deepEqual(rows, [[], ["id", "name;tag"]]);
  });

  test("a name with a comma is one cell if there is one column", async () => {
    assert.deepEqual((await read("Name\nRosa, alba")).rows, [["Name"], ["Rosa, alba"]]);
  });
});

describe("rows end at any line end", () => {
  for (const content of ["1,A\n2,B", "1,A\r\n2,B", "1,A\r2,B", "1,A\r\n2,B\r", "1,A\n2,B\r\n"]) {
    test(JSON.stringify(content), async () => {
      assert.deepEqual((await read(content)).rows.slice(0, 2), [
        ["1", "A"],
        ["2", "B"],
      ]);
    });
  }

  test("but not within quotes", async () => {
    assert.deepEqual((await read('1,"A\r\nB"\r\n')).rows[0], ["1", "A\r\nB"]);
  });
});

describe("a row with a wrong quote is known, and the rows before it are kept", () => {
  for (const row of ['2,"open\n3,C\n', '2,"C"x\n', '2,"C" x\n3,C']) {
    test(JSON.stringify(row), async () => {
      const { rows, faults } = await read(`id,name\n1,A\n${row}`);

      assert.deepEqual(rows.slice(0, 2), [
        ["id", "name"],
        ["1", "A"],
      ]);
      assert.ok(faults.has(2));
      assert.equal(faults.has(1), false);
    });
  }
});

describe("a file without text is refused", () => {
  for (const content of ["", "\ufeff"]) {
    test(`nothing after ${JSON.stringify(content)}`, async () => {
      await assert.rejects(read(content), { message: "The file is empty" });
    });
  }

  for (const content of [
    "%PDF-1.7\n1,2",
    "\x89PNG\r\n\x1a\n\0",
    "\x89PNG\r\n\x1a\n\0\0\0\0\rIHDR",
    "id,name\n1,Rosa\0alba\n2,Acer\n",
    `id,name\n${"1,A\n".repeat(200)}\b`,
    "i\0d\0,\0n\0a\0m\0e\0",
  ]) {
    test(`other kinds of files: ${content.slice(0, 6)}`, async () => {
      await assert.rejects(read(bytesOf(content)), /^Error: This file cannot be read/);
      await assert.rejects(
        read(utf16(`\ufeff${content}`, true)),
        /^Error: This file cannot be read/,
      );
    });
  }
});

test("empty rows are kept, so that the rows have the numbers of a spreadsheet", async () => {
  const { rows } = await read("id,name\n\n,\n1,A\n");

  assert.deepEqual(rows.indexOf(rows.find(([id]) => id === "1")), 3);
});

describe("pasted rows are divided by tabs, and by quotes only around tabs and line breaks", () => {
  const texts = [
    ["Rosa, alba", [["Rosa, alba"]]],
    [
      "1\tRosa; alba\r\n2\tAbies",
      [
        ["1", "Rosa; alba"],
        ["2", "Abies"],
      ],
    ],
    [
      '1\t"Rosa\n2\t"Abies" alba\n3\tTilia',
      [
        ["1", '"Rosa'],
        ["2", '"Abies" alba'],
        ["3", "Tilia"],
      ],
    ],
    ['"Peace"\tRosa\n"A"', [['"Peace"', "Rosa"], ['"A"']]],
    ['1\t"A ""b""\nC"\tD\n2', [["1", 'A "b"\nC', "D"], ["2"]]],
    ['"A\tB"\t', [["A\tB", ""]]],
  ];

  for (const [text, rows] of texts) {
    test(JSON.stringify(text), () => {
      assert.deepEqual(readPasted(text).rows, rows);
    });
  }
});

describe("numbers and bullets in front of pasted names are left out", () => {
  const lists = [
    ["1. Rosa\n2. Abies alba\n10. Acer", ["Rosa", "Abies alba", "Acer"]],
    ["1) Rosa\r\n 2) Abies\r\n", ["Rosa", "Abies", ""]],
    ["\u2022\tRosa\n\u2022\u00a0Abies", ["Rosa", "Abies"]],
    ["- Rosa\n\n– Abies\n* Acer", ["Rosa", "", "Abies", "Acer"]],
    ["Dear all,\n1. A\n2. B\nThanks", ["Dear all,", "A", "B", "Thanks"]],
  ];

  for (const [text, names] of lists) {
    test(JSON.stringify(text), () => {
      const { rows, notes } = readPasted(text);

      assert.deepEqual(
        rows,
        names.map((name) => [name]),
      );
      assert.equal(notes.length, 1);
    });
  }

  for (const text of [
    "1. Rosa",
    "- Rosa\nAbies\nAcer",
    "1.\tRosa\tBed\n2.\tAbies\tBed",
    "12.5 A\n3 B",
  ]) {
    test(`but not in ${JSON.stringify(text)}`, () => {
      const { rows, notes } = readPasted(text);

      assert.deepEqual([rows.map((cells) => cells.join("\t")).join("\n"), notes], [text, []]);
    });
  }
});

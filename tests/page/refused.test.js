/** The rows that were refused: a table, and a file that can be corrected and imported. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { write } from "../../src/plantstore/web/page/csv.js";
import { listRefused, RefusedRows, readRefused } from "../../src/plantstore/web/page/refused.js";
import { planOf } from "./plans.js";
import { textOf } from "./tab.js";

const error = (line, message = "It is refused", number = 1002) => ({
  line,
  error: number,
  message,
});

test("the rows that the service and the page refuse are those of the file", async () => {
  const plan = await planOf('Nr;Name;Price\n1;"A\nB";7\n\nx;C;8\n9\n2;D;9\n10;E;9\n');
  const errors = [
    error(4, '`id` must be an integer from 0 to 9, got "x"'),
    error(5, "`id` is taken", 1004),
    error(6, "`id` must be an integer from 0 to 9, got 10"),
  ];

  const refused = readRefused(plan, { errors, refused: 3 });

  assert.deepEqual(refused.rows, [
    { row: 4, message: "The id must be a whole number", cells: ["x", "C", "8"] },
    { row: 5, message: "The name is missing", cells: ["9"] },
    { row: 6, message: "Another plant has this id", cells: ["2", "D", "9"] },
    { row: 7, message: "The id has too many digits", cells: ["10", "E", "9"] },
  ]);
  assert.equal(refused.total, 4);
});

test("refused rows have the columns of the file and a reason, and can be corrected and imported", async () => {
  const plan = await planOf('Nr;Price;Name\nx;7;"Rosa; ""alba"""\n2\n');
  const refused = readRefused(plan, { errors: [error(2)], refused: 1 });

  const list = listRefused(plan, refused);
  const text = write(list, plan.table.separator).replace("x;", "1;").replace("2;;;", "2;;Abies;");
  const again = await planOf(text);
  const refusedAgain = readRefused(again, { errors: [error(2)], refused: 1 });

  assert.deepEqual(list[0], ["Nr", "Price", "Name", "reason"]);
  assert.deepEqual(list[2], ["2", "", "", "The name is missing"]);
  assert.equal(await again.file.text(), 'id,name\r\n1,"Rosa; ""alba"""\r\n2,Abies\r\n');
  assert.deepEqual(listRefused(again, refusedAgain), [
    ["Nr", "Price", "Name", "reason"],
    ["1", "7", 'Rosa; "alba"', "It is refused"],
  ]);
});

test("a row with too many cells can be imported when its last cells are empty", async () => {
  const plan = await planOf("id,name,tag\n1,Rosa, alba,Shrub\n");
  const list = listRefused(plan, readRefused(plan, { errors: [], refused: 0 }));
  assert.deepEqual(list[1], [
    "1",
    "Rosa",
    " alba",
    "It has more cells than the first row",
    "Shrub",
  ]);

  list[1].splice(1, 4, "Rosa, alba", "Shrub", list[1][3], "");
  const again = await planOf(write(list));

  assert.equal(await again.file.text(), 'id,name,tag\r\n1,"Rosa, alba",Shrub\r\n');
});

test("the page says how many rows were refused if it does not list them all", async () => {
  const plan = await planOf(`id,name\nx,${"🌱".repeat(600)}\n`);
  const { rows } = readRefused(plan, { errors: [error(2)], refused: 1 });

  const some = textOf(RefusedRows({ rows, total: 1_200 }));
  const all = textOf(RefusedRows({ rows, total: 1 }));

  assert.match(some, /^These are the first 1 of the 1,200 refused rows\./);
  assert.equal(all, `Row Reason Cells 2 It is refused x · ${"🌱".repeat(248)}`);
});

test("without refused rows there is no table", async () => {
  assert.equal(readRefused(await planOf("id,name\n"), { errors: [], refused: 0 }), undefined);
});

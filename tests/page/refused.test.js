/** The rows that were refused: a table, and a file that can be corrected and imported. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { write } from "../../src/plantstore/web/page/csv.js";
import { listRefused, RefusedRows } from "../../src/plantstore/web/page/refused.js";
import { listPlants, previewOf } from "./plans.js";
import { textOf } from "./tab.js";

test("the rows that are refused have the numbers of the file", () => {
  const preview = previewOf('Nr;Name;Price\n1;"A\nB";7\n\nx;C;8\n9\n2;D;9\n');

  assert.equal(
    textOf(RefusedRows({ preview })),
    "Row 4: The id must be a whole number x · C · 8 Row 5: The name is missing 9 Save the refused rows",
  );
});

test("refused rows have the columns of the file and a reason, and can be corrected and imported", () => {
  const preview = previewOf('Nr;Price;Name\nx;7;"Rosa; ""alba"""\n2\n');

  const list = listRefused(preview);
  const text = write(list, preview.table.separator)
    .replace("x;", "1;")
    .replace("2;;;", "2;;Abies;");
  const again = previewOf(text);
  again.rows[0].fault = "It is refused";

  assert.deepEqual(list[0], ["Nr", "Price", "Name", "reason"]);
  assert.deepEqual(list[2], ["2", "", "", "The name is missing"]);
  assert.deepEqual(listPlants(again), ["2|Abies|"]);
  assert.deepEqual(listRefused(again), [
    ["Nr", "Price", "Name", "reason"],
    ["1", "7", 'Rosa; "alba"', "It is refused"],
  ]);
});

test("a row with too many cells can be imported when its last cells are empty", () => {
  const list = listRefused(previewOf("id,name,tag\n1,Rosa, alba,Shrub\n"));
  assert.deepEqual(list[1], [
    "1",
    "Rosa",
    " alba",
    "It has more cells than the first row",
    "Shrub",
  ]);

  list[1].splice(1, 4, "Rosa, alba", "Shrub", list[1][3], "");

  assert.deepEqual(listPlants(previewOf(write(list))), ["1|Rosa, alba|Shrub"]);
});

test("the page shows the beginnings of the first refused rows, and says so", () => {
  const some = textOf(RefusedRows({ preview: previewOf(`id,name\n${"x,A\n".repeat(1_001)}`) }));
  const one = textOf(RefusedRows({ preview: previewOf(`id,name\nx,${"🌱".repeat(600)}\n`) }));

  assert.match(some, /Row 1,001: The id .* and 1 more Save/);
  assert.match(one, new RegExp(` x · ${"🌱".repeat(248)} Save`));
});

test("without refused rows there is no list", () => {
  assert.equal(RefusedRows({ preview: previewOf("id,name\n") }), null);
});

/** Printing: the list, and labels in sheets. */

import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { listSelected } from "../../src/plantstore/web/page/listing.js";
import { askAndPrint } from "../../src/plantstore/web/page/printing.js";
import { state, update } from "../../src/plantstore/web/page/state.js";
import { encode } from "../../src/plantstore/web/uqr/uqr.mjs";
import { answer, respondPlants, textOf } from "./tab.js";

const many = Array.from({ length: 66 }, (_, id) => ({ id: `${id}`, name: `Rosa ${id}`, tag: "R" }));

/** Print, and return what is printed. */
async function print(kind, typed = {}, plants = many) {
  askAndPrint(plants);
  await state.dialog.act({ kind, ...typed });
  return state.sheet;
}

/** @param {any} markup of a label */
const pathOf = ({ props }) => props.children?.props?.d && props.children.props;

beforeEach(() => {
  location.origin = "https://plants.example";
  window.print = () => {};
  const listing = { plants: [], links: new Map(), total: 27_123, isExact: true };
  update({ dialog: null, selected: new Map(), listing, shownQuery: new URLSearchParams() });
});

describe("the selected plants are printed", () => {
  const counts = {
    grid24: [24, 24, 18],
    grid65: [65, 1],
    grid30: [30, 30, 6],
    single: Array(66).fill(1),
  };

  for (const [kind, expected] of Object.entries(counts)) {
    test(`as ${kind}`, async () => {
      const pages = await print(kind);

      assert.equal(state.dialog.title, "Print 66 plants");
      assert.deepEqual(
        pages.map(({ props }) => props.children.length),
        expected,
      );
      assert.match(textOf(pages.at(-1)), /Rosa 65 65 R$/);
      const [{ d }] = pages.at(-1).props.children.at(-1).props.children.map(pathOf).filter(Boolean);
      const { data } = encode("https://plants.example/#/plants/65", { ecc: "M", border: 0 });
      assert.equal(d.split("M").length - 1, data.flat().filter(Boolean).length);
    });
  }
});

test("the kind of what was printed last is offered first", async () => {
  await print("grid30");

  askAndPrint(many);

  const { View, content } = state.dialog;
  assert.match(textOf(View(content)), / 3 sheets Cancel Print$/);
});

test("labels begin where the first sheet still has some", async () => {
  const pages = await print("grid65", { place: "65" });

  assert.deepEqual(
    pages.map(({ props }) => props.children.length),
    [65, 65],
  );
  assert.equal(textOf(pages[0]), "Rosa 0 0 R");
});

describe("the number of sheets is said before", () => {
  for (const [kind, place, sheets] of [
    ["list", "1", ""],
    ["grid24", "1", "3 sheets"],
    ["grid24", "7", "3 sheets"],
    ["grid24", "8", "4 sheets"],
    ["grid65", "64", "2 sheets"],
    ["single", "9", "66 sheets"],
  ]) {
    test(`${kind} from ${place}: ${sheets}`, () => {
      askAndPrint(many);
      const { View, content } = state.dialog;

      const text = textOf(View({ ...content, kind, place }));

      assert.equal(/[\d,]+ sheets?(?= Cancel)/.exec(text)?.[0] ?? "", sheets);
    });
  }
});

test("of plants that the service has not counted, the least number is said", () => {
  update({ listing: { ...state.listing, total: 30, isExact: false } });
  askAndPrint();
  const { title, View, content } = state.dialog;

  assert.equal(title, "Print 30+ plants");
  assert.match(textOf(View({ ...content, kind: "grid24" })), / 2\+ sheets Cancel Print$/);
});

test("all plants of the search are printed, of all its pages, and the list says how many there are", async () => {
  const link = { Link: '<plants?after=1&limit=1000&q=ro&tag=R>; rel="next"' };
  const requests = answer(respondPlants(many.slice(0, 1), link), respondPlants(many.slice(1, 2)));
  update({ shownQuery: new URLSearchParams("q=ro&tag=R&after=7") });

  const text = textOf(await print("list", {}, null));

  assert.equal(requests[0].path, "plants?q=ro&tag=R&limit=1000");
  assert.equal(state.dialog.title, "Print 27,123 plants");
  assert.match(text, /^ro, R 2 plants, \d{4}-\d\d-\d\d Id Name ☐ 0 Rosa 0 ☐ 1 Rosa 1$/);
});

for (const [sort, expected] of [
  ["id", "☐ 2 Rosa 10 R ☐ 10 Rosa × alba R ☐ 30 Rosa 9"],
  ["name", "☐ 30 Rosa 9 ☐ 2 Rosa 10 R ☐ 10 Rosa × alba R"],
]) {
  test(`selected plants are printed in order by ${sort}, not as they were selected`, async () => {
    const plants = [
      { id: "10", name: "Rosa × alba", tag: "R" },
      { id: "30", name: "Rosa 9" },
      { id: "2", name: "Rosa 10", tag: "R" },
    ];
    const selected = new Map(plants.map((plant) => [plant.id, plant]));
    update({ selected, shownQuery: new URLSearchParams({ sort, tag: "R" }) });

    const text = textOf(await print("list", {}, listSelected()));

    assert.match(text, /^Plants 3 plants, \S+ Id Name Tag /);
    assert.ok(text.endsWith(expected), text);
  });
}

/** The keyboard: which keys act, and where. */

import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { press } from "../../src/plantstore/web/page/keyboard.js";
import { search, type as typeSearch } from "../../src/plantstore/web/page/listing.js";
import { onUpdate, state, update } from "../../src/plantstore/web/page/state.js";
import { answer, respondPlants } from "./tab.js";

/** What was done: the names of the rows and fields that got the focus, and of the boxes clicked. */
let done = [];

/** Return an element of which it is known by which selectors it, or what is around it, is found. */
function element(name, found, more = {}) {
  const self = {
    closest: (selector) =>
      Object.entries(found).find(([each]) => selector.split(", ").includes(each))?.[1] ?? null,
    focus: () => done.push(name),
    dispatchEvent: ({ shiftKey }) => done.push(`${name}${shiftKey ? " with Shift" : ""}`),
    ...more,
  };
  return self;
}

const IDS = { first: "1", second: "2" };

const makeRow = (name) => {
  const parts = {
    a: element(name, {}, { click: () => done.push(`open ${name}`) }),
    input: element(`box of ${name}`, {}),
  };
  const row = { querySelector: (selector) => parts[selector], getAttribute: () => IDS[name] };
  for (const part of Object.values(parts)) {
    part.closest = (selector) =>
      selector === "#plants tr" || selector.includes("#listing") ? row : null;
    part.focus = () => {
      done.push(name);
      document.activeElement = part;
    };
  }
  return row;
};
const [first, second] = [makeRow("first"), makeRow("second")];
Object.assign(first, { nextElementSibling: second, previousElementSibling: null });
Object.assign(second, { nextElementSibling: null, previousElementSibling: first });

const inRow = (row) => element("link", { "#plants tr": row, "#listing": row });
const PLACES = {
  search: element(
    "search",
    { "#search": {}, "input:not([type=checkbox])": {} },
    { select: () => done.push("its text") },
  ),
  button: element("button", { button: {} }),
  first: inRow(first),
  second: inRow(second),
  head: element("head", { "#listing": {} }),
  heading: element("heading", { "#plants-title": {} }),
  elsewhere: element("elsewhere", {}),
};

globalThis.MouseEvent = class {
  constructor(_type, options) {
    Object.assign(this, options);
  }
};
document.querySelector = (selector) =>
  ({
    "#plants tr": first,
    '#plants [data-id="8"]': first,
    '#plants [data-id="9"]': second,
    "#search": PLACES.search,
  })[selector] ?? null;

beforeEach(() => {
  done = [];
  document.activeElement = null;
  answer();
  update({ dialog: null, question: null, scopes: null, isSignedIn: true, toast: { text: "" } });
});

/** Press a key with the focus in a place; return what was done, and whether the browser does nothing. */
function type(place, key, more = {}) {
  let isPrevented = false;
  const preventDefault = () => {
    isPrevented = true;
  };
  press({ target: PLACES[place], key, preventDefault, ...more });
  return [done, isPrevented];
}

describe("keys lead through the list", () => {
  for (const [place, key, more, expected] of [
    ["search", "ArrowDown", {}, ["first"]],
    ["head", "ArrowDown", {}, ["first"]],
    ["first", "ArrowDown", {}, ["second"]],
    ["second", "ArrowUp", {}, ["first"]],
    ["first", "ArrowUp", {}, ["search"]],
    ["first", " ", {}, ["box of first"]],
    ["second", " ", { shiftKey: true }, ["box of second with Shift"]],
    ["second", "/", {}, ["search", "its text"]],
    ["heading", "/", {}, ["search", "its text"]],
    ["button", "/", {}, ["search", "its text"]],
  ]) {
    test(`${key} in ${place}: ${expected}`, async () => {
      const [, isPrevented] = type(place, key, more);
      await new Promise(setImmediate);

      assert.deepEqual([done, isPrevented], [expected, true]);
    });
  }
});

test("with Shift, the arrows select, too", () => {
  const plants = ["1", "2"].map((id) => ({ id, name: "Rosa" }));
  for (const [place, key, expected] of [
    ["first", "ArrowDown", "second"],
    ["second", "ArrowUp", "first"],
  ]) {
    done = [];
    const listing = { plants, links: new Map(), total: 2, isExact: true };
    update({ selected: new Map(), listing });

    type(place, key, { shiftKey: true });

    assert.deepEqual([done, [...state.selected.keys()]], [[expected], ["1", "2"]]);
  }
  update({ selected: new Map(), listing: null });
});

test("the arrow down in the search waits for what is typed", async () => {
  const { promise, resolve } = Promise.withResolvers();
  answer(promise);
  typeSearch({ currentTarget: { value: "ros" } });

  type("search", "ArrowDown");
  const before = [...done];
  resolve(respondPlants([{ id: "8", name: "Rosa" }]));
  await new Promise((shown) => onUpdate(() => state.isSearching || shown()));
  await new Promise(setImmediate);
  onUpdate(() => {});

  assert.deepEqual([before, done], [[], ["first"]]);
});

test("the arrow down does not lead to what was found before more was typed", async () => {
  typeSearch({ currentTarget: { value: "rosa" } });
  type("search", "ArrowDown");
  typeSearch({ currentTarget: { value: "" } });
  search();
  await new Promise((shown) => onUpdate(() => state.isSearching || shown()));
  onUpdate(() => {});

  assert.deepEqual(done, []);
});

describe("over the end of a page, the arrows lead to the plant beside it on the next one", () => {
  for (const [place, key, relation, ids, expected] of [
    ["second", "ArrowDown", "next", ["8", "9"], "first"],
    ["first", "ArrowUp", "prev", ["8", "9"], "second"],
    ["first", "ArrowUp", "prev", ["8", "9", "1", "2"], "second"],
  ]) {
    test(`${key} to ${ids}`, async () => {
      const links = new Map([[relation, "?after=7"]]);
      const makePlants = (ids) => ids.map((id) => ({ id, name: "Rosa" }));
      answer(respondPlants(makePlants(ids)));
      const listing = { plants: makePlants(["1", "2"]), links, total: 2, isExact: true };
      update({ listing });
      const loaded = new Promise((resolve) =>
        onUpdate(() => state.listing !== listing && resolve()),
      );

      type(place, key);
      await loaded;
      await new Promise(setImmediate);
      onUpdate(() => {});
      update({ listing: null });

      assert.deepEqual(done, [expected]);
    });
  }
});

test("n in the list adds a plant, if the token permits it", () => {
  type("first", "n");
  assert.equal(state.dialog.title, "Add a plant");

  update({ dialog: null, scopes: ["plants:read"] });
  type("first", "n");

  assert.equal(state.dialog, null);
});

describe("a key does nothing", () => {
  for (const [where, place, key, more] of [
    ["below the last plant", "second", "ArrowDown", {}],
    ["outside of the list", "elsewhere", "n", {}],
    ["outside of the list", "elsewhere", "/", {}],
    ["in the search", "search", "n", {}],
    ["in the search", "search", "z", { ctrlKey: true }],
    ["with Alt", "first", "n", { altKey: true }],
    ["with Ctrl", "first", "n", { ctrlKey: true }],
  ]) {
    test(`${where}: ${key}`, () => {
      assert.deepEqual(type(place, key, more), [[], false]);
      assert.equal(state.dialog, null);
    });
  }

  test("while a dialog is open", () => {
    update({ dialog: { title: "Edit plant 7" } });

    assert.deepEqual(type("first", "n"), [[], false]);
  });
});

test("Ctrl+Z undoes outside of text fields", () => {
  type("first", "z", { ctrlKey: true });

  assert.equal(state.toast.text, "There is nothing to undo");
});

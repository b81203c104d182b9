/** The list of tags: when it is read, and what is listed. */

import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, mock, test } from "node:test";
import { load } from "../../src/plantstore/web/page/listing.js";
import { state, update } from "../../src/plantstore/web/page/state.js";
import {
  refreshTags,
  SUGGESTING,
  TagList,
  TagsButton,
} from "../../src/plantstore/web/page/tags.js";
import { findAll, respond, respondPlants, textOf, wide } from "./tab.js";

const ROSA = { id: "1", name: "Rosa", tag: "Rosa" };
const TAGS = [
  { tag: "Abies", plants: 3 },
  { tag: "Rosa", plants: 1214 },
];
const COUNTS = { "Untagged-Count": "7", Link: '<tags?after=3.abies>; rel="next"' };

/** The requests for tags, and the answer to each. */
let asked = [];
let answer = () => respond(TAGS, 200, COUNTS);

beforeEach(() => {
  mock.timers.enable({ apis: ["setTimeout"] });
  asked = [];
  answer = () => respond(TAGS, 200, COUNTS);
  globalThis.fetch = async (path) => {
    if (!path.startsWith("tags")) return respondPlants([ROSA], { "Total-Count": "1224" });
    asked.push(path);
    return answer();
  };
  wide.matches = true;
  update({ tagFilter: "", tagList: undefined });
  update({ scopes: null, tags: [] });
  update({ query: new URLSearchParams() });
  history.replaceState(null, "", "/");
});

afterEach(async () => {
  await pass(5);
  await pass(5);
  wide.matches = false;
  mock.timers.reset();
});

/** Let time pass, and everything happen. @param {number} seconds */
async function pass(seconds) {
  mock.timers.tick(seconds * 1000);
  for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
}

test("the list has all plants, those without a tag, and the tags with their numbers", async () => {
  await load();
  await pass(0);

  assert.equal(
    textOf(TagList()),
    "Most plants first All 1,224 Untagged 7 Abies 3 Rosa 1,214 Filter to see other tags.",
  );
});

test("however many changes arrive, tags are counted once in five seconds", async () => {
  await load();
  await pass(0);
  for (let times = 0; times < 10; times += 1) {
    refreshTags();
    await pass(0.4);
  }
  assert.equal(asked.length, 1);

  await pass(1);

  assert.equal(asked.length, 2);
});

describe("tags are counted after a list was loaded again, and not for another list", () => {
  for (const [address, many] of [
    ["/", 2],
    ["?q=ro", 1],
  ]) {
    test(address, async () => {
      await load();
      await pass(5);
      history.replaceState(null, "", address);

      await load();
      await pass(5);

      assert.equal(asked.length, many);
    });
  }
});

test("on a narrow screen, tags are counted only while the list is open", async () => {
  wide.matches = false;
  await load();
  await pass(5);
  assert.equal(asked.length, 0);

  document.querySelector = () => TagList();
  TagList().props.ontoggle();
  await pass(5);
  document.querySelector = () => null;

  assert.equal(asked.length, 1);
});

test("the filter and the order are asked of the service, which says whether there are other tags", async () => {
  await load();
  await pass(0);
  answer = () => respond([{ tag: "Tilia", plants: 1 }]);
  const [filter, sort] = findAll("input", TagList());

  sort.onchange({ currentTarget: { checked: true } });
  filter.oninput({ currentTarget: { value: "ti" } });
  await pass(0.15);

  assert.match(textOf(TagList()), / Tilia 1 1 tag$/);
  assert.equal(asked.at(-1), "tags?q=ti&sort=-plants&limit=1000");
});

describe("if the tags cannot be read, there is no list, and the plants are shown", () => {
  for (const status of [403, 404, 429, 500]) {
    test(String(status), async () => {
      answer = () => respond({ message: "It failed" }, status);

      await load();
      await pass(0);
      SUGGESTING.oninput({ currentTarget: { value: "ro" } });
      await pass(1);

      assert.deepEqual([TagList(), TagsButton(), state.tags], [null, null, []]);
      assert.deepEqual(state.listing.plants, [ROSA]);
    });
  }
});

test("without the scope for reading, no tags are asked for", async () => {
  update({ scopes: ["plants:create"] });

  await load();
  SUGGESTING.oninput({ currentTarget: { value: "ro" } });
  await pass(5);

  assert.equal(asked.length, 0);
});

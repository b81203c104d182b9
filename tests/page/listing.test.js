/** The list of plants: what is searched, which page is shown, and its address. */

import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { countPlants, nameThem } from "../../src/plantstore/web/page/elements.js";
import * as listing from "../../src/plantstore/web/page/listing.js";
import { ApiError } from "../../src/plantstore/web/page/requests.js";
import { onUpdate, state, update } from "../../src/plantstore/web/page/state.js";
import { answer, respond, respondPlants, visited } from "./tab.js";

const ROSA = { id: "1", name: "Rosa", tag: "Rosa" };
const ABIES = { id: "2", name: "Abies" };
const ALL = new URLSearchParams();
const EXACT = { "Preference-Applied": "count=exact" };

beforeEach(() => {
  visited.length = 0;
  update({ search: "", problem: null, listing: null, suggestion: null, query: ALL });
  history.replaceState(null, "", "/");
});

describe("what is typed is a tag, or words of names", () => {
  const queries = {
    "alb que": "q=alb+que",
    "  alb  ": "q=alb",
    "tag:Rosa & Co": "tag=Rosa+%26+Co",
    " TAG: Rosa ": "tag=Rosa",
    "tag:": "tag=",
    "tag Rosa": "q=tag+Rosa",
    "  ": "",
  };

  for (const [typed, query] of Object.entries(queries)) {
    test(`"${typed}" is the query "${query}"`, () => {
      answer();
      update({ search: typed });

      listing.search();

      assert.equal(location.search, `?${query}`);
    });
  }
});

test("the search box shows what the address searches", () => {
  const texts = ["q=alb+que", "tag=Rosa+%26+Co", "tag=", "after=7"];

  const shown = texts.map((text) => listing.describe(new URLSearchParams(text)));

  assert.deepEqual(shown, ["alb que", "tag:Rosa & Co", "tag:", ""]);
});

test("all that is typed is one step in the history, and keeps the order", () => {
  answer();
  history.pushState({}, "", "?order=-id&after=7");
  update({ query: new URLSearchParams("order=-id&after=7") });

  for (const typed of ["R", "Ro", "tag:Rosa"]) {
    update({ search: typed });
    listing.search();
  }

  assert.deepEqual(visited, ["/", "?order=-id&after=7", "?tag=Rosa&order=-id"]);
});

test("a page is loaded with the parameters of its address that the service knows", async () => {
  const requests = answer(respondPlants([ABIES]));
  history.replaceState(null, "", "?after=1&order=-id&utm_source=mail");

  await listing.load();

  assert.equal(requests[0].path, "plants?after=1&order=-id&limit=50");
  assert.deepEqual(state.listing.plants, [ABIES]);
  assert.equal(state.isLoading, false);
});

test("of two pages that are loading, the later one is shown", async () => {
  let release = () => {};
  answer(new Promise((resolve) => (release = resolve)), respondPlants([ROSA]));
  const first = listing.load();

  await listing.load();
  release(respondPlants([ABIES]));
  await first;

  assert.deepEqual(state.listing.plants, [ROSA]);
  assert.equal(state.problem, null);
});

test("plants that are there remain while another page loads", async () => {
  answer(respondPlants([ROSA]), new Promise(() => {}));
  await listing.load();

  listing.load();

  assert.equal(state.isLoading, true);
  assert.deepEqual(state.listing.plants, [ROSA]);
});

describe("a text that is also a tag offers the plants of the tag", () => {
  for (const [typed, found, tag] of [
    ["rosa", [ROSA], "Rosa"],
    ["rosa", [ABIES], "rosa"],
  ]) {
    test(`"${typed}" is the tag ${tag}`, async () => {
      const requests = answer(
        respondPlants(found),
        respond([], 200, { ...EXACT, "Total-Count": "3" }),
      );
      history.replaceState(null, "", `?q=${typed}`);
      const suggested = new Promise((resolve) => {
        onUpdate(() => state.suggestion && resolve(state.suggestion));
      });

      await listing.load();

      assert.deepEqual(await suggested, { tag, total: 3, isExact: true });
      assert.equal(requests[1].path, `plants?tag=${tag}&limit=1`);
    });
  }
});

describe("a page that is missing is loaded when the service is ready again", () => {
  for (const [status, isLoaded] of [
    [0, true],
    [502, true],
    [403, false],
  ]) {
    test(`after the status ${status}: ${isLoaded}`, async () => {
      const requests = answer(respondPlants([ROSA]));
      update({ problem: new ApiError("It failed", status), isLoading: false });

      listing.loadIfMissing();

      assert.equal(requests.length, Number(isLoaded));
    });
  }
});

test("a list that cannot be loaded says why", async () => {
  answer(respond({ message: "The token lacks the scope plants:read" }, 403));

  await listing.load();

  assert.equal(state.problem.message, "The token lacks the scope plants:read");
  assert.equal(state.listing, null);
});

test("plants are counted in words", () => {
  const texts = [countPlants(1), countPlants(10_051), countPlants(10_000, false), countPlants(0)];

  assert.deepEqual(texts, ["1 plant", "10,051 plants", "10,000 or more plants", "0 plants"]);
  assert.equal(nameThem([ROSA]), "1");
  assert.equal(nameThem([ROSA, ABIES]), "2 plants");
});

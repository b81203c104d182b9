/** The list of plants: what is searched, which page is shown, and its address. */

import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { describe as describeQuery } from "../../src/plantstore/web/page/address.js";
import { Catalogue } from "../../src/plantstore/web/page/catalogue.js";
import { countPlants } from "../../src/plantstore/web/page/elements.js";
import * as listing from "../../src/plantstore/web/page/listing.js";
import { ApiError } from "../../src/plantstore/web/page/requests.js";
import { onUpdate, state, update } from "../../src/plantstore/web/page/state.js";
import { answer, respond, respondPlants, textOf, visited } from "./tab.js";

const ROSA = { id: "1", name: "Rosa", tag: "Rosa" };
const ABIES = { id: "2", name: "Abies" };
const ALL = new URLSearchParams();
const EXACT = { "Preference-Applied": "count=exact" };

beforeEach(() => {
  visited.length = 0;
  update({ search: "", problem: null, listing: null, suggestion: null, query: ALL });
  update({ shownQuery: ALL, selected: new Map(), fresh: { id: "", name: "", isSought: true } });
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
    "alba tag:Hybrid Tea": "q=alba&tag=Hybrid+Tea",
    "mytag:Rosa": "q=mytag%3ARosa",
    "alba untagged:": "q=alba&untagged=true",
    "untagged: alba": "q=untagged%3A+alba",
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
  const texts = [
    "q=alb+que",
    "tag=Rosa+%26+Co",
    "tag=",
    "after=7",
    "q=alba&tag=Rosa",
    "untagged=true",
  ];

  const shown = texts.map((text) => describeQuery(new URLSearchParams(text)));

  assert.deepEqual(shown, ["alb que", "tag:Rosa & Co", "tag:", "", "alba tag:Rosa", "untagged:"]);
});

test("all that is typed is one step in the history, and keeps the order", () => {
  answer();
  history.pushState({}, "", "?sort=-id&after=7");
  update({ query: new URLSearchParams("sort=-id&after=7") });

  for (const typed of ["R", "Ro", "tag:Rosa"]) {
    update({ search: typed });
    listing.search();
  }

  assert.deepEqual(visited, ["/", "?sort=-id&after=7", "?tag=Rosa&sort=-id"]);
});

test("a page is loaded with the parameters of its address that the service knows", async () => {
  const requests = answer(respondPlants([ABIES]));
  history.replaceState(null, "", "?after=1&sort=-id&utm_source=mail");

  await listing.load();

  assert.equal(requests[0].path, "plants?after=1&sort=-id&limit=50");
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

test("a tag is found without regard to case if no plant has it as it is spelled", async () => {
  const tags = ["Rosa canina", "Rosa", "ROSA"].map((tag) => ({ tag, plants: 1 }));
  const requests = answer(respond([]), respond(tags), respond([]), respondPlants([ROSA]));
  update({ search: "al tag:rosa" });
  history.replaceState(null, "", "?q=al&tag=rosa");

  await listing.load();

  const paths = requests.map(({ path }) => path.replace("&limit=50", ""));
  assert.deepEqual(paths, [
    "plants?q=al&tag=rosa",
    "tags?q=rosa&sort=-plants&limit=20",
    "plants?q=al&tag=Rosa",
    "plants?q=al&tag=ROSA",
  ]);
  assert.deepEqual(state.listing.plants, [ROSA]);
  assert.equal(state.search, "al tag:ROSA");
});

describe("an id finds its plant, besides the names with this number", () => {
  for (const [named, found, ids, total] of [
    [[ABIES], respondPlants({ ...ROSA, id: "7" }), ["7", "2"], 2],
    [[{ ...ROSA, id: "7" }], respondPlants({ ...ROSA, id: "7" }), ["7"], 1],
    [[ABIES], respond({ message: "No plant is stored under the id 7" }, 404), ["2"], 1],
  ]) {
    test(`${ids}`, async () => {
      answer(respondPlants(named, { ...EXACT, "Total-Count": String(named.length) }), found);
      history.replaceState(null, "", "?q=7");

      await listing.load();

      assert.deepEqual(
        [state.listing.plants.map(({ id }) => id), state.listing.total],
        [ids, total],
      );
    });
  }
});

describe("the page of a plant that was added is shown if the list does not have it", () => {
  const last = String(2n ** 63n - 1n);
  for (const [id, search, address] of [
    ["51", "?q=ro", "?before=52"],
    ["51", "?sort=-id&after=7", "?sort=-id&after=52"],
    [last, "", "?sort=-id"],
    ["51", "?sort=name&from=X", "?sort=name&from=Rosa"],
    ["1", "?q=ro", undefined],
  ]) {
    test(`${id} after ${search}`, async () => {
      answer(respondPlants([ROSA]), respond([]), respondPlants([ROSA]));
      history.replaceState(null, "", search);
      update({ fresh: { id, name: "Rosa", isSought: false } });

      await listing.load();

      assert.equal(visited[1], address);
    });
  }
});

test("the last page in order of id is the first one in the other order", async () => {
  const requests = answer(respondPlants([ABIES, ROSA], { Link: '<plants?after=1>; rel="next"' }));
  history.replaceState(null, "", "?q=a&last");

  await listing.load();

  assert.equal(requests[0].path, "plants?q=a&sort=-id&limit=50");
  assert.deepEqual(state.listing.plants, [ROSA, ABIES]);
  assert.deepEqual(Object.fromEntries(state.listing.links), {
    first: "?q=a",
    prev: "?q=a&before=1",
  });
});

describe("the numbers of the plants that are shown are known if one of them is", () => {
  const pages = [
    ["", ["next"], null, [1, 2]],
    ["sort=name&from=M", ["next", "first"], null, null],
    ["sort=name&from=M", ["next", "first"], { isNext: true, first: 31 }, [31, 32]],
    ["after=7", ["first", "prev"], null, [99, 100]],
    ["before=7", ["first", "prev", "next"], { last: 8 }, [7, 8]],
    ["before=7", ["first", "prev", "next"], { last: null }, null],
    ["after=7", ["first", "prev", "next"], { first: 100 }, null],
  ];

  for (const [query, relations, place, shown] of pages) {
    test(`of ?${query} with ${JSON.stringify(place)}: ${shown}`, () => {
      const links = new Map(relations.map((relation) => [relation, "?"]));
      history.replaceState(place, "", `?${query}`);
      update({ shownQuery: new URLSearchParams(query) });
      update({ listing: { plants: [ROSA, ABIES], links, total: 100, isExact: true } });

      const position = listing.findPosition();

      assert.deepEqual(position && [position.first, position.last], shown);
    });
  }
});

test("the selection is kept on other pages of the list, and on other lists", async () => {
  answer(
    respondPlants([ABIES]),
    respondPlants([{ ...ROSA, name: "New" }]),
    respond([]),
    respond([]),
  );
  update({ selected: new Map([[ROSA.id, ROSA]]) });

  history.replaceState(null, "", "?after=1");
  await listing.load();
  const beside = [...state.selected.values()];
  history.replaceState(null, "", "");
  await listing.load();
  const back = [...state.selected.values()];
  history.replaceState(null, "", "?q=ab");
  await listing.load();

  assert.deepEqual([beside, back], [[ROSA], [{ ...ROSA, name: "New" }]]);
  assert.deepEqual([...state.selected.values()], back);
});

test("all plants of a search are selected, of all its pages, beside those selected before", async () => {
  const link = { Link: '<plants?after=1&limit=1000&q=a>; rel="next"' };
  const requests = answer(respondPlants([ROSA], link), respondPlants([ABIES]));
  const acer = { id: "3", name: "Acer" };
  update({ shownQuery: new URLSearchParams("q=a&after=7&sort=-id") });
  update({ selected: new Map([["3", acer]]) });

  await listing.selectFound();

  assert.deepEqual([...state.selected.values()], [acer, ROSA, ABIES]);
  const paths = requests.map(({ path }) => path);
  assert.deepEqual(paths, ["plants?q=a&sort=-id&limit=1000", "plants?after=1&q=a&limit=1000"]);
});

for (const [address, many] of [
  ["?q=a", 2],
  ["?q=b", 0],
]) {
  test(`all plants that are found are selected unless there is another search: ${address}`, async () => {
    update({ shownQuery: new URLSearchParams("q=a"), selected: new Map() });
    answer(respondPlants([ROSA]), respondPlants([ROSA, ABIES]), respondPlants([]));
    history.replaceState(null, "", address);

    const loading = listing.load();
    await Promise.all([loading, listing.selectFound()]);

    assert.equal(state.selected.size, many);
  });
}

test("a selection ends if a proxy sends the same page again and again", async () => {
  const same = () => respondPlants([ROSA], { Link: '<plants?after=1&limit=1000>; rel="next"' });
  const requests = answer(same(), same(), same());

  await listing.selectFound();

  assert.deepEqual([...state.selected.keys()], ["1"]);
  assert.equal(requests.length, 2);
});

test("while the service is away, the list remains", async () => {
  answer(respondPlants([ROSA]), new TypeError("Failed to fetch"));
  await listing.load();

  await listing.load();

  assert.deepEqual(state.listing.plants, [ROSA]);
  assert.equal(state.problem.message, "The service does not respond");
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

  assert.deepEqual(texts, ["1 plant", "10,051 plants", "more than 10,000 plants", "0 plants"]);
});

test("an empty page does not say that nothing is found if others follow", async () => {
  answer(respond([], 200, { Link: '<plants?q=a+b&after=7>; rel="next"' }));
  history.replaceState(null, "", "?q=a+b");

  await listing.load();

  assert.match(textOf(Catalogue()), /Not all plants were searched\. Search on/);
});

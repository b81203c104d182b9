/** The list of plants: what is searched, which page is shown, and its address. */

import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { Catalogue } from "../../src/plantstore/web/page/catalogue.js";
import { countPlants } from "../../src/plantstore/web/page/elements.js";
import * as listing from "../../src/plantstore/web/page/listing.js";
import { ApiError } from "../../src/plantstore/web/page/requests.js";
import { state, update } from "../../src/plantstore/web/page/state.js";
import { answer, findAll, respond, respondPlants, textOf, visited, wide } from "./tab.js";

const ROSA = { id: "1", name: "Rosa", tag: "Rosa" };
const ABIES = { id: "2", name: "Abies" };
const ALL = new URLSearchParams();
const EXACT = { "Preference-Applied": "count=exact" };

beforeEach(() => {
  visited.length = 0;
  update({ search: "", problem: null, listing: null, query: ALL });
  update({ shownQuery: ALL, selected: new Map() });
  history.replaceState(null, "", "/");
});

describe("what is typed is searched in the names, among the plants of the tag that is shown", () => {
  const addresses = [
    ["alb que", "", "?q=alb+que"],
    ["  alb  ", "q=al", "?q=alb"],
    ["alb", "q=al&tag=Rosa&after=7", "?q=alb&tag=Rosa"],
    ["alb", "untagged=true&sort=name", "?q=alb&untagged=true&sort=name"],
    ["  ", "q=al&tag=Rosa", "?tag=Rosa"],
  ];

  for (const [typed, query, address] of addresses) {
    test(`"${typed}" after "${query}" leads to ${address}`, () => {
      answer();
      update({ search: typed, query: new URLSearchParams(query) });

      listing.search();

      assert.equal(location.search, address);
    });
  }
});

test("Enter searches and selects the text, which the next scan replaces", () => {
  answer();
  update({ search: "1662", query: ALL });
  const done = [];
  const currentTarget = { querySelector: () => ({ select: () => done.push("selected") }) };
  const [{ onsubmit }] = findAll("form", Catalogue());

  onsubmit({ preventDefault: () => done.push("not sent"), currentTarget });

  assert.deepEqual([location.search, done], ["?q=1662", ["not sent", "selected"]]);
});

describe("Enter opens the plant with exactly this id, or the only one found", () => {
  for (const [typed, plants, title] of [
    ["1", [ABIES, ROSA], "Edit plant 1"],
    ["ros", [ROSA], "Edit plant 1"],
    ["r", [ABIES, ROSA], undefined],
    ["", [ROSA], undefined],
  ]) {
    test(`${typed || "nothing"} of ${plants.length}`, async () => {
      const answers = [
        respondPlants(plants),
        ...Array.from({ length: 2 }, () => respondPlants(ROSA)),
      ];
      answer(...answers);
      update({ search: typed, dialog: null, scopes: null, isSearching: false });
      const [{ onsubmit }] = findAll("form", Catalogue());

      await onsubmit({ preventDefault: () => {}, currentTarget: { querySelector: () => null } });

      assert.equal(state.dialog?.title, title);
    });
  }
});

test("all that is typed is one step in the history, and keeps the order", () => {
  answer();
  history.pushState({}, "", "?sort=-id&after=7");
  update({ query: new URLSearchParams("sort=-id&after=7") });

  for (const typed of ["R", "Ro", "Ros"]) {
    update({ search: typed });
    listing.search();
  }

  assert.deepEqual(visited, ["/", "?sort=-id&after=7", "?q=Ros&sort=-id"]);
});

test("the list by name begins at what is typed, in any script", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  answer();
  history.pushState({}, "", "?tag=Rosa&sort=name");
  update({ query: new URLSearchParams("tag=Rosa&sort=name&after=7&from=abies") });

  for (const value of ["ш", "шиповник"]) {
    listing.beginAt({ currentTarget: { value } });
    context.mock.timers.tick(200);
  }

  assert.deepEqual(
    visited.map((address) => new URLSearchParams(address).get("from")),
    [null, null, "шиповник"],
  );
  assert.equal(new URLSearchParams(location.search).get("tag"), "Rosa");
  assert.equal(state.from, "шиповник", "what is typed remains while the list is loading");
});

test("the end of a change leaves what is being typed, whose search loads the list", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const requests = answer();
  listing.type({ currentTarget: { value: "ro" } });

  listing.loadAgain();

  assert.equal(state.search, "ro");
  context.mock.timers.tick(1000);
  assert.match(requests.at(-1).path, /q=ro/);
});

describe("before a page of the list by name are the plants that come before it", () => {
  const plants = Array.from({ length: 200 }, (_, at) => ({ id: `${at}`, name: `Rosa ${at}` }));
  const links = new Map(["first", "next"].map((relation) => [relation, `?${relation}`]));
  const goBack = async (first, ...walks) => {
    const requests = answer(...walks.map((walk) => respondPlants(walk)));
    history.pushState({ first: 701 }, "", "?tag=R&sort=name&from=Rosa");
    update({ shownQuery: new URLSearchParams("tag=R&sort=name&from=Rosa") });
    const page = plants.slice(first, first + 50);
    update({ listing: { plants: page, links, total: 900, isExact: true } });
    await listing.findTurn("prev")();
    return requests.map(({ path }) => path);
  };

  test("found from the beginning of their name", async () => {
    const [walk, page] = await goBack(120, plants);

    assert.equal(walk, "plants?tag=R&sort=name&from=Ros&limit=1000");
    assert.equal(page, "plants?tag=R&sort=name&from=Rosa+69&after=69&limit=50");
    assert.deepEqual(history.state, { first: 651 });
  });

  test("or of the list, which is its first page if there are not more", async () => {
    const paths = await goBack(50, plants, plants, plants, plants);

    assert.equal(paths[3], "plants?tag=R&sort=name&limit=1000");
    assert.equal(paths[4], "plants?tag=R&sort=name&limit=50");
  });

  test("also if no plant comes at or after it", async () => {
    const paths = await goBack(200, plants);

    assert.equal(paths[1], "plants?tag=R&sort=name&from=Rosa+149&after=149&limit=50");
  });

  test("or no longer, if another page is shown meanwhile", async () => {
    const slow = Promise.withResolvers();
    const going = goBack(120, []);
    answer(slow.promise);
    update({ shownQuery: ALL });
    slow.resolve(respondPlants(plants));
    await going;

    assert.equal(location.search, "?tag=R&sort=name&from=Rosa");
  });
});

describe("the Tab key leads to the plant that had the focus, or to the next one", () => {
  const plants = ["1", "2", "3", "4"].map((id) => ({ ...ROSA, id }));

  for (const [left, expected] of [
    [["1", "2", "3", "4"], "3"],
    [["1", "2", "4"], "4"],
    [["1", "2"], "2"],
    [["7", "8"], "7"],
    [[], ""],
  ]) {
    test(`of ${left}: ${expected}`, async () => {
      update({ listing: { plants, links: new Map(), total: 4, isExact: true }, current: "3" });
      answer(respondPlants(left.map((id) => ({ ...ROSA, id }))));

      await listing.load();

      assert.equal(state.current, expected);
    });
  }
});

test("a page is loaded with the parameters of its address that the service knows", async () => {
  const requests = answer(respondPlants([ABIES]));
  history.replaceState(null, "", "?after=1&sort=-id&utm_source=mail");

  await listing.load();

  assert.equal(requests[0].path, "plants?after=1&sort=-id&limit=50");
  assert.deepEqual(state.listing.plants, [ABIES]);
  assert.equal(state.isLoading, false);
});

test("a page that the service lists in parts is filled, and its links lead on from the last part", async () => {
  history.replaceState(null, "", "?q=a&sort=name");
  const link = (after) => `<plants?q=a&sort=name&after=${after}&limit=50>; rel="next"`;
  const parts = [[ROSA], [], [ABIES]].map((plants, at) =>
    respondPlants(plants, at < 2 ? { ...EXACT, Link: link(at) } : EXACT),
  );
  const requests = answer(...parts);

  await listing.load();

  assert.deepEqual(state.listing.plants, [ROSA, ABIES]);
  assert.equal(state.listing.links.has("next"), false);
  assert.deepEqual(
    requests.map(({ path }) => path).filter((path) => path.includes("q=a")),
    [
      "plants?q=a&sort=name&limit=50",
      "plants?q=a&sort=name&after=0&limit=49",
      "plants?q=a&sort=name&after=1&limit=49",
    ],
  );
});

test("a number that the service does not know is at least that of the plants that are seen", async () => {
  history.replaceState({ first: 51 }, "", "?q=ab&after=7");
  const Link = '<plants?q=ab>; rel="first", <plants?q=ab&after=9>; rel="next"';
  const part = respondPlants([ROSA], { Link, "Total-Count": "1" });
  answer(...Array.from({ length: 20 }, () => part.clone()));

  await listing.load();
  const { total, isExact } = state.listing;
  answer(respondPlants([ROSA], { "Total-Count": "0" }));
  await listing.load();

  assert.deepEqual([total, isExact], [50 + 20 + 1, false]);
  assert.deepEqual([state.listing.total, state.listing.isExact], [1, true]);
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

describe("the numbers of the plants that are shown are known if one of them is", () => {
  const pages = [
    ["", ["next"], null, [1, 2]],
    ["sort=name&from=M", ["next", "first"], null, null],
    ["sort=name&from=M", ["next", "first"], { first: 31 }, [31, 32]],
    ["after=7", ["first", "prev"], null, [99, 100]],
    ["before=7", ["first", "prev", "next"], { first: 7 }, [7, 8]],
    ["before=7", ["first", "prev", "next"], { first: Number.NaN }, null],
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

test("the history has the number of the first plant of the page beside", async () => {
  answer();
  const links = new Map([
    ["prev", "?before=101"],
    ["next", "?after=150"],
  ]);
  const plants = Array.from({ length: 50 }, (_, at) => ({ id: `${at + 101}`, name: "Rosa" }));
  const firsts = [];
  for (const [, query] of links) {
    history.replaceState({ first: 101 }, "", "?after=100");
    update({ listing: { plants, links, total: 900, isExact: true } });
    await listing.go(query);
    firsts.push(history.state.first);
  }

  assert.deepEqual(firsts, [51, 151]);
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
    const slow = Promise.withResolvers();
    answer(respondPlants([ROSA]), slow.promise, respondPlants([]));
    history.replaceState(null, "", address);

    const loading = listing.load();
    const selecting = listing.selectFound();
    await loading;
    slow.resolve(respondPlants([ROSA, ABIES]));
    await selecting;

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

describe("while the page is visible, the list is loaded again and again", () => {
  const shown = { plants: [ROSA, ABIES], links: new Map(), total: 2, isExact: true };
  const renamed = { ...ROSA, name: "Theirs" };

  beforeEach(() => update({ listing: shown, isLoading: false, search: "r" }));

  test("what others change is shown, and the selection keeps what the user saw", async () => {
    const requests = answer(respondPlants([renamed]));
    history.replaceState(null, "", "?tag=R&after=7");
    update({ selected: new Map([["1", ROSA]]) });

    await listing.refresh();

    assert.deepEqual(
      requests.map(({ path }) => path),
      ["plants?tag=R&after=7&limit=50"],
    );
    assert.deepEqual(state.listing.plants, [renamed]);
    assert.deepEqual([[...state.selected.values()], state.search], [[ROSA], "r"]);
  });

  test("the tags are counted only if the list has changed", async () => {
    const requests = answer(...[[renamed], [renamed]].map((plants) => respondPlants(plants)));
    wide.matches = true;

    await listing.refresh();
    const first = requests.filter(({ path }) => path.startsWith("tags")).length;
    await listing.refresh();

    wide.matches = false;
    assert.equal(first, 1);
    assert.equal(requests.filter(({ path }) => path.startsWith("tags")).length, 1);
  });

  test("a page that is missing is loaded when the service is ready again", async () => {
    answer(respondPlants([ROSA]));
    update({ problem: new ApiError("It failed", 502) });

    await listing.refresh();

    assert.equal(state.problem, null);
  });

  test("a refusal leaves the list", async () => {
    answer(respond({ message: "Too many" }, 429));

    await listing.refresh();

    assert.deepEqual([state.listing, state.problem], [shown, null]);
  });

  test("but not while a search is typed or a dialog is open, nor if there is no list, nor over another page", async () => {
    let release = () => {};
    const late = new Promise((resolve) => (release = () => resolve(respondPlants([renamed]))));
    const requests = answer(late, respondPlants([ABIES]));
    const refreshed = listing.refresh();
    await listing.load();
    release();
    await refreshed;
    assert.deepEqual(state.listing.plants, [ABIES]);

    update({ listing: null, problem: new ApiError("It is refused", 403) });
    await listing.refresh();
    update({ listing: shown, problem: null, dialog: { title: "Edit plant 7" } });
    await listing.refresh();
    update({ dialog: null });
    listing.type({ currentTarget: { value: "ro" } });
    await listing.refresh();

    assert.equal(requests.length, 2);
  });
});

test("a list that cannot be loaded says why", async () => {
  answer(respond({ message: "The token lacks the scope plants:read" }, 403));

  await listing.load();

  assert.equal(state.problem.message, "The token lacks the scope plants:read");
  assert.equal(state.listing, null);
});

test("plants are counted in words", () => {
  const texts = [countPlants(1), countPlants(10_051), countPlants(10_000, false), countPlants(0)];

  assert.deepEqual(texts, ["1 plant", "10,051 plants", "10,000+ plants", "0 plants"]);
});

test("an empty page does not say that nothing is found if others follow", async () => {
  const empty = respond([], 200, { Link: '<plants?q=a+b&after=7>; rel="next"' });
  answer(...Array.from({ length: 20 }, () => empty.clone()));
  history.replaceState(null, "", "?q=a+b");

  await listing.load();

  assert.match(textOf(Catalogue()), /Not all plants were searched\. Search on/);
});

test("what a tag has not is sought in all plants", async () => {
  answer(respond([]));
  history.replaceState(null, "", "?q=a&tag=Rosa&sort=name");

  await listing.load();

  const links = findAll("a", Catalogue()).map(({ href, children }) => [textOf(children), href]);
  assert.deepEqual(links.at(-1), ["Search in all plants", "?q=a&sort=name"]);
});

/** What others change: the stream of events, and what it does to the list. */

import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, mock, test } from "node:test";
import { client } from "../../src/plantstore/web/page/client.js";
import { EventReader } from "../../src/plantstore/web/page/events.js";
import { load } from "../../src/plantstore/web/page/listing.js";
import { follow, show, unfollow } from "../../src/plantstore/web/page/live.js";
import { state, update } from "../../src/plantstore/web/page/state.js";
import { respond, respondPlants } from "./tab.js";

const BIG = "9223372036854775807";
const ROSA = { id: "1", name: "Rosa", tag: "Rosa" };
const ABIES = { id: "2", name: "Abies" };
const BEGIN = 'retry: 1000\nid: 7\nevent: position\ndata: {"number":7}\n\n:\n';
const STREAM = { "Content-Type": "text/event-stream; charset=utf-8" };

/** The answers to requests for the stream, and all requests. */
let streams = [];
let requests = [];
let arrived = () => {};

beforeEach(() => {
  mock.timers.enable({ apis: ["setTimeout"] });
  streams = [];
  requests = [];
  globalThis.fetch = async (path, { headers, signal }) => {
    requests.push({ path, lastId: headers.get("Last-Event-ID") });
    arrived();
    if (!path.startsWith("changes")) return respondPlants([ABIES]);
    const given = streams.shift() ?? new Promise(() => {});
    if (given instanceof Error) throw given;
    const aborted = new Promise((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
    });
    return await Promise.race([given, aborted]);
  };
  history.replaceState(null, "", "/");
  const query = new URLSearchParams();
  const listing = { plants: [ROSA, ABIES], links: new Map(), total: 2, isExact: true };
  update({ query, shownQuery: query, search: "", listing, problem: null, isLoading: false });
  update({ selected: new Map(), scopes: null, dialog: null, fresh: { id: "", isSought: true } });
});

afterEach(() => {
  unfollow();
  mock.timers.reset();
});

/** Wait until so many requests were sent, while the time passes. @param {number} many */
async function sent(many) {
  while (requests.length < many) {
    await new Promise(setImmediate);
    mock.timers.tick(1000);
  }
}

/** Wait until everything that can happen at this time has happened. */
async function settle() {
  for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
}

/** @param {string} change @param {object} plant */
function event(change, plant, number = 8) {
  const data = JSON.stringify({ number, change, plant }).replace(/"id":"(-?\d+)"/, '"id":$1');
  return `id: ${number}\nevent: ${change}\ndata: ${data}\n\n`;
}

/** @param {string} text @param {number} size of the pieces, in bytes */
function read(text, size) {
  const reader = new EventReader();
  const bytes = new TextEncoder().encode(text);
  const events = [];
  for (let at = 0; at < bytes.length; at += size) {
    events.push(...reader.read(bytes.slice(at, at + size)));
  }
  return { reader, events };
}

describe("events are read as the HTML standard says", () => {
  const texts = {
    "id: 7\nevent: created\ndata: a\n\n": [{ id: "7", event: "created", data: "a" }],
    "data:a\ndata: b\ndata:  c\n\n": [{ id: "", event: "message", data: "a\nb\n c" }],
    "data: ×\r\n\r\ndata: 🌱\r\rdata: c\n\n": [
      { id: "", event: "message", data: "×" },
      { id: "", event: "message", data: "🌱" },
      { id: "", event: "message", data: "c" },
    ],
    ":\n\n: data: no\n\nother: no\n\nid: 7\n\n": [],
    "\ufeffdata\n\n": [{ id: "", event: "message", data: "" }],
    "data: is not complete\n": [],
    "data: a\r\ndata: b\r\n\r\n": [{ id: "", event: "message", data: "a\nb" }],
    "event: created\n\ndata: a: b\n\n": [{ id: "", event: "message", data: "a: b" }],
    "id: 7\ndata: a\n\nid: 8\0\ndata: b\n\nid\ndata: c\n\n": [
      { id: "7", event: "message", data: "a" },
      { id: "7", event: "message", data: "b" },
      { id: "", event: "message", data: "c" },
    ],
  };

  for (const [text, expected] of Object.entries(texts)) {
    for (const size of [1, 2, 3, 1000]) {
      test(`${JSON.stringify(text)} in pieces of ${size} bytes`, () => {
        const { events } = read(text, size);

        assert.deepEqual(events, expected);
      });
    }
  }
});

test("the id of an event without data counts, that of an incomplete event does not", () => {
  const { reader } = read("retry: 3000\nretry: x\nid: 7\n\nid: 8\n", 1);

  assert.deepEqual([reader.lastId, reader.retrySeconds], ["7", 3]);
});

test("the ids of changes are text, without rounding", async () => {
  globalThis.fetch = async () => respond(BEGIN + event("deleted", { id: BIG }), 200, STREAM);

  const found = [];
  for await (const changes of client.follow(new EventReader(), AbortSignal.timeout(10_000))) {
    found.push(...changes);
  }

  assert.deepEqual(found, [{ number: 8, change: "deleted", plant: { id: BIG } }]);
});

describe("a plant that still belongs to the list is replaced in its row", () => {
  const changed = { ...ROSA, name: "Rosa × alba" };

  for (const query of ["", "after=0", "tag=Rosa"]) {
    test(`in the list "${query}"`, async () => {
      update({ shownQuery: new URLSearchParams(query), selected: new Map([["1", ROSA]]) });

      show([{ change: "replaced", plant: changed }]);
      mock.timers.tick(1000);

      assert.deepEqual(state.listing.plants, [changed, ABIES]);
      assert.deepEqual([...state.selected.values()], [ROSA], "what the user saw");
      assert.equal(requests.length, 0);
    });
  }
});

describe("the page is loaded again if only the service knows what belongs to it", () => {
  for (const [query, change, plant] of [
    ["", "deleted", { id: "1" }],
    ["sort=name", "replaced", { id: "1", name: "Aster" }],
    ["sort=name", "replaced", { id: "9", name: "Aster" }],
    ["", "deleted", { id: "9" }],
    ["", "created", { id: "9", name: "Acer" }],
    ["tag=Rosa", "replaced", { id: "1", name: "Rosa" }],
    ["tag=Rosa", "replaced", { id: "9", name: "Rosa", tag: "Rosa" }],
    ["untagged=true", "replaced", { id: "2", name: "Abies", tag: "Rosa" }],
    ["q=ro", "replaced", { id: "1", name: "Abies" }],
  ]) {
    test(`${change} ${JSON.stringify(plant)} in the list "${query}"`, async () => {
      update({ query: new URLSearchParams(query), shownQuery: new URLSearchParams(query) });
      update({ selected: new Map([["1", ROSA]]) });

      for (let times = 0; times < 5; times += 1) show([{ change, plant }]);
      assert.deepEqual(state.listing.plants, [ROSA, ABIES]);
      mock.timers.tick(1000);
      await settle();
      mock.timers.tick(1000);
      await settle();

      const path = query ? `plants?${query}&limit=50` : "plants?limit=50";
      assert.deepEqual(
        requests.map((request) => request.path),
        [path],
      );
      assert.deepEqual(state.listing.plants, [ABIES]);
      assert.deepEqual([...state.selected.values()], [ROSA]);
    });
  }
});

describe("what changes nothing on the page loads nothing", () => {
  for (const [query, change, plant] of [
    ["", "replaced", ROSA],
    ["q=ro", "created", ROSA],
    ["", "replaced", { id: "9", name: "Acer" }],
  ]) {
    test(`${change} ${JSON.stringify(plant)} in the list "${query}"`, async () => {
      const { listing } = state;
      update({ shownQuery: new URLSearchParams(query) });

      show([{ change, plant }]);
      mock.timers.tick(1000);

      assert.equal(state.listing, listing);
      assert.equal(requests.length, 0);
    });
  }
});

test("a page that was asked for after the change is not loaded once more", async () => {
  show([{ change: "deleted", plant: { id: "1" } }]);

  await load();
  mock.timers.tick(1000);
  await settle();

  assert.equal(requests.length, 1);
});

test("a page that was asked for before the change is loaded once more", async () => {
  const loaded = load();
  show([{ change: "replaced", plant: { ...ROSA, name: "New" } }]);
  await loaded;

  mock.timers.tick(1000);
  await settle();

  assert.equal(requests.length, 2);
});

test("a refused request for the page leaves the list, and is repeated after too many", async () => {
  const answers = [respond({ message: "Too many" }, 429), respond({ message: "No" }, 403)];
  globalThis.fetch = async () => {
    requests.push({});
    return answers.shift();
  };
  show([{ change: "deleted", plant: { id: "1" } }]);

  await sent(2);
  await settle();

  assert.deepEqual(state.listing.plants, [ROSA, ABIES]);
  assert.equal(state.problem, null);
});

describe("a stream that ended continues after its last event", () => {
  const complete = () => respond(BEGIN + event("replaced", { ...ROSA, name: "New" }), 200, STREAM);
  const broken = () => {
    const pieces = [BEGIN, event("replaced", { ...ROSA, name: "New" }), "id: 9\n"];
    const body = new ReadableStream({
      pull(controller) {
        const piece = pieces.shift();
        if (piece) controller.enqueue(new TextEncoder().encode(piece));
        else controller.error(new TypeError("network error"));
      },
    });
    return new Response(body, { headers: STREAM });
  };

  for (const [how, first, outages] of [
    ["at a restart", complete, ["The service does not respond"]],
    ["by an error", broken, ["The response broke off", "The service does not respond"]],
  ]) {
    test(how, async () => {
      const found = [];
      client.onoutage = ({ message }) => found.push(message);
      streams = [first(), new TypeError("Failed to fetch"), complete()];

      follow();
      while (requests.filter(({ path }) => path.startsWith("changes")).length < 3) {
        await settle();
        mock.timers.tick(1000);
      }

      const asked = requests.filter(({ path }) => path.startsWith("changes"));
      assert.deepEqual([...new Set(asked.map(({ path }) => path))], ["changes?after=now"]);
      assert.deepEqual(
        asked.map(({ lastId }) => lastId),
        [null, "8", "8"],
      );
      assert.deepEqual(found, outages);
    });
  }
});

test("a stream that begins now loads the page, and so does one after changes are gone", async () => {
  const gone = respond({ error: 4002, message: "Not all changes after 7 are kept" }, 410);
  streams = [respond(BEGIN, 200, STREAM), gone, respond(BEGIN, 200, STREAM)];

  follow();
  await sent(6);

  const asked = requests.map(({ path, lastId }) => `${path.split("?")[0]} ${lastId ?? ""}`.trim());
  assert.deepEqual(asked.slice(0, 6).sort(), [
    "changes",
    "changes",
    "changes 7",
    "changes 7",
    "plants",
    "plants",
  ]);
});

describe("a page whose feed is refused asks once", () => {
  for (const [status, refusals] of [
    [400, 0],
    [401, 1],
    [403, 0],
    [404, 0],
  ]) {
    test(`${status}`, async () => {
      let many = 0;
      client.onrefusal = () => (many += 1);
      streams = [respond({ error: 4001, message: "It keeps no changes" }, status)];

      await follow();

      assert.deepEqual([requests.length, many], [1, refusals]);
      assert.equal(state.problem, null);
    });
  }
});

test("a token without the scope does not ask, and a page of a proxy is no stream", async () => {
  update({ scopes: ["plants:read"] });
  await follow();
  assert.equal(requests.length, 0);

  update({ scopes: ["changes:read"] });
  streams = [respond("<h1>Sign in</h1>", 200, { "Content-Type": "text/html" })];
  await follow();

  assert.equal(requests.length, 1);
});

test("a hidden tab has no stream, and begins a new one when it is seen again", async () => {
  const asked = new Promise((resolve) => (arrived = resolve));
  let signal;
  const { fetch } = globalThis;
  globalThis.fetch = (path, options) => {
    signal ??= options.signal;
    return fetch(path, options);
  };
  follow();
  await asked;

  document.hidden = true;
  document.dispatchEvent(new Event("visibilitychange"));
  await settle();
  assert.ok(signal.aborted);
  assert.equal(requests.length, 1);
  document.hidden = false;
  document.dispatchEvent(new Event("visibilitychange"));
  await settle();

  assert.deepEqual(requests[1], { path: "changes?after=now", lastId: null });
});

test("a silent stream is given up, and is no outage", async () => {
  let outages = 0;
  client.onoutage = () => (outages += 1);
  const body = new ReadableStream({
    start: (controller) => controller.enqueue(new TextEncoder().encode(BEGIN)),
  });
  globalThis.fetch = async (path, { headers, signal }) => {
    if (!path.startsWith("changes")) return respondPlants([ABIES]);
    requests.push({ lastId: headers.get("Last-Event-ID") });
    if (requests.length > 1) return await new Promise(() => {});
    const through = new TransformStream();
    body.pipeTo(through.writable, { signal }).catch(() => {});
    return new Response(through.readable, { headers: STREAM });
  };

  follow();
  await sent(2);

  assert.deepEqual(requests, [{ lastId: null }, { lastId: "7" }]);
  assert.equal(outages, 0);
});

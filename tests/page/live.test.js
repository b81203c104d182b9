/** What others change: the stream of events, and what it does to the list. */

import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, mock, test } from "node:test";
import { client } from "../../src/plantstore/web/page/client.js";
import { load, refreshSoon } from "../../src/plantstore/web/page/listing.js";
import { follow, unfollow } from "../../src/plantstore/web/page/live.js";
import { state, update } from "../../src/plantstore/web/page/state.js";
import { respond, respondPlants } from "./tab.js";

const ROSA = { id: "1", name: "Rosa", tag: "Rosa" };
const ABIES = { id: "2", name: "Abies" };
const BEGIN = 'retry: 1000\nid: 7\nevent: position\ndata: {"number":7}\n\n:\n';
const STREAM = { "Content-Type": "text/event-stream; charset=utf-8" };

/** The answers to requests for the stream, and all requests. */
let streams = [];
let begun = 0;
let requests = [];
let arrived = () => {};

beforeEach(() => {
  mock.timers.enable({ apis: ["setTimeout"] });
  streams = [];
  begun = 0;
  requests = [];
  globalThis.fetch = async (path, { signal }) => {
    requests.push({ path });
    arrived();
    if (!path.startsWith("changes")) return respondPlants([ABIES]);
    const given = streams[begun] ?? flow();
    begun += 1;
    if (given instanceof Error) throw given;
    if (given instanceof Response) return given;
    signal.addEventListener("abort", () => given.error(signal.reason));
    return new Response(given.body, { headers: STREAM });
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

/** Return a stream that begins with texts, and goes on. */
function flow(...texts) {
  let controller;
  const body = new ReadableStream({
    start: (given) => {
      controller = given;
    },
  });
  const enqueue = (text) => controller.enqueue(new TextEncoder().encode(text));
  for (const text of texts) enqueue(text);
  const [close, error] = [() => controller.close(), (reason) => controller.error(reason)];
  return { body, enqueue, close, error };
}

/** @param {string} change @param {object} plant */
function event(change, plant, number = 8) {
  const data = JSON.stringify({ number, change, plant }).replace(/"id":"(-?\d+)"/, '"id":$1');
  return `id: ${number}\nevent: ${change}\ndata: ${data}\n\n`;
}

test("events load the page again, once in a while, and a comment does not", async () => {
  update({ query: new URLSearchParams("q=ro"), selected: new Map([["1", ROSA]]) });
  const pieces = [BEGIN, event("created", ROSA), event("deleted", { id: "1" }), ":\n"];
  streams = [flow(...pieces)];

  follow();
  await settle();
  assert.deepEqual(state.listing.plants, [ROSA, ABIES]);
  mock.timers.tick(1000);
  await settle();

  const paths = requests.map(({ path }) => path);
  assert.deepEqual(paths, ["changes?after=now", "plants?q=ro&limit=50"]);
  assert.deepEqual(state.listing.plants, [ABIES]);
  assert.deepEqual([...state.selected.values()], [ROSA], "what the user saw");
  streams[0].enqueue(":\n");
  await settle();
  mock.timers.tick(1000);
  await settle();
  assert.equal(requests.length, 2);
  streams[0].enqueue(`:\n${event("replaced", ABIES)}`);
  await settle();
  mock.timers.tick(1000);
  await settle();
  assert.equal(requests.length, 3);
});

test("a page that was asked for after the change is not loaded once more", async () => {
  refreshSoon();

  await load();
  mock.timers.tick(1000);
  await settle();

  assert.equal(requests.length, 1);
});

test("a page that was asked for before the change is loaded once more", async () => {
  const loaded = load();
  refreshSoon();
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
  refreshSoon();

  await sent(2);
  await settle();

  assert.deepEqual(state.listing.plants, [ROSA, ABIES]);
  assert.equal(state.problem, null);
});

describe("a stream that ended is followed by another one, and the page is loaded again", () => {
  for (const [how, end, outages] of [
    ["at a restart", (stream) => stream.close(), ["The service does not respond"]],
    [
      "by an error",
      (stream) => stream.error(new TypeError("network error")),
      ["The response broke off", "The service does not respond"],
    ],
  ]) {
    test(how, async () => {
      const found = [];
      client.onoutage = ({ message }) => found.push(message);
      const first = flow(BEGIN);
      streams = [first, new TypeError("Failed to fetch"), flow(BEGIN)];

      follow();
      await settle();
      end(first);
      while (requests.length < 5) {
        await settle();
        mock.timers.tick(1000);
      }

      const paths = requests.map(({ path }) => path.split("?")[0]).sort();
      assert.deepEqual(paths, ["changes", "changes", "changes", "plants", "plants"]);
      assert.deepEqual(found, outages);
    });
  }
});

describe("a page whose feed is refused asks once, and knows if the service keeps no changes", () => {
  for (const [status, refusals] of [
    [400, 0],
    [401, 1],
    [403, 0],
    [404, 0],
  ]) {
    test(`${status}`, async () => {
      let many = 0;
      client.onrefusal = () => (many += 1);
      update({ keepsChanges: true });
      const error = status === 404 ? 4001 : 2000;
      streams = [respond({ error, message: "It keeps no changes" }, status)];

      await follow();

      assert.deepEqual([requests.length, many], [1, refusals]);
      assert.equal(state.keepsChanges, status !== 404);
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

  assert.deepEqual(requests[1], { path: "changes?after=now" });
});

test("a silent stream is given up, and is no outage", async () => {
  let outages = 0;
  client.onoutage = () => (outages += 1);
  streams = [flow(BEGIN)];

  follow();
  await sent(3);

  const paths = requests.map(({ path }) => path.split("?")[0]);
  assert.deepEqual(paths, ["changes", "plants", "changes"]);
  assert.equal(outages, 0);
});

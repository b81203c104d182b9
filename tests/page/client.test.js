/** The operations of the service, as the page requests them. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { client, computeTag, tokenIn } from "../../src/plantstore/web/page/client.js";
import { answer, answerFile, respond, withResponse } from "./tab.js";

const BIG = "9223372036854775807";

test("the entity tag of a plant is the one that the service sends", async () => {
  const tags = [{ name: "Abies balsamea (L.) Mill.", tag: "Abies" }, { name: "Rosa ×" }];

  assert.deepEqual(await Promise.all(tags.map(computeTag)), [
    '"b2461dfcef3d1a2bd32fbfccadc400b4"',
    '"f441cb27aff9a002374a5f32a6e968c6"',
  ]);
});

const neverStops = () => new AbortController().signal;

test("a token is sent only if there is one, even an empty one", async () => {
  const requests = answer();

  for (const token of [null, "", "plst_a"]) {
    client.token = token;
    await client.list(new URLSearchParams(), 50, neverStops());
  }

  client.token = null;
  const sent = requests.map(({ headers }) => headers.get("Authorization"));
  assert.deepEqual(sent, [null, "Bearer", "Bearer plst_a"]);
});

test("a page of plants has links without a limit, and an exact number", async () => {
  const link =
    '<plants?after=7&limit=50&tag=Rosa+%26+Co>; rel="next", <plants?limit=50>; rel="first"';
  const fields = { Link: link, "Total-Count": "120", "Preference-Applied": "count=exact" };
  const requests = answer(respond(`[{"id": ${BIG}, "name": "Rosa"}]`, 200, fields));
  const query = new URLSearchParams({ tag: "Rosa & Co" });

  const listing = await client.list(query, 50, neverStops());

  assert.equal(requests[0].path, "plants?tag=Rosa+%26+Co&limit=50");
  assert.deepEqual(listing.plants, [{ id: BIG, name: "Rosa" }]);
  assert.deepEqual(Object.fromEntries(listing.links), {
    next: "?after=7&tag=Rosa+%26+Co",
    first: "?",
  });
  assert.deepEqual([listing.total, listing.isExact], [120, true]);
});

test("without the preference, the number of plants is a lower bound", async () => {
  answer(respond([], 200, { "Total-Count": "10000" }));

  const { total, isExact } = await client.list(new URLSearchParams(), 50, neverStops());

  assert.deepEqual([total, isExact], [10_000, false]);
});

describe("the service gets an id as it was typed", () => {
  const sent = { [BIG]: BIG, "-1": "-1", 1.5: "1.5", "1e3": "1e3" };
  const texts = { seven: '"seven"', "": '""', "007": '"007"', "1,2": '"1,2"', '"': '"\\""' };

  for (const [typed, json] of Object.entries({ ...sent, ...texts })) {
    test(`${typed} is ${json}`, async () => {
      const requests = answer(respond("", 200));

      await client.create({ id: typed, name: 'Rosa "x"', tag: undefined });

      assert.equal(requests[0].body, `{"id":${json},"name":"Rosa \\"x\\""}`);
    });
  }
});

test("a plant is replaced or deleted only if it is the one that was seen", async () => {
  const requests = answer(respond("", 200), respond("", 204));

  await client.replace({ id: BIG, name: "Rosa", tag: "" }, '"seen"');
  await client.delete(BIG, '"seen"');

  const sent = requests.map(({ method, path, headers }) => [method, path, headers.get("If-Match")]);
  assert.deepEqual(sent, [
    ["PUT", `plants/${BIG}`, '"seen"'],
    ["DELETE", `plants/${BIG}`, '"seen"'],
  ]);
  assert.equal(requests[0].body, '{"name":"Rosa","tag":""}');
});

test("a token that the service refuses is reported, and is sent with each request", async () => {
  const refusals = [];
  client.token = "plst_secret";
  client.onrefusal = ({ message }) => refusals.push(message);
  const requests = answer(respond({ message: "The token is revoked" }, 401));

  await assert.rejects(client.readScopes(), { status: 401 });

  assert.deepEqual(refusals, ["The token is revoked"]);
  assert.equal(requests[0].headers.get("Authorization"), "Bearer plst_secret");
});

test("an import replaces plants only if this is chosen", async () => {
  const paths = [];
  const file = new Blob(["id,name\n"]);
  answerFile((request) => {
    paths.push(request.path);
    withResponse({ errors: [] })(request);
  });

  await client.import(file, false, neverStops(), () => {});
  await client.import(file, true, neverStops(), () => {});

  assert.deepEqual(paths, ["plants.csv", "plants.csv?on-conflict=replace"]);
});

test("a token may be pasted with its scheme, its field and quotes", () => {
  const token = `plst_${"a".repeat(36)}`;
  for (const text of [
    token,
    ` ${token}\n`,
    `"${token}"`,
    `Bearer ${token}`,
    `bearer  '${token}'`,
    `'Authorization: Bearer ${token}'`,
    `\`authorization:Bearer ${token}\``,
  ])
    assert.equal(tokenIn(text), token);
  for (const text of ["", " "]) assert.equal(tokenIn(text), "");
});

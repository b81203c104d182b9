/** The operations of the service, as the page requests them. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { client, tokenIn } from "../../src/plantstore/web/page/client.js";
import { answer, answerFile, respond, withResponse } from "./tab.js";

const BIG = "9223372036854775807";

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

test("changes are lines with the plants before and after, and ids are sent and read exactly", async () => {
  let sent;
  const plant = { id: BIG, name: "Rosa" };
  const refusal = `{"line": 1, "error": 3011, "message": "", "plant": {"id": ${BIG}, "name": "A"}}`;
  answerFile(async (request) => {
    sent = [request.path, request.headers, await request.body.text()];
    withResponse(`{"errors": [${refusal}]}`, 200, "", { "Change-Set": "s" })(request);
  });

  const { result, isRecorded } = await client.change(
    [
      { before: plant, after: { ...plant, tag: "" } },
      { before: plant, after: null },
      { before: null, after: plant },
    ],
    { set: "s" },
  );

  const headers = { "content-type": "application/x-ndjson", "change-set": "s" };
  const lines = [
    `{"id":${BIG},"before":{"name":"Rosa"},"after":{"name":"Rosa","tag":""}}`,
    `{"id":${BIG},"before":{"name":"Rosa"},"after":null}`,
    `{"id":${BIG},"before":null,"after":{"name":"Rosa"}}`,
  ];
  assert.deepEqual(sent, ["changes", headers, `${lines.join("\n")}\n`]);
  assert.deepEqual([result.errors[0].plant.id, isRecorded], [BIG, true]);
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

test("a change that nothing can stop ends if no response arrives", async () => {
  const { timeout } = AbortSignal;
  const seconds = [];
  AbortSignal.timeout = (milliseconds) => {
    seconds.push(milliseconds / 1000);
    return timeout.call(AbortSignal, 0);
  };
  answerFile(() => {});

  const changed = client.change([{ before: null, after: { id: "1", name: "Rosa" } }], { set: "s" });

  await assert.rejects(changed, { message: "The service does not respond" });
  AbortSignal.timeout = timeout;
  assert.deepEqual(seconds, [60]);
});

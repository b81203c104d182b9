/** Requests, and what becomes of responses. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ApiError, send } from "../../src/plantstore/web/page/requests.js";
import { answer, respond } from "./tab.js";

const BIG = "9223372036854775807";

const neverStops = () => new AbortController().signal;

test("ids are text, without rounding, and other numbers are numbers", async () => {
  answer(respond(`[{"id": ${BIG}, "total": 7}, {"first": -${BIG}}]`));

  const { value } = await send("plants", { signal: neverStops() }, Array.isArray);

  assert.deepEqual(value, [{ id: BIG, total: 7 }, { first: `-${BIG}` }]);
});

describe("a response of another server is reported as such", () => {
  for (const status of [200, 413, 502]) {
    for (const body of ["<h1>Sign in</h1>", '{"detail": "Bad gateway"}', "null", ""]) {
      const message = `The response is not from the Plant Store: ${status}`;

      test(`${status} with the body ${body}`, async () => {
        answer(respond(body, status));
        const read = send("plants", { signal: neverStops() }, () => false);

        await assert.rejects(read, { name: "Error", message, status });
      });
    }
  }
});

test("an error of the service has its message, and names the member that it is about", async () => {
  const message = "`id` is taken: another plant is stored under the id 1";
  answer(respond({ error: 1004, message }, 409));

  const error = await send("plants", { signal: neverStops() }).catch((each) => each);

  assert.deepEqual([error.message, error.status, error.error], [message, 409, 1004]);
  assert.equal(error.member, "id");
  assert.equal(new ApiError("`name` must be text").member, "name");
  assert.equal(new ApiError("The plant `id` is unknown").member, "");
});

test("no response, and a response that breaks off, have status 0", async () => {
  const broken = respond("half");
  broken.text = () => Promise.reject(new TypeError("terminated"));
  answer(new TypeError("Failed to fetch"), broken);
  const request = () => send("plants", { signal: neverStops() }, Array.isArray);

  const absent = { message: "The service does not respond", status: 0 };
  await assert.rejects(request, absent);
  await assert.rejects(request, { message: "The response broke off", status: 0 });
});

test("a request that takes too long is one without a response", async () => {
  const timeout = new AbortController();
  answer(new Promise(() => {}));
  const request = send("plants", { signal: timeout.signal });

  timeout.abort(new DOMException("", "TimeoutError"));

  await assert.rejects(request, { message: "The service does not respond" });
});

test("a request that the page gives up is not an error of the service", async () => {
  const stop = new AbortController();
  answer(new Promise(() => {}));
  const request = send("plants", { signal: stop.signal });

  stop.abort();

  await assert.rejects(request, { name: "AbortError" });
});

/** The OpenAPI document, as JavaScript reads it. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const DOCUMENT = new URL("../../src/plantstore/web/openapi.json", import.meta.url);

test("the pattern of texts works in JavaScript", () => {
  const document = readFileSync(DOCUMENT, "utf8");
  const patterns = new Set([...document.matchAll(/"pattern": "(.*?)"/g)].map(([, text]) => text));

  const compiled = [...patterns].map((text) => new RegExp(JSON.parse(`"${text}"`), "u"));
  const [pattern] = compiled.filter((each) => each.source.includes("x00"));

  assert.match("line\nbreak ×", pattern);
  assert.doesNotMatch("a\0b", pattern);
});

/** The export: which plants it has, the name of the file, and what goes wrong. */

import assert from "node:assert/strict";
import { resolveObjectURL } from "node:buffer";
import { describe, test } from "node:test";
import { exportPlants } from "../../src/plantstore/web/page/exporting.js";
import { state, update } from "../../src/plantstore/web/page/state.js";
import { answer, respond } from "./tab.js";

const ALL = new URLSearchParams();

describe("the file is named by what was searched", () => {
  const names = [
    [{}, "plants.csv"],
    [{ tag: "Abies", after: "7", sort: "-id" }, "plants Abies.csv"],
    [{ tag: "Rosa & Co" }, "plants Rosa & Co.csv"],
    [{ tag: "T".repeat(100) }, `plants ${"T".repeat(50)}.csv`],
    [{ q: "alb ro" }, "plants alb ro.csv"],
  ];

  for (const [query, name] of names) {
    test(name, async () => {
      answer(respond("id,name,tag\r\n"));
      update({ query: new URLSearchParams(query) });

      await exportPlants("csv");

      assert.equal(state.toast.text, `Exported: ${name}`);
    });
  }
});

test("the plants of the search are exported, of all its pages, in their order", async () => {
  const requests = answer(respond("id,name,tag\r\n"));
  update({ query: new URLSearchParams("q=alb+ro&after=7&sort=name&from=b") });

  await exportPlants("csv");

  assert.equal(requests[0].path, "plants.csv?q=alb+ro&sort=name");
});

test("the file begins with a byte order mark, and has the plant that was found by its id", async () => {
  answer(respond("id,name,tag\r\n"));
  const byId = { id: "7", name: 'Rosa "x"' };
  update({ query: new URLSearchParams("q=7"), listing: { byId } });

  await exportPlants("csv");

  const bytes = await resolveObjectURL(document.createElement("a").href).bytes();
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  assert.equal(text, '\ufeffid,name,tag\r\n7,"Rosa ""x""",""\r\n');
  update({ listing: null });
});

describe("only the plants are exported that are selected", () => {
  const exportSelected = async (plant) => {
    update({ query: ALL });
    const requests = answer();
    await exportPlants("csv", [plant]);
    assert.equal(requests.length, 0);
  };

  test("as they were shown", async () => {
    await exportSelected({ id: "7", name: "Rosa, ×", tag: "Rosa" });

    const text = await resolveObjectURL(document.createElement("a").href).text();
    assert.equal(text, 'id,name,tag\r\n7,"Rosa, ×","Rosa"\r\n');
    assert.equal(state.toast.text, "Exported: plants selected.csv");
  });

  test("and none whose empty tag CSV cannot hold", async () => {
    const message = /^Error: CSV cannot hold the plant 7: its tag is empty/;

    await assert.rejects(exportSelected({ id: "7", name: "Rosa", tag: "" }), message);
  });
});

test("an export that fails says why, and can be repeated", async () => {
  answer(new TypeError("Failed to fetch"), respond("id,name,tag\r\n"));
  update({ query: ALL });

  await assert.rejects(exportPlants("csv"), { message: "The service does not respond" });
  await exportPlants("csv");

  assert.equal(state.toast.text, "Exported: plants.csv");
});

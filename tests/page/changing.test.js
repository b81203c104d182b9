/** Adding, changing and deleting plants: no change is lost or made without a question. */

import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { Catalogue } from "../../src/plantstore/web/page/catalogue.js";
import { client } from "../../src/plantstore/web/page/client.js";
import { addPlants, openLinkedPlant } from "../../src/plantstore/web/page/plant.js";
import { ApiError } from "../../src/plantstore/web/page/requests.js";
import { Statistics } from "../../src/plantstore/web/page/service.js";
import { deletePlants, tagPlants } from "../../src/plantstore/web/page/several.js";
import { onUpdate, state, update } from "../../src/plantstore/web/page/state.js";
import { answer, respond, respondPlants, textOf } from "./tab.js";

const ABIES = { id: "1", name: "Abies", tag: "Pine" };
const ROSA = { id: "2", name: "Rosa" };
const SEEN = { ETag: '"seen"' };
const THEIRS = { ETag: '"theirs"' };

const refused = (status, message = "It is refused") => respond({ message }, status);
const sent = (requests) => requests.map(({ method, path }) => `${method} ${path}`);

beforeEach(() => {
  update({ dialog: null, question: null, toast: { text: "" }, scopes: null, spareId: "" });
});

/** Answer the questions of the page, in turn; return the questions. */
function answerQuestions(...answers) {
  const asked = [];
  onUpdate(() => {
    const { question } = state;
    if (!question || asked.includes(question)) return;
    asked.push(question);
    question.answer(answers.shift());
  });
  return asked;
}

/** Open a plant as it is stored. */
async function open(plant) {
  answer(respondPlants(plant, SEEN));
  location.hash = `#/plants/${plant.id}`;
  await openLinkedPlant();
  return state.dialog;
}

test("a field that is not edited keeps a value that an input cannot hold", async () => {
  const { act } = await open({ id: "7", name: "two\nlines", tag: "" });
  const requests = answer(respond(""), respond(""));

  await act({ tag: "Picea" });
  await act({ name: "Named" });

  const bodies = requests.map(({ body }) => JSON.parse(body));
  assert.deepEqual(bodies, [
    { name: "two\nlines", tag: "Picea" },
    { name: "Named", tag: "" },
  ]);
  assert.equal(state.toast.text, "Changed: 7");
});

test("a tag that is emptied is removed", async () => {
  const { act } = await open(ABIES);
  const requests = answer(respond(""));

  await act({ tag: "" });

  assert.equal(requests[0].body, '{"name":"Abies"}');
});

describe("a change by somebody else is not overwritten without a question", () => {
  const theirs = { ...ABIES, name: "Theirs", tag: undefined };
  const versions = [
    ["Name", "Theirs", "Mine"],
    ["Tag", undefined, "Pine"],
  ];

  test("mine is saved, also after another change meanwhile", async () => {
    const { act } = await open(ABIES);
    const again = [refused(412), respondPlants(theirs, THEIRS)];
    const requests = answer(...again, refused(412), respondPlants(theirs, THEIRS), respond(""));
    const asked = answerQuestions("yes", "yes");

    await act({ name: "Mine" });

    assert.deepEqual(asked[0].versions, versions);
    const puts = requests.filter(({ method }) => method === "PUT");
    const seen = puts.map(({ headers }) => headers.get("If-Match"));
    assert.deepEqual(seen, ['"seen"', '"theirs"', '"theirs"']);
    assert.equal(state.toast.text, "Changed: 1");
  });

  for (const [given, isOpen] of [
    ["no", false],
    ["", true],
  ]) {
    test(`theirs is kept after "${given}"`, async () => {
      const { act } = await open(ABIES);
      const requests = answer(refused(412), respondPlants(theirs, THEIRS));
      answerQuestions(given);

      const said = await act({ name: "Mine" });

      assert.equal(said === "", isOpen);
      assert.deepEqual(sent(requests), ["PUT plants/1", "GET plants/1"]);
      assert.equal(state.toast.text, "");
    });
  }

  test("a plant that they deleted is stored again", async () => {
    const { act } = await open(ABIES);
    const requests = answer(refused(412), refused(404), respond(""));
    const asked = answerQuestions("yes");

    await act({ name: "Mine" });

    assert.equal(asked[0].title, "Somebody else has deleted plant 1");
    assert.equal(requests[2].body, '{"id":1,"name":"Mine","tag":"Pine"}');
  });
});

test("a plant without a name is stored only after a question", async () => {
  const requests = answer(respond({ first: 5 }), respond(""));
  answerQuestions("no", "yes");
  addPlants();
  const { act } = state.dialog;

  const kept = await act({ id: "5" }, { value: "store" });
  const stored = await act({ id: "5" }, { value: "store" });

  assert.deepEqual([kept, stored], ["", undefined]);
  assert.deepEqual(sent(requests), ["POST ids", "POST plants"]);
});

test("a free id of the service is offered until it is used", async () => {
  const requests = answer(respond({ first: 5 }), respond(""), respond({ first: 6 }));
  const another = { value: "another", form: { reset: () => {} } };
  addPlants();
  await offered("5");
  addPlants();

  const said = await state.dialog.act({ name: "Ulmus" }, another);
  await offered("6");

  assert.equal(said, "Stored: 5");
  assert.equal(requests[1].body, '{"id":5,"name":"Ulmus"}');
  assert.deepEqual(sent(requests), ["POST ids", "POST plants", "POST ids"]);
});

/** Wait until the service has given this id. */
function offered(id) {
  return new Promise((resolve) => {
    onUpdate(() => state.spareId === id && resolve());
  });
}

test("a deletion is confirmed, conditional, and can be undone", async () => {
  const requests = answer(
    respondPlants(ABIES, SEEN),
    respondPlants(ROSA, SEEN),
    respond("", 204),
    respond("", 204),
  );
  deletePlants([ABIES, ROSA]);
  assert.equal(state.dialog.title, "Delete 2 plants?");

  await state.dialog.act({});
  const { text, undo } = state.toast;
  const again = answer(refused(503, "It is stopping"), respond(""), respond(""), respond(""));
  await undo();
  const failed = state.toast;
  await failed.undo();

  assert.equal(text, "Deleted: 2 plants");
  const deletions = requests.filter(({ method }) => method === "DELETE");
  assert.deepEqual(
    deletions.map(({ headers }) => headers.get("If-Match")),
    ['"seen"', '"seen"'],
  );
  assert.equal(again[0].body, '{"id":1,"name":"Abies","tag":"Pine"}');
  assert.equal(failed.text, "It is stopping");
  assert.equal(state.toast.text, "Stored again: 2 plants");
});

test("a plant that somebody else has changed is shown again before it is deleted", async () => {
  const changed = { ...ABIES, name: "Rare" };
  const last = { ...ABIES, name: "At the last moment" };
  const requests = answer(
    respondPlants(changed, SEEN),
    respondPlants(changed, SEEN),
    refused(412),
    respondPlants(last, THEIRS),
  );
  const message = "Somebody else has changed what you want to delete. Look again";
  deletePlants([ABIES]);
  const { act } = state.dialog;

  await assert.rejects(act({}), { message });
  const shown = state.dialog.content;
  await assert.rejects(act({}), { message });

  assert.deepEqual(shown, { plants: [changed] });
  assert.deepEqual(state.dialog.content, { plants: [last] });
  const reads = ["GET plants/1", "GET plants/1", "DELETE plants/1", "GET plants/1"];
  assert.deepEqual(sent(requests), reads);
});

test("without the scope to create plants a deletion cannot be undone", async () => {
  answer(respondPlants(ROSA, SEEN), respond("", 204));
  update({ scopes: ["plants:read", "plants:delete"] });
  deletePlants([ROSA]);

  await state.dialog.act({});

  assert.deepEqual(state.toast, { text: "Deleted: 2", undo: undefined });
});

test("the tag of several plants is set, also if one of them fails", async () => {
  const requests = answer(refused(404, "No plant is stored under the id 1"), respond(""));
  tagPlants([ABIES, ROSA]);

  const request = state.dialog.act({ tag: "Tree" });

  await assert.rejects(request, ApiError);
  assert.deepEqual(sent(requests), ["PATCH plants/1", "PATCH plants/2"]);
  assert.equal(requests[1].body, '{"tag":"Tree"}');
});

describe("what the scopes of the token do not permit is not offered", () => {
  const listing = { plants: [ROSA], links: new Map(), total: 1, isExact: true };
  const offers = [
    [["plants:create"], ["Add a plant", "Import CSV"]],
    [
      ["plants:create", "plants:update"],
      ["Add a plant", "Import CSV", "Update plants that exist"],
    ],
    [["plants:read"], ["Export as CSV"]],
    [
      ["plants:read", "plants:update"],
      ["Export as CSV", "Set tag"],
    ],
    [
      ["plants:read", "plants:delete"],
      ["Export as CSV", "Delete"],
    ],
    [["metrics:read"], ["Statistics"]],
  ];
  const all = [...new Set(offers.flatMap(([, offered]) => offered))].sort();

  for (const [scopes, offered] of offers) {
    test(scopes.join(" and "), () => {
      update({ scopes, listing, selected: new Set([ROSA.id]) });

      const text = textOf(Catalogue());

      assert.deepEqual(
        all.filter((each) => text.includes(each)),
        offered.sort(),
      );
    });
  }
});

test("a list that could not be loaded is not shown as empty", () => {
  update({ scopes: null, listing: null, problem: new ApiError("It failed") });
  const missing = textOf(Catalogue());
  update({ listing: { plants: [], links: new Map(), total: 0, isExact: true }, problem: null });
  const empty = textOf(Catalogue());

  assert.match(missing, /It failed/);
  assert.doesNotMatch(missing, /no plants/);
  assert.match(empty, /There are no plants yet/);
});

test("the statistics are the metrics that are not 0", async () => {
  const text = [
    "# HELP plantstore_changes_total Changes by outcome.",
    'plantstore_changes_total{outcome="stored"} 30000.0',
    'plantstore_changes_total{outcome="replaced"} 0.0',
    'plantstore_refused_total{reason="invalid_plant"} 1.0',
    'http_requests_total{method="GET"} 7.0',
    "plantstore_uptime_seconds 7.0",
  ].join("\n");
  answer(respond(text));

  await Statistics().props.ontoggle({ currentTarget: { open: true } });

  const counts = "Changes: stored 30,000 Refused: invalid plant 1";
  assert.equal(textOf(Statistics()), `Statistics ${counts}`);
});

test("the statistics say why they cannot be loaded", async () => {
  client.onrefusal = () => {};
  answer(new TypeError("Failed to fetch"));

  await Statistics().props.ontoggle({ currentTarget: { open: true } });

  assert.equal(state.statistics.problem, "The service does not respond");
});

// A program on the TypeScript client that openapi-typescript and openapi-fetch make:
// node plants.js URL TOKEN

import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const [, , baseUrl = "", token = ""] = process.argv;
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });
const stranger = createClient<paths>({ baseUrl, headers: { Authorization: "Bearer unknown" } });

// Beyond 2^53 an id is a text on the way in and out, or it would be rounded.
const BIG = 2n ** 53n + 1n;
const ids = (text: string | undefined) =>
  [...(text ?? "").matchAll(/"id":(-?\d+)/g)].map(([, id]) => id);

type Failure = { error?: components["schemas"]["Error"]; response: Response };
const refusal = ({ error, response }: Failure) => [response.status, error?.error];

const rosa = await client.POST("/plants", {
  body: { id: -7, name: "Rosa × damascena", tag: "Rosa" },
});
const abies = await client.POST("/plants", {
  body: { id: Number(BIG), name: "Abies" },
  bodySerializer: ({ name }) => `{"id": ${BIG}, "name": ${JSON.stringify(name)}}`,
  headers: { "Content-Type": "application/json" },
});
const big = await client.GET("/plants/{id}", {
  params: { path: { id: BIG as unknown as number } },
  parseAs: "text",
});
const everything = await client.GET("/plants", { parseAs: "text" });
const some = await client.GET("/plants", { params: { query: { limit: 1, after: -8, tag: "Rosa" } } });
const patched = {
  params: { path: { id: -7 } },
  // openapi-fetch sends application/json, whatever the document says.
  headers: { "Content-Type": "application/merge-patch+json" },
};
const renamed = await client.PATCH("/plants/{id}", { ...patched, body: { name: "Rosa alba" } });
const untagged = await client.PATCH("/plants/{id}", { ...patched, body: { tag: null } });
// openapi-fetch sends each body as JSON, unless it is told how to render it.
const imported = (type: string) => ({
  headers: { "Content-Type": type },
  bodySerializer: (body: string | undefined) => body ?? "",
});
const csv = {
  ...imported("text/csv"),
  body: "id,name,tag\n-7,Rosa canina,Rosa\n3,Betula nana,Alba\n",
};
const imports = [
  await client.POST("/plants.csv", csv),
  await client.POST("/plants.csv", { ...csv, params: { query: { "on-conflict": "replace" } } }),
  await client.POST("/plants.ndjson", {
    ...imported("application/x-ndjson"),
    params: { query: { "on-conflict": "skip" } },
    body: '{"id":3,"name":"Picea"}\n{"id":4,"name":"Rosa alba","tag":"Rosa"}\n',
  }),
];
const exports = [
  await client.GET("/plants.csv", { params: { query: { tag: "Rosa" } }, parseAs: "text" }),
  await client.GET("/plants.ndjson", {
    params: { query: { tag: "Rosa", q: "alb" } },
    parseAs: "text",
  }),
];
const taken = await client.POST("/plants", { body: { id: -7, name: "Abies" } });
const missing = await client.GET("/plants/{id}", { params: { path: { id: 2 } } });
const changed = await client.PATCH("/plants/{id}", {
  ...patched,
  params: { path: { id: -7 }, header: { "If-Match": '"old"' } },
  body: { name: "Abies" },
});
const unknown = await stranger.GET("/plants");
const later: components["schemas"]["Error"] = { error: 1999, message: "a" };

const plant = JSON.parse(big.data ?? "") as components["schemas"]["StoredPlant"];
console.log(
  JSON.stringify({
    created: [
      [rosa.data?.name, rosa.data?.tag ?? null],
      [abies.data?.name, abies.data?.tag ?? null],
    ],
    got: [ids(big.data)[0], plant.name, plant.tag ?? null],
    everything: ids(everything.data),
    some: some.data?.map(({ id }) => String(id)),
    patched: [
      [renamed.data?.name, renamed.data?.tag ?? null],
      [untagged.data?.name, untagged.data?.tag ?? null],
    ],
    imported: imports.map(({ data }) =>
      data ? [data.stored, data.replaced, data.skipped, data.refused] : [],
    ),
    exported: exports.map(({ data }) => data),
    refused: [taken, missing, changed, unknown].map(refusal),
    later: later.error,
  }),
);

// Bun's own server and its own SQLite, with nothing between them.

import { Database } from "bun:sqlite";

const [path, port, token] = process.argv.slice(2);

const database = new Database(path, { create: true, strict: true });
database.run("PRAGMA journal_mode = WAL");
database.run("PRAGMA synchronous = FULL");
database.run("CREATE TABLE IF NOT EXISTS plants (id INTEGER PRIMARY KEY, name TEXT NOT NULL, tag TEXT)");
const insert = database.query("INSERT INTO plants (id, name, tag) VALUES (?, ?, ?)");

const error = (status, message) => Response.json({ error: message }, { status });

async function createPlant(request) {
  if (request.headers.get("Authorization") !== `Bearer ${token}`) return error(401, "unauthorized");
  const plant = await request.json().catch(() => null);
  if (!Number.isSafeInteger(plant?.id)) return error(400, "id is no integer");
  if (typeof plant.name !== "string") return error(400, "name is no string");
  if (plant.tag !== undefined && typeof plant.tag !== "string") return error(400, "tag is no string");
  try {
    insert.run(plant.id, plant.name, plant.tag ?? null);
  } catch (failure) {
    if (failure.code?.startsWith("SQLITE_CONSTRAINT")) return error(409, "id is stored already");
    throw failure;
  }
  return Response.json({ name: plant.name, tag: plant.tag });
}

Bun.serve({ hostname: "127.0.0.1", port: Number(port), routes: { "/plants": { POST: createPlant } } });

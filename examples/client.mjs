// A client of the Plant Store for Node.js 18 and for browsers, to copy from:
//     node client.mjs http://HOST:PORT FILE.csv
// The variable PLANTSTORE_TOKEN has a token with the scopes plants:create and plants:read. The program
// imports the file, creates a plant, and prints all plants.

// Without Retry-After, the waits are about 0.5, 1, 2, 4, 8 and 16 seconds.
const TRIES = 7;
const RETRY_AFTER_SECONDS_MAX = 60;

/** Every method may be called again after any error: nothing is stored twice. */
export class PlantStore {
  constructor(url, token) {
    this.url = url;
    this.headers = { Authorization: `Bearer ${token}` };
  }

  /** Send a request. Wait and send it again if the service is busy or away for a moment. */
  async send(method, path, body, type) {
    const headers = type ? { ...this.headers, "Content-Type": type } : this.headers;
    for (let tried = 0; ; tried += 1) {
      const isLast = tried === TRIES - 1;
      let answer;
      try {
        answer = await fetch(this.url + path, { method, headers, body });
      } catch (error) {
        if (isLast) throw error;
      }
      if (answer && (![429, 503].includes(answer.status) || isLast)) {
        if (answer.ok) return answer;
        throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
      }
      const asked = Number(answer?.headers.get("Retry-After") ?? 0);
      const backoff = (0.25 + 0.5 * Math.random()) * 2 ** tried;
      const seconds = Math.min(asked, RETRY_AFTER_SECONDS_MAX) + backoff;
      await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
    }
  }

  /** Create a plant. JavaScript rounds ids beyond 2^53: see "Ids in JavaScript" in the page /docs. */
  async create(id, name, tag) {
    await this.send("POST", "/plants", JSON.stringify({ id, name, tag }), "application/json");
  }

  /** Yield all plants page by page; the query may have `q` and `tag`. */
  async *plants(query = {}) {
    for (let next = `plants?${new URLSearchParams(query)}`; next; ) {
      const answer = await this.send("GET", `/${next}`);
      yield* await answer.json();
      next = answer.headers.get("Link")?.match(/<([^>]*)>; rel="next"/)?.[1];
    }
  }

  /** Import a file; return the counts of its rows. */
  async importCsv(content) {
    return (await this.send("POST", "/plants.csv", content, "text/csv")).json();
  }
}

if (globalThis.process?.argv[1]?.endsWith("client.mjs")) {
  const { readFile } = await import("node:fs/promises");
  const [url, file] = process.argv.slice(2);
  if (!file || !process.env.PLANTSTORE_TOKEN) {
    console.error("PLANTSTORE_TOKEN=plst_... node client.mjs http://HOST:PORT FILE");
    process.exit(1);
  }
  const store = new PlantStore(url, process.env.PLANTSTORE_TOKEN);
  console.log(await store.importCsv(await readFile(file)));
  await store.create(1000001, "Abies balsamea (L.) Mill.", "Abies");
  for await (const plant of store.plants()) console.log(plant.id, plant.name, plant.tag ?? "");
}

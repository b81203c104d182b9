/**
 * The operations of the service.
 *
 * Ids are text here and on the whole page: JavaScript would round a number beyond 2^53, and
 * the page would change another plant than the one it shows.
 *
 * @typedef {{id: string, name: string, tag?: string}} Plant
 * @typedef {{plants: Plant[], links: Map<string, string>, total: number, isExact: boolean,
 *   byId?: Plant}} Listing a page, the queries of the pages beside it, the number of all plants or a
 *   lower bound, and the plant that was found by its id only
 * @typedef {{tags: {tag: string, plants: number}[], untagged: number, next?: string}} Tags with the
 *   numbers of their plants, the number of plants without a tag, and the query of the next page
 * @typedef {{line: number, error: number, message: string, last_line?: number}} RowError of a row
 *   with several lines, `line` is the first one
 * @typedef {{stored: number, already_stored: number, replaced: number, skipped: number,
 *   refused: number, kept?: number, errors: RowError[]}} ImportResult of which `errors` has only the
 *   first; the page counts the plants that it kept, since others changed them
 * @typedef {"refuse"|"replace"|"skip"} Conflict what becomes of rows whose id another plant has
 * @typedef {{before: ?Plant, after: ?Plant}} Change a plant as it was seen, and as it shall be; null
 *   if it does not exist
 * @typedef {{stored: number, already_stored: number, replaced: number, deleted: number, refused: number,
 *   errors: (RowError & {plant?: ?Plant})[]}} ChangesResult of which `errors` has only the first,
 *   and the plants that are stored, up to a size
 * @typedef {{restored: number, deleted: number, recreated: number, kept: number}} UndoCounts
 * @typedef {{signal?: AbortSignal, set?: string}} Sending the name of the change set
 * @typedef {{headers?: Record<string, string>, body?: Blob, signal?: AbortSignal,
 *   kind?: "text"|"blob"}} Options
 */

import { ApiError, hasStatus, parse, send } from "./requests.js";

/** A link of a listing (RFC 8288). */
const LINK = /<plants\?([^>]*)>; rel="(\w+)"/g;

/** Whether this browser gives access to the text of numbers in JSON, to read ids exactly. */
export const KEEPS_IDS = "rawJSON" in JSON;

/** The timeouts of reads, and of changes that nothing else can stop. */
const READ_SECONDS = 10;
const CHANGE_SECONDS = 60;

class Client {
  /** The bearer token; null if there is none, and plants are public. */
  token = /** @type {?string} */ (null);

  /** Called when the service refuses the token. @type {(error: ApiError) => void} */
  onrefusal = () => {};

  /** Called when the service cannot respond. @type {(error: ApiError) => void} */
  onoutage = () => {};

  /** @param {URLSearchParams} query @param {number} limit @param {AbortSignal} [signal] */
  async list(query, limit, signal) {
    const limited = new URLSearchParams([...query, ["limit", String(limit)]]);
    const options = { headers: { Prefer: "count=exact" }, signal };
    const { headers, value } = await this.#read(`plants?${limited}`, Array.isArray, options);
    const links = new Map();
    for (const [, text, relation] of (headers.get("Link") ?? "").matchAll(LINK)) {
      const page = new URLSearchParams(text);
      page.delete("limit");
      links.set(relation, `?${page}`);
    }
    const isExact = headers.get("Preference-Applied") === "count=exact";
    const total = Number(headers.get("Total-Count"));
    return /** @type {Listing} */ ({ plants: value, links, total, isExact });
  }

  /** @param {string} id @param {AbortSignal} [signal] */
  async read(id, signal) {
    const isPlant = (/** @type {any} */ value) => typeof value?.name === "string";
    const { value } = await this.#read(`plants/${id}`, isPlant, { signal });
    return /** @type {Plant} */ (value);
  }

  /** @param {Record<string, string>|string} query @param {AbortSignal} [signal] */
  async listTags(query, signal) {
    const path = `tags?${new URLSearchParams(query)}`;
    const { headers, value } = await this.#read(path, Array.isArray, { signal });
    const [, next] = /<tags\?([^>]*)>; rel="next"/.exec(headers.get("Link") ?? "") ?? [];
    const untagged = Number(headers.get("Untagged-Count"));
    return /** @type {Tags} */ ({ tags: value, untagged, next });
  }

  /** @returns {Promise<string[]>} the scopes of the token */
  async readScopes() {
    return (await this.#read("token", (value) => Array.isArray(value?.scopes))).value.scopes;
  }

  /**
   * @param {number} count at most 1000
   * @param {AbortSignal} [signal]
   * @returns {Promise<{first: string, last: string}>} ids that no plant has, and nobody else gets
   */
  async takeIds(count, signal) {
    const options = { signal: limit(signal) }; // nothing is lost
    const { answer, body } = await this.#send("POST", `ids?count=${count}`, options);
    return parse(answer, body, (value) => typeof value?.first === "string");
  }

  /**
   * Make changes, each if its plant still is as it was seen, in one request.
   *
   * @param {Change[]} changes @param {{isDry?: boolean} & Sending} options
   * @returns {Promise<{result: ChangesResult, isRecorded: boolean}>}
   */
  async change(changes, { isDry, ...options }) {
    const bare = (/** @type {?Plant} */ plant) => plant && { name: plant.name, tag: plant.tag };
    const lines = changes.map(({ before, after }) => {
      const members = JSON.stringify({ before: bare(before), after: bare(after) });
      return `{"id":${(before ?? after)?.id},${members.slice(1)}\n`;
    });
    const path = isDry ? "changes?dry-run" : "changes";
    return await this.#sendLines(path, "application/x-ndjson", new Blob(lines), options);
  }

  /**
   * Store the plants of a CSV file, in one request. It takes as long as it takes.
   *
   * @param {Blob} file
   * @param {{conflict?: Conflict, isDry?: boolean} & Sending} options what becomes of rows whose
   *   id another plant has, and whether nothing is stored; the answer says what would be
   * @returns {Promise<{result: ImportResult, isRecorded: boolean}>} what became of the rows, and
   *   whether the set can be undone
   */
  async import(file, { conflict = "refuse", isDry, ...options }) {
    const query = new URLSearchParams({ "on-conflict": conflict });
    if (isDry) query.set("dry-run", "true");
    return await this.#sendLines(`plants.csv?${query}`, "text/csv", file, options);
  }

  /**
   * Undo a change set, or count what an undo would do; then the set gets no more changes.
   *
   * @param {string} set @param {{isDry?: boolean, signal?: AbortSignal}} options
   * @returns {Promise<UndoCounts>}
   */
  async undo(set, { isDry, signal }) {
    const path = `undo?set=${set}${isDry ? "&dry-run" : ""}`;
    const { answer, body } = await this.#send("POST", path, { signal });
    return parse(answer, body, (value) => typeof value?.kept === "number");
  }

  /**
   * @param {URLSearchParams} query of the plants
   * @returns {Promise<Blob>} a CSV file
   */
  async export(query) {
    const { signal } = new AbortController(); // It takes as long as it takes.
    const path = query.size === 0 ? "plants.csv" : `plants.csv?${query}`;
    return (await this.#send("GET", path, { signal, kind: "blob" })).body;
  }

  /** Throw ApiError if the service is not ready. */
  async probe() {
    await send("readyz", { signal: AbortSignal.timeout(READ_SECONDS * 1000) });
  }

  /** @param {string} path @param {(value: any) => boolean} isExpected @param {Options} [options] */
  async #read(path, isExpected, options) {
    const signal = limit(options?.signal);
    const { answer, body } = await this.#send("GET", path, { ...options, signal });
    return { headers: answer.headers, value: parse(answer, body, isExpected) };
  }

  /** @param {string} method @param {string} path @param {Options} options */
  async #send(method, path, { headers, body, kind, ...options }) {
    const all = new Headers({ ...this.#authorization, ...headers });
    const signal = options.signal ?? AbortSignal.timeout(CHANGE_SECONDS * 1000);
    try {
      return await send(path, { method, headers: all, body, signal }, kind);
    } catch (error) {
      if (error instanceof ApiError && hasStatus(error, 401)) this.onrefusal(error);
      if (error instanceof ApiError && error.isOutage) this.onoutage(error);
      throw error;
    }
  }

  /** @param {string} path @param {string} kind @param {Blob} lines @param {Sending} options */
  async #sendLines(path, kind, lines, { signal, set }) {
    const headers = { "Content-Type": kind, ...(set && { "Change-Set": set }) };
    const { answer, body } = await this.#send("POST", path, { headers, body: lines, signal });
    const result = parse(answer, body, (value) => Array.isArray(value?.errors));
    return { result, isRecorded: answer.headers.has("Change-Set") };
  }

  /** @returns {Record<string, string>} */
  get #authorization() {
    return this.token === null ? {} : { Authorization: `Bearer ${this.token}` };
  }
}

/** The client of this page. */
export const client = new Client();

/**
 * Return the token in a text that was pasted: a token may be copied from a header field or a script.
 *
 * @param {string} text
 */
export function tokenIn(text) {
  const bare = text.replace(/["'`]/g, "").trim();
  return bare.replace(/^(authorization:)?\s*(bearer\s+)?/i, "");
}

/** Compare plants by their ids. @param {Plant} one @param {Plant} other */
export function compareIds(one, other) {
  return BigInt(one.id) < BigInt(other.id) ? -1 : 1;
}

/** Return a signal that also ends a read that takes too long. @param {AbortSignal} [signal] */
function limit(signal) {
  const timeout = AbortSignal.timeout(READ_SECONDS * 1000);
  return AbortSignal.any([timeout, signal ?? timeout]);
}

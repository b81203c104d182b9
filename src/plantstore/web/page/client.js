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
 * @typedef {{tags: {tag: string, plants: number}[], untagged: number, isAll: boolean}} Tags with the
 *   numbers of their plants, the number of plants without a tag, and whether these are all tags
 * @typedef {{before: ?Plant, after: ?Plant}} Change a plant as it was seen, and as it shall be; null
 *   if it does not exist
 * @typedef {{stored: number, already_stored: number, replaced: number, deleted: number, refused: number,
 *   errors: {line: number, error: number, message: string, plant?: ?Plant}[]}} ChangesResult of which
 *   `errors` has only the first, and the plants that are stored, up to a size
 * @typedef {(value: any) => boolean} IsExpected
 * @typedef {{method?: string, headers?: Record<string, string>, body?: Blob, signal?: AbortSignal}} Options
 * @typedef {{restored: number, deleted: number, recreated: number, kept: number}} UndoCounts
 */

import { ApiError, hasStatus, send } from "./requests.js";

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

  /** @param {Record<string, string>} query @param {AbortSignal} [signal] */
  async listTags(query, signal) {
    const path = `tags?${new URLSearchParams(query)}`;
    const { headers, value } = await this.#read(path, Array.isArray, { signal });
    const untagged = Number(headers.get("Untagged-Count"));
    return /** @type {Tags} */ ({ tags: value, untagged, isAll: !headers.has("Link") });
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
    const isRange = (/** @type {any} */ value) => typeof value?.first === "string";
    return (await this.#read(`ids?count=${count}`, isRange, { method: "POST", signal })).value;
  }

  /**
   * Make changes, each if its plant still is as it was seen, in one request; or say what would become of
   * them.
   *
   * @param {Change[]} changes
   * @param {{isDry?: boolean, set?: string, signal?: AbortSignal}} options the name of the change set
   * @returns {Promise<{result: ChangesResult, isRecorded: boolean}>} and whether changes are kept
   */
  async change(changes, { isDry, set, signal }) {
    const bare = (/** @type {?Plant} */ plant) => plant && { name: plant.name, tag: plant.tag };
    const lines = changes.map(({ before, after }) => {
      const members = JSON.stringify({ before: bare(before), after: bare(after) });
      return `{"id":${(before ?? after)?.id},${members.slice(1)}\n`;
    });
    const { headers, value } = await this.#send(
      isDry ? "changes?dry-run" : "changes",
      (value) => Array.isArray(value?.errors),
      {
        ...{ method: "POST", body: new Blob(lines), signal },
        headers: { "Content-Type": "application/x-ndjson", ...(set && { "Change-Set": set }) },
      },
    );
    return { result: value, isRecorded: headers.has("Change-Set") };
  }

  /** Undo a change set. It takes as long as it takes. @param {string} set @returns {Promise<UndoCounts>} */
  async undo(set) {
    const { signal } = new AbortController();
    const isCounts = (/** @type {any} */ value) => typeof value?.kept === "number";
    return (await this.#send(`undo?set=${set}`, isCounts, { method: "POST", signal })).value;
  }

  /**
   * @param {URLSearchParams} query of the plants
   * @returns {Promise<Blob>} a CSV file. It takes as long as it takes.
   */
  async export(query) {
    const { signal } = new AbortController();
    const path = query.size === 0 ? "plants.csv" : `plants.csv?${query}`;
    return (await this.#send(path, undefined, { signal })).value;
  }

  /** Throw ApiError if the service is not ready. */
  async probe() {
    await send("readyz", { signal: AbortSignal.timeout(READ_SECONDS * 1000) });
  }

  /** Send a request that changes nothing. @param {string} path @param {IsExpected} isExpected @param {Options} [options] */
  async #read(path, isExpected, { signal, ...options } = {}) {
    const timeout = AbortSignal.timeout(READ_SECONDS * 1000);
    const limited = AbortSignal.any([timeout, signal ?? timeout]);
    return await this.#send(path, isExpected, { ...options, signal: limited });
  }

  /** @param {string} path @param {IsExpected|undefined} isExpected @param {Options} options */
  async #send(path, isExpected, { headers, signal, ...options }) {
    const all = new Headers(headers);
    if (this.token !== null) all.set("Authorization", `Bearer ${this.token}`);
    const limited = signal ?? AbortSignal.timeout(CHANGE_SECONDS * 1000);
    try {
      return await send(path, { ...options, headers: all, signal: limited }, isExpected);
    } catch (error) {
      if (error instanceof ApiError && hasStatus(error, 401)) this.onrefusal(error);
      if (error instanceof ApiError && error.isOutage) this.onoutage(error);
      throw error;
    }
  }
}

/** The client of this page. */
export const client = new Client();

/** Return the token in a text that was pasted, maybe from a header field or a script. @param {string} text */
export function tokenIn(text) {
  const bare = text.replace(/["'`]/g, "").trim();
  return bare.replace(/^(authorization:)?\s*(bearer\s+)?/i, "");
}

/** Compare plants by their ids. @param {Plant} one @param {Plant} other */
export function compareIds(one, other) {
  return BigInt(one.id) < BigInt(other.id) ? -1 : 1;
}

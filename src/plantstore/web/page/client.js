/**
 * The operations of the service.
 *
 * Ids are text here and on the whole page: JavaScript would round a number beyond 2^53, and
 * the page would change another plant than the one it shows.
 *
 * @typedef {{id: string, name: string, tag?: string}} Plant
 * @typedef {{plants: Plant[], links: Map<string, string>, total: number, isExact: boolean}} Listing a
 *   page, the queries of the pages beside it, and the number of plants on all pages or a lower bound
 * @typedef {{plant: Plant, etag: string}} Read
 * @typedef {{line: number, error: number, message: string}} RowError
 * @typedef {{stored: number, already_stored: number, replaced: number, refused: number,
 *   errors: RowError[], warnings?: string[]}} ImportResult of which `errors` has only the first
 */

import { ApiError, parse, patience, readText, send, upload } from "./requests.js";

/** A number in JSON (RFC 8259 §6). */
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/;

/** A link of a listing (RFC 8288). */
const LINK = /<\?([^>]*)>; rel="(\w+)"/g;

/** The members that are ids. */
const IDS = ["id", "first"];

/** Whether this browser gives access to the text of numbers in JSON, to read ids exactly. */
export const KEEPS_IDS = "rawJSON" in JSON;

/** The timeouts of requests. */
const READ_SECONDS = 10;
const CHANGE_SECONDS = 60;

/** @type {import("./requests.js").Reviver} */
const keepId = (key, value, { source }) => (IDS.includes(key) ? source : value);

export class Client {
  /** The bearer token. */
  token = "";

  /** Called when the service refuses the token. @type {(error: ApiError) => void} */
  onrefusal = () => {};

  /**
   * @param {URLSearchParams} query of the listing
   * @param {number} limit
   * @param {AbortSignal} signal
   * @returns {Promise<Listing>}
   */
  async list(query, limit, signal) {
    const limited = new URLSearchParams(query);
    limited.set("limit", String(limit));
    const either = AbortSignal.any([signal, patience(READ_SECONDS)]);
    const options = { method: "GET", headers: { Prefer: "count=exact" }, signal: either };
    const { answer, body } = await this.#send(`plants?${limited}`, options, readText);
    const plants = parse(answer, body, Array.isArray, keepId);
    const links = new Map();
    for (const [, text, relation] of (answer.headers.get("Link") ?? "").matchAll(LINK)) {
      const page = new URLSearchParams(text);
      page.delete("limit");
      links.set(relation, `?${page}`);
    }
    const isExact = answer.headers.get("Preference-Applied") === "count=exact";
    return { plants, links, total: Number(answer.headers.get("Total-Count")), isExact };
  }

  /**
   * @param {string} id
   * @returns {Promise<Read>}
   */
  async read(id) {
    const options = { method: "GET", signal: patience(READ_SECONDS) };
    const { answer, body } = await this.#send(`plants/${id}`, options, readText);
    const plant = parse(answer, body, (value) => typeof value?.name === "string", keepId);
    return { plant, etag: answer.headers.get("ETag") ?? "" };
  }

  /** @returns {Promise<string>} an id that no plant has, and that nobody else gets */
  async takeId() {
    const options = { method: "POST", signal: patience(READ_SECONDS) };
    const { answer, body } = await this.#send("ids", options, readText);
    return parse(answer, body, (value) => typeof value?.first === "string", keepId).first;
  }

  /** @returns {Promise<string[]>} the scopes of the token */
  async readScopes() {
    const options = { method: "GET", signal: patience(READ_SECONDS) };
    const { answer, body } = await this.#send("token", options, readText);
    return parse(answer, body, (value) => Array.isArray(value?.scopes)).scopes;
  }

  /** @param {Plant} plant */
  async create({ id, name, tag }) {
    // An id that is not a number is sent as a string, and the service refuses it.
    const number = NUMBER.test(id) ? id : JSON.stringify(id);
    const members = JSON.stringify({ name, tag }).slice(1);
    await this.#change("POST", "plants", { body: `{"id":${number},${members}` });
  }

  /**
   * @param {Plant} plant
   * @param {string} etag of the plant that is replaced; if it has another one, the status is 412
   */
  async replace({ id, name, tag }, etag) {
    const body = JSON.stringify({ name, tag });
    await this.#change("PUT", `plants/${id}`, { body, headers: { "If-Match": etag } });
  }

  /**
   * Set or remove the tag of a plant.
   *
   * @param {string} id
   * @param {?string} tag
   */
  async setTag(id, tag) {
    const headers = { "Content-Type": "application/merge-patch+json" };
    await this.#change("PATCH", `plants/${id}`, { body: JSON.stringify({ tag }), headers });
  }

  /**
   * @param {string} id
   * @param {string} etag of the plant that is deleted; if it has another one, the status is 412
   */
  async delete(id, etag) {
    await this.#change("DELETE", `plants/${id}`, { headers: { "If-Match": etag } });
  }

  /**
   * Store the plants of a CSV file, in one request. It takes as long as it takes.
   *
   * @param {Blob} file
   * @param {boolean} replaces whether a plant of the file replaces one that has its id
   * @param {(bytes: number) => void} onsent is called with the number of bytes sent so far
   * @param {AbortSignal} signal
   * @returns {Promise<ImportResult>}
   */
  async import(file, replaces, onsent, signal) {
    const path = replaces ? "plants?on-conflict=replace" : "plants";
    const headers = { ...this.#authorization, "Content-Type": "text/csv" };
    const answer = await upload(path, headers, file, onsent, signal);
    return parse(answer, answer.responseText, (value) => Array.isArray(value?.errors));
  }

  /**
   * @param {URLSearchParams} query of the plants
   * @param {AbortSignal} signal
   * @returns {Promise<Blob>} a CSV file
   */
  async export(query, signal) {
    const path = query.size === 0 ? "plants" : `plants?${query}`;
    const options = { method: "GET", headers: { Accept: "text/csv" }, signal };
    return (await this.#send(path, options, (answer) => answer.blob())).body;
  }

  /** @returns {Promise<string>} the metrics, in the text format of Prometheus */
  async metrics() {
    const options = { method: "GET", signal: patience(READ_SECONDS) };
    return (await this.#send("metrics", options, readText)).body;
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {{body?: string, headers?: Record<string, string>}} content
   */
  async #change(method, path, { body, headers }) {
    /** @type {Record<string, string>} */
    const type = body === undefined ? {} : { "Content-Type": "application/json" };
    const options = { method, headers: { ...type, ...headers }, body };
    await this.#send(path, { ...options, signal: patience(CHANGE_SECONDS) }, readText);
  }

  /**
   * @template T
   * @param {string} path
   * @param {{method: string, headers?: Record<string, string>, body?: string,
   *   signal: AbortSignal}} options
   * @param {(answer: Response) => Promise<T>} read
   */
  async #send(path, options, read) {
    const headers = { ...this.#authorization, ...options.headers };
    try {
      return await send(path, { ...options, headers, cache: "no-store" }, read);
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) this.onrefusal(error);
      throw error;
    }
  }

  get #authorization() {
    return { Authorization: `Bearer ${this.token}` };
  }
}

/** Throw ApiError if the service is not ready. */
export async function probe() {
  await send("readyz", { cache: "no-store", signal: patience(READ_SECONDS) }, readText);
}

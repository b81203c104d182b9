/**
 * The operations of the service.
 *
 * Ids are text here and on the whole page: JavaScript would round a number beyond 2^53, and
 * the page would change another plant than the one it shows.
 *
 * @typedef {{id: string, name: string, tag?: string}} Plant
 * @typedef {{line: number, error: number, message: string}} RowError
 * @typedef {{stored: number, already_stored: number, replaced: number, refused: number,
 *   errors: RowError[], warnings?: string[]}} ImportResult of which `errors` has only the first
 */

import { ApiError, parse, patience, readText, send, upload } from "./requests.js";

/** A number in JSON (RFC 8259 §6). */
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/;

/** Whether this browser gives access to the text of numbers in JSON, to read ids exactly. */
export const KEEPS_IDS = "rawJSON" in JSON;

/** The timeouts of requests. */
const READ_SECONDS = 10;
const CHANGE_SECONDS = 60;

export class Client {
  /** The bearer token. */
  token = "";

  /** Called when the service refuses the token. @type {(error: ApiError) => void} */
  onrefusal = () => {};

  /**
   * @param {{tag: ?string, after: ?string, limit: number}} which
   * @param {AbortSignal} signal
   * @returns {Promise<{plants: Plant[], next: ?string}>} `next` is `after` of the next page
   */
  async list({ tag, after, limit }, signal) {
    const query = new URLSearchParams({ limit: String(limit) });
    if (tag !== null) query.set("tag", tag);
    if (after !== null) query.set("after", after);
    const either = AbortSignal.any([signal, patience(READ_SECONDS)]);
    const options = { method: "GET", signal: either };
    const { answer, body } = await this.#send(`plants?${query}`, options, readText);
    /** @type {import("./requests.js").Reviver} */
    const keepId = (key, value, { source }) => (key === "id" ? source : value);
    const plants = parse(answer, body, Array.isArray, keepId);
    const link = /<[^>?]*\?([^>]*)>; rel="next"/.exec(answer.headers.get("Link") ?? "");
    return { plants, next: link && new URLSearchParams(link[1]).get("after") };
  }

  /** @param {Plant} plant */
  async create({ id, name, tag }) {
    // An id that is not a number is sent as a string, and the service refuses it.
    const number = NUMBER.test(id) ? id : JSON.stringify(id);
    const members = JSON.stringify({ name, tag }).slice(1);
    await this.#change("POST", "plants", `{"id":${number},${members}`);
  }

  /** @param {Plant} plant */
  async replace({ id, name, tag }) {
    await this.#change("PUT", `plants/${id}`, JSON.stringify({ name, tag }));
  }

  /** @param {string} id */
  async delete(id) {
    await this.#change("DELETE", `plants/${id}`);
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
   * @param {?string} tag of the plants; null means all plants
   * @param {AbortSignal} signal
   * @returns {Promise<Blob>} a CSV file
   */
  async export(tag, signal) {
    const query = tag === null ? "" : `?${new URLSearchParams({ tag })}`;
    const options = { method: "GET", headers: { Accept: "text/csv" }, signal };
    return (await this.#send(`plants${query}`, options, (answer) => answer.blob())).body;
  }

  /** @returns {Promise<string>} the metrics, in the text format of Prometheus */
  async metrics() {
    const options = { method: "GET", signal: patience(READ_SECONDS) };
    return (await this.#send("metrics", options, readText)).body;
  }

  /** @param {string} method @param {string} path @param {string} [body] */
  async #change(method, path, body) {
    /** @type {Record<string, string>} */
    const headers = body === undefined ? {} : { "Content-Type": "application/json" };
    const options = { method, headers, body, signal: patience(CHANGE_SECONDS) };
    await this.#send(path, options, readText);
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

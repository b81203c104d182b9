/**
 * The operations of the service.
 *
 * Ids are text here and on the whole page: JavaScript would round a number beyond 2^53, and
 * the page would change another plant than the one it shows.
 *
 * @typedef {{id: string, name: string, tag?: string}} Plant
 * @typedef {Parameters<typeof JSON.parse>[1]} Reviver
 */

/** A number in JSON (RFC 8259 §6). */
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/;

/** Whether this browser gives access to the text of numbers in JSON, to read ids exactly. */
export const KEEPS_IDS = "rawJSON" in JSON;

/** A response that is an error, or no response at all. */
export class ApiError extends Error {
  /**
   * @param {number} status of the response; 0 if there was none
   * @param {number} error the number of the Error record; 0 if there was no such record
   * @param {string} message
   * @param {number} retryAfter seconds to wait before the next try
   */
  constructor(status, error, message, retryAfter) {
    super(message);
    this.status = status;
    this.error = error;
    this.retryAfter = retryAfter;
  }

  /** Whether the same request may succeed later. */
  get passes() {
    return [0, 408, 429, 502, 503, 504].includes(this.status);
  }

  /** The member of the plant that the message is about, or "". */
  get member() {
    return /^`(id|name|tag)` /.exec(this.message)?.[1] ?? "";
  }
}

/**
 * Return what to say about something that was thrown.
 *
 * @param {unknown} error
 */
export function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}

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
    const { answer, text } = await this.#send("GET", `plants?${query}`, undefined, either);
    /** @type {Reviver} */
    const keepId = (key, value, { source }) => (key === "id" ? source : value);
    const plants = parse(answer, text, Array.isArray, keepId);
    const link = /<[^>?]*\?([^>]*)>; rel="next"/.exec(answer.headers.get("Link") ?? "");
    return { plants, next: link && new URLSearchParams(link[1]).get("after") };
  }

  /** @param {Plant} plant @param {AbortSignal} [signal] */
  async create({ id, name, tag }, signal = new AbortController().signal) {
    // An id that is not a number is sent as a string, and the service refuses it.
    const number = NUMBER.test(id) ? id : JSON.stringify(id);
    const members = JSON.stringify({ name, tag }).slice(1);
    const either = AbortSignal.any([signal, patience(CHANGE_SECONDS)]);
    await this.#send("POST", "plants", `{"id":${number},${members}`, either);
  }

  /** @param {Plant} plant */
  async replace({ id, name, tag }) {
    const body = JSON.stringify({ name, tag });
    await this.#send("PUT", `plants/${id}`, body, patience(CHANGE_SECONDS));
  }

  /** @param {string} id */
  async delete(id) {
    await this.#send("DELETE", `plants/${id}`, undefined, patience(CHANGE_SECONDS));
  }

  /** @returns {Promise<string>} the metrics, in the text format of Prometheus */
  async metrics() {
    return (await this.#send("GET", "metrics", undefined, patience(READ_SECONDS))).text;
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {string|undefined} body
   * @param {AbortSignal} signal
   */
  async #send(method, path, body, signal) {
    /** @type {Record<string, string>} */
    const headers = { Authorization: `Bearer ${this.token}` };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    try {
      return await send(path, { method, headers, body, signal, cache: "no-store" });
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) this.onrefusal(error);
      throw error;
    }
  }
}

/** Throw ApiError if the service is not ready. */
export async function probe() {
  await send("readyz", { cache: "no-store", signal: patience(READ_SECONDS) });
}

/** @param {number} seconds */
function patience(seconds) {
  return AbortSignal.timeout(seconds * 1000);
}

/**
 * Return a response and its text; throw ApiError, or the reason if the request was aborted.
 *
 * @param {string} path
 * @param {RequestInit & {signal: AbortSignal}} options
 */
async function send(path, options) {
  let answer;
  let text;
  try {
    answer = await fetch(path, options);
    text = await answer.text();
  } catch (error) {
    if (options.signal.aborted && options.signal.reason.name !== "TimeoutError") throw error;
    throw new ApiError(0, 0, "The service does not respond", 2);
  }
  if (answer.ok) return { answer, text };
  const record = parse(answer, text, (value) => typeof value?.message === "string");
  const retryAfter = Number(answer.headers.get("Retry-After")) || 1;
  throw new ApiError(answer.status, record.error, record.message, retryAfter);
}

/**
 * Parse the JSON of a response. A response of another form comes from a proxy.
 *
 * @param {Response} answer
 * @param {string} text
 * @param {(value: any) => boolean} isExpected
 * @param {Reviver} [reviver]
 */
function parse(answer, text, isExpected, reviver) {
  try {
    const value = JSON.parse(text, reviver);
    if (isExpected(value)) return value;
  } catch {
    // It is not JSON.
  }
  const message = `The response is not from the Plant Store: ${answer.status} ${answer.statusText}`;
  throw new ApiError(answer.status, 0, message.trim(), 2);
}

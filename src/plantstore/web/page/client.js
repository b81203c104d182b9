/**
 * The operations of the service, for who has a token.
 *
 * Ids are text here and on the whole page: as a number of JavaScript, one beyond 2^53
 * would be rounded, and another plant changed than the one that is shown.
 *
 * @typedef {{id: string, name: string, tag?: string}} Plant
 */

/** What JSON takes for a number (RFC 8259 §6). */
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/;

/** Whether this browser tells how a number was written, which keeping ids whole depends on. */
export const KEEPS_IDS = "rawJSON" in JSON;

/** An answer that is none of success: the Error record of the interface, or what stands for it. */
export class ApiError extends Error {
  /**
   * @param {number} status of the answer; 0 if there was none
   * @param {number} error the number of the Error record; 0 if it came from someone else
   * @param {string} message
   * @param {number} retryAfter seconds to wait before sending again
   */
  constructor(status, error, message, retryAfter) {
    super(message);
    Object.assign(this, { status, error, retryAfter });
  }

  /** Whether the same request may be answered otherwise later. */
  get passes() {
    return [0, 408, 429, 502, 503, 504].includes(this.status);
  }

  /** The member of the record that the message is about, or "". */
  get member() {
    return /- at `\$\.(id|name|tag)`$/.exec(this.message)?.[1] ?? "";
  }
}

/** After so long a service that says nothing is taken for one that does not answer. */
const READ_SECONDS = 10;
const CHANGE_SECONDS = 60;

export class Client {
  /** The bearer token. */
  token = "";

  /** Is told when the service refuses the token. @type {(error: ApiError) => void} */
  onrefusal = () => {};

  /**
   * @param {{tag: ?string, after: ?string, limit: number}} which
   * @param {AbortSignal} signal
   * @returns {Promise<{plants: Plant[], next: ?string}>} `next` is what `after` is on the next page
   */
  async list({ tag, after, limit }, signal) {
    const query = new URLSearchParams({ limit });
    if (tag !== null) query.set("tag", tag);
    if (after !== null) query.set("after", after);
    const either = AbortSignal.any([signal, patience(READ_SECONDS)]);
    const { answer, text } = await this.#send("GET", `plants?${query}`, undefined, either);
    const keepId = (key, value, { source }) => (key === "id" ? source : value);
    const plants = parse(answer, text, Array.isArray, keepId);
    const link = /<[^>?]*\?([^>]*)>; rel="next"/.exec(answer.headers.get("Link") ?? "");
    return { plants, next: link && new URLSearchParams(link[1]).get("after") };
  }

  /** @param {Plant} plant @param {AbortSignal} [signal] */
  async create({ id, name, tag }, signal = new AbortController().signal) {
    // An id that is no number is sent as it was typed, for the service to say so.
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

  /** @returns {Promise<string>} what was counted, in the text format of Prometheus */
  async metrics() {
    return (await this.#send("GET", "metrics", undefined, patience(READ_SECONDS))).text;
  }

  async #send(method, path, body, signal) {
    const headers = { Authorization: `Bearer ${this.token}` };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    try {
      return await send(path, { method, headers, body, signal, cache: "no-store" });
    } catch (error) {
      if (error.status === 401) this.onrefusal(error);
      throw error;
    }
  }
}

/** Return if the service takes plants; throw ApiError if it does not. */
export async function probe() {
  await send("readyz", { cache: "no-store", signal: patience(READ_SECONDS) });
}

function patience(seconds) {
  return AbortSignal.timeout(seconds * 1000);
}

/** Return an answer of success and its text; throw ApiError, or the reason of whoever aborted. */
async function send(path, options) {
  let answer;
  let text;
  try {
    answer = await fetch(path, options);
    text = await answer.text();
  } catch (error) {
    if (options.signal.aborted && options.signal.reason.name !== "TimeoutError") throw error;
    throw new ApiError(0, 0, "The service does not answer", 2);
  }
  if (answer.ok) return { answer, text };
  const record = parse(answer, text, (value) => typeof value?.message === "string");
  const retryAfter = Number(answer.headers.get("Retry-After")) || 1;
  throw new ApiError(answer.status, record.error, record.message, retryAfter);
}

/** Read the JSON of an answer; what is not as expected comes from a proxy in front. */
function parse(answer, text, isExpected, reviver) {
  try {
    const value = JSON.parse(text, reviver);
    if (isExpected(value)) return value;
  } catch {
    // It is no JSON.
  }
  const message = `Something else than the Plant Store answers: ${answer.status} ${answer.statusText}`;
  throw new ApiError(answer.status, 0, message.trim(), 2);
}

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
    const answer = await this.#send("GET", `plants?${query}`, undefined, signal);
    const plants = JSON.parse(await answer.text(), (key, value, { source }) =>
      key === "id" ? source : value,
    );
    const link = /<[^>?]*\?([^>]*)>; rel="next"/.exec(answer.headers.get("Link") ?? "");
    return { plants, next: link && new URLSearchParams(link[1]).get("after") };
  }

  /** @param {Plant} plant @param {AbortSignal} [signal] */
  async create({ id, name, tag }, signal) {
    // An id that is no number is sent as it was typed, for the service to say so.
    const number = NUMBER.test(id) ? id : JSON.stringify(id);
    const members = JSON.stringify({ name, tag }).slice(1);
    await this.#send("POST", "plants", `{"id":${number},${members}`, signal);
  }

  /** @param {Plant} plant */
  async replace({ id, name, tag }) {
    await this.#send("PUT", `plants/${encodeURIComponent(id)}`, JSON.stringify({ name, tag }));
  }

  /** @param {string} id */
  async delete(id) {
    await this.#send("DELETE", `plants/${encodeURIComponent(id)}`);
  }

  /** @returns {Promise<string>} what was counted, in the text format of Prometheus */
  async metrics() {
    return (await this.#send("GET", "metrics")).text();
  }

  async #send(method, path, body, signal) {
    const { token } = this;
    const headers = { Authorization: `Bearer ${token}` };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    try {
      return await send(path, { method, headers, body, signal, cache: "no-store" });
    } catch (error) {
      // What was sent with another token says nothing about this one.
      if (error.status === 401 && token === this.token) this.onrefusal(error);
      throw error;
    }
  }
}

/** Return if the service takes plants; throw ApiError if it does not. */
export async function probe() {
  await send("readyz", { cache: "no-store" });
}

async function send(path, options) {
  let answer;
  let text;
  try {
    answer = await fetch(path, options);
    if (answer.ok) return answer;
    text = await answer.text();
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, 0, "The service does not answer", 2);
  }
  const retryAfter = Number(answer.headers.get("Retry-After")) || 1;
  try {
    const { error, message } = JSON.parse(text);
    if (typeof message === "string") {
      throw new ApiError(answer.status, error, message, retryAfter);
    }
  } catch (error) {
    if (error instanceof ApiError) throw error;
  }
  // It came from a proxy in front, which speaks another language.
  throw new ApiError(answer.status, 0, `${answer.status} ${answer.statusText}`, retryAfter);
}

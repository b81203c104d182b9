/** Requests to the service, and their errors. */

export const NOT_FOUND = 404;

/**
 * The error numbers of an id that another plant has, of ids of which none is left, and of a plant that
 * somebody else has changed.
 */
export const ID_TAKEN = 1004;
export const IDS_EXHAUSTED = 1006;
export const CHANGED = 3011;

/** The members that are ids. */
const IDS = ["id", "first", "last"];

/** A response that is an error, or no response at all; then `status` is 0. */
export class ApiError extends Error {
  /** What the page shows instead of the message. @type {any} */
  shown;

  /** @param {string} message @param {{error?: number}} [record] */
  constructor(message, status = 0, record = {}) {
    super(message);
    this.status = status;
    this.error = record.error ?? 0;
  }

  /** Whether the service could not respond. Then the same request may succeed later. */
  get isOutage() {
    return this.status === 0 || this.status >= 500;
  }

  /** The member of the plant that the message is about, or "". */
  get member() {
    return /^`(id|name|tag)` /.exec(this.message)?.[1] ?? "";
  }
}

/** Return what to say about an ApiError; throw any other error. @param {unknown} error */
export function messageOf(error) {
  if (error instanceof ApiError) return error.message;
  throw error;
}

/** @param {unknown} error @param {number} status */
export function hasStatus(error, status) {
  return error instanceof ApiError && error.status === status;
}

/**
 * Return a response and its body; throw ApiError, or the reason if the request was aborted.
 *
 * @param {string} path
 * @param {RequestInit & {signal: AbortSignal}} options
 * @param {"text"|"blob"} [kind] of the body that is returned
 * @returns {Promise<{answer: Response, body: any}>}
 */
export async function send(path, options, kind = "text") {
  let answer;
  let body;
  try {
    answer = await fetch(path, { ...options, cache: "no-store" });
    body = await answer[answer.ok ? kind : "text"]();
  } catch (error) {
    if (options.signal.aborted && options.signal.reason.name !== "TimeoutError") throw error;
    throw new ApiError(answer ? "The response broke off" : "The service does not respond");
  }
  if (!answer.ok) throw makeError(answer, String(body));
  return { answer, body };
}

/** @param {{status: number, statusText: string}} answer @param {string} text */
function makeError(answer, text) {
  const record = parse(answer, text, (value) => typeof value?.message === "string");
  return new ApiError(record.message, answer.status, record);
}

/**
 * Parse the JSON of a response. A response of another form comes from a proxy.
 *
 * @param {{status: number, statusText: string}} answer
 * @param {string} text
 * @param {(value: any) => boolean} isExpected
 */
export function parse({ status, statusText }, text, isExpected) {
  try {
    const value = JSON.parse(text, (key, value, { source }) =>
      IDS.includes(key) ? source : value,
    );
    if (isExpected(value)) return value;
  } catch {
    // It is not JSON.
  }
  const message = `The response is not from the Plant Store: ${status} ${statusText}`;
  throw new ApiError(message.trim(), status);
}

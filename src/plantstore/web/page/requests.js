/** Requests to the service, and the errors that the page shows. */

export const NOT_FOUND = 404;

/** The error number of a plant that somebody else has changed. */
export const CHANGED = 3011;

/** The members that are ids. */
const IDS = ["id", "first", "last"];

/**
 * What cannot be done: by the service, with the status of its response, or 0 if there is none; or by
 * the page.
 */
export class ApiError extends Error {
  /** What the page shows instead of the message. @type {any} */
  shown;

  /** @param {string} message */
  constructor(message, status = 400, error = 0) {
    super(message);
    this.status = status;
    this.error = error;
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

/** @param {unknown} error @param {number[]} statuses */
export function hasStatus(error, ...statuses) {
  return error instanceof ApiError && statuses.includes(error.status);
}

/**
 * Return the content of a response; throw ApiError, or the reason if the request was aborted.
 *
 * @param {string} path
 * @param {RequestInit & {signal: AbortSignal}} options
 * @param {(value: any) => boolean} [isExpected] tells JSON of the service from that of a proxy; without
 *   it, the content is a file
 * @returns {Promise<{headers: Headers, value: any}>}
 */
export async function send(path, options, isExpected) {
  let answer;
  let body;
  try {
    answer = await fetch(path, { ...options, cache: "no-store" });
    body = await (answer.ok && !isExpected ? answer.blob() : answer.text());
  } catch (error) {
    if (options.signal.aborted && options.signal.reason.name !== "TimeoutError") throw error;
    throw new ApiError(answer ? "The response broke off" : "The service does not respond", 0);
  }
  const { ok, status, statusText, headers } = answer;
  const value = typeof body === "string" ? parse(body) : body;
  if (ok && (isExpected?.(value) ?? true)) return { headers, value };
  if (!ok && typeof value?.message === "string") {
    throw new ApiError(value.message, status, value.error);
  }
  const message = `The response is not from the Plant Store: ${status} ${statusText}`;
  throw new ApiError(message.trim(), status);
}

/** Parse JSON, in which ids become texts. @param {string} text @returns {any} undefined if it is none */
function parse(text) {
  try {
    return JSON.parse(text, (key, value, { source }) => (IDS.includes(key) ? source : value));
  } catch {
    return undefined;
  }
}

/** Requests to the service, and their errors. */

export const NOT_FOUND = 404;

/** The status of a token that is used more often than the service allows. */
export const TOO_MANY_REQUESTS = 429;

/** The error numbers of an id that another plant has, and of a plant that somebody else has changed. */
export const ID_TAKEN = 1004;
export const CHANGED = 3011;

/** The error number of a service that keeps no changes. */
export const FEED_OFF = 4001;

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

/**
 * Send a body, and call `onsent` with the number of bytes sent so far and of all, which `fetch` does
 * not report; return the response, or throw as `send` does.
 *
 * @param {string} path
 * @param {{headers: Record<string, string>, body: Blob, signal?: AbortSignal,
 *   onsent?: (bytes: number, all: number) => void}} options
 */
export async function upload(path, { headers, body, signal, onsent }) {
  signal?.throwIfAborted();
  const request = new XMLHttpRequest();
  request.open("POST", path);
  for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
  request.upload.onprogress = ({ loaded }) => onsent?.(loaded, body.size);
  await new Promise((resolve, reject) => {
    request.onload = resolve;
    request.onerror = () => reject(new ApiError("The connection to the service broke off"));
    request.onabort = () => reject(signal?.reason);
    signal?.addEventListener("abort", () => request.abort());
    request.send(body);
  });
  if (request.status !== 200) throw makeError(request, request.responseText);
  return request;
}

/**
 * Yield the pieces of a response as they arrive, until it ends or nothing arrives for some time;
 * throw as `send` does.
 *
 * @param {string} path
 * @param {RequestInit & {signal: AbortSignal}} options
 * @param {string} kind the media type of the response
 * @param {number} seconds how long nothing may arrive
 */
export async function* receive(path, options, kind, seconds) {
  const silence = new AbortController();
  const wait = () => setTimeout(() => silence.abort(), seconds * 1000);
  const signal = AbortSignal.any([options.signal, silence.signal]);
  let timer = wait();
  let answer;
  try {
    answer = await fetch(path, { ...options, signal, cache: "no-store" });
    if (!answer.ok) throw makeError(answer, await answer.text());
    if (!answer.headers.get("Content-Type")?.startsWith(kind)) throw makeForeign(answer);
    for (const pieces = answer.body?.getReader(); pieces; ) {
      const { done, value } = await pieces.read();
      if (done) return;
      clearTimeout(timer);
      timer = wait();
      yield value;
    }
  } catch (error) {
    if (silence.signal.aborted) return;
    if (options.signal.aborted || error instanceof ApiError) throw error;
    throw new ApiError(answer ? "The response broke off" : "The service does not respond");
  } finally {
    clearTimeout(timer);
    silence.abort(); // closes the connection if nobody reads the rest
  }
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
  throw makeForeign({ status, statusText });
}

/** @param {{status: number, statusText: string}} answer that comes from a proxy */
function makeForeign({ status, statusText }) {
  const message = `The response is not from the Plant Store: ${status} ${statusText}`;
  return new ApiError(message.trim(), status);
}

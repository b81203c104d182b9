/**
 * Requests to the service, and their errors.
 *
 * @typedef {Parameters<typeof JSON.parse>[1]} Reviver
 */

/** A response that is an error, or no response at all. */
export class ApiError extends Error {
  /**
   * @param {number} status of the response; 0 if there was none
   * @param {number} error the number of the Error record; 0 if there was no such record
   * @param {string} message
   * @param {number} [linesStoredThrough] the last line of a file that is surely stored
   */
  constructor(status, error, message, linesStoredThrough) {
    super(message);
    this.status = status;
    this.error = error;
    this.linesStoredThrough = linesStoredThrough;
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

/** @param {number} seconds */
export function patience(seconds) {
  return AbortSignal.timeout(seconds * 1000);
}

/** @param {Response} answer */
export function readText(answer) {
  return answer.text();
}

/**
 * Return a response and its body; throw ApiError, or the reason if the request was aborted.
 *
 * @template T
 * @param {string} path
 * @param {RequestInit & {signal: AbortSignal}} options
 * @param {(answer: Response) => Promise<T>} read
 */
export async function send(path, options, read) {
  let answer;
  let text;
  try {
    answer = await fetch(path, options);
    if (answer.ok) return { answer, body: await read(answer) };
    text = await answer.text();
  } catch (error) {
    if (options.signal.aborted && options.signal.reason.name !== "TimeoutError") throw error;
    throw new ApiError(0, 0, answer ? "The response broke off" : "The service does not respond");
  }
  throw makeError(answer, text);
}

/**
 * Send a file; return the response, or throw as `send` does. `fetch` does not report how much of
 * a body was sent.
 *
 * @param {string} path
 * @param {Record<string, string>} headers
 * @param {Blob} file
 * @param {(bytes: number) => void} onsent
 * @param {AbortSignal} signal
 * @returns {Promise<XMLHttpRequest>}
 */
export async function upload(path, headers, file, onsent, signal) {
  const request = new XMLHttpRequest();
  request.open("POST", path);
  for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
  request.upload.onprogress = ({ loaded }) => onsent(loaded);
  await new Promise((resolve, reject) => {
    request.onload = resolve;
    request.onerror = () => reject(new ApiError(0, 0, "The connection to the service broke off"));
    request.onabort = () => reject(signal.reason);
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
  if (request.status !== 200) throw makeError(request, request.responseText);
  return request;
}

/**
 * @param {{status: number, statusText: string}} answer
 * @param {string} text
 */
function makeError(answer, text) {
  const record = parse(answer, text, (value) => typeof value?.message === "string");
  return new ApiError(answer.status, record.error, record.message, record.lines_stored_through);
}

/**
 * Parse the JSON of a response. A response of another form comes from a proxy.
 *
 * @param {{status: number, statusText: string}} answer
 * @param {string} text
 * @param {(value: any) => boolean} isExpected
 * @param {Reviver} [reviver]
 */
export function parse(answer, text, isExpected, reviver) {
  try {
    const value = JSON.parse(text, reviver);
    if (isExpected(value)) return value;
  } catch {
    // It is not JSON.
  }
  const message = `The response is not from the Plant Store: ${answer.status} ${answer.statusText}`;
  throw new ApiError(answer.status, 0, message.trim());
}

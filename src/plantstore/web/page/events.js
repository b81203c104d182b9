/** Server-Sent Events (WHATWG HTML §9.2). `EventSource` reads them, too, but cannot send a token. */

/** @typedef {{id: string, event: string, data: string}} ServerEvent */

/** Reads the events of one response, whose bytes arrive in pieces of any size. */
export class EventReader {
  /** The time after which to connect again. */
  retrySeconds = 1;

  #decoder = new TextDecoder();
  #rest = "";
  #id;
  #event = "";
  /** @type {string[]} */
  #data = [];

  /** @param {string} [lastId] the id of the last event of the response before, or "" */
  constructor(lastId = "") {
    this.lastId = lastId;
    this.#id = lastId;
  }

  /** Return the events that a piece completes. @param {Uint8Array<ArrayBuffer>} bytes */
  read(bytes) {
    const text = this.#rest + this.#decoder.decode(bytes, { stream: true });
    // A carriage return at the end may be the first half of a line end.
    const lines = text.split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? "";
    return lines.flatMap((line) => this.#readLine(line));
  }

  /** @param {string} line @returns {ServerEvent[]} the event that the line ends, if it ends one */
  #readLine(line) {
    if (line === "") return this.#finish();
    const [, name, value] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? ["", line];
    if (name === "event") this.#event = value ?? "";
    if (name === "data") this.#data.push(value ?? "");
    if (name === "id" && !value?.includes("\0")) this.#id = value ?? "";
    if (name === "retry" && /^\d+$/.test(value ?? "")) this.retrySeconds = Number(value) / 1000;
    return [];
  }

  /** An event without data is none, but its id counts. */
  #finish() {
    const [event, data] = [this.#event || "message", this.#data];
    [this.lastId, this.#event, this.#data] = [this.#id, "", []];
    return data.length === 0 ? [] : [{ id: this.lastId, event, data: data.join("\n") }];
  }
}

/**
 * What the modules of the page need of a browser, for tests that run without one.
 *
 * Node.js loads this module before the tests. It has no document: what the page shows is the
 * content of its components, as text.
 */

import { createHash } from "node:crypto";
import { register } from "node:module";

/** The libraries, which the service serves beside the modules of the page. */
const LIBRARIES = Object.fromEntries(
  ["htm.mjs", "preact.mjs", "uqr.mjs", "papaparse.min.js", "fflate.mjs", "saxen.mjs"].map(
    (file) => [`./${file}`, `../${file.split(".")[0]}/${file}`],
  ),
);
const HOOK = `
  const libraries = ${JSON.stringify(LIBRARIES)};
  export const resolve = (name, context, next) => next(libraries[name] ?? name, context);
`;
register(`data:text/javascript,${encodeURIComponent(HOOK)}`);

const noElement = { querySelector: () => null, getElementById: () => null };
const link = { click: () => {} };
globalThis.document = Object.assign(new EventTarget(), {
  ...noElement,
  createElement: () => link,
  hidden: false,
});
globalThis.location = { pathname: "/", search: "", hash: "" };
/** Whether the window is wide: then the list of tags is shown. */
export const wide = { matches: false, onchange: () => {} };
const kept = new Map();
globalThis.window = {
  matchMedia: () => wide,
  sessionStorage: {
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, text) => kept.set(key, text),
    removeItem: (key) => kept.delete(key),
  },
};

/** The addresses of the tab, the last one is shown. */
export const visited = [];

globalThis.history = {
  state: null,
  pushState(state, _title, address = visited.at(-1) ?? "/") {
    visited.push(address);
    this.replaceState(state, "", address);
  },
  back() {
    visited.pop();
    this.state = null;
  },
  replaceState(state, _title, address) {
    this.state = state;
    visited.splice(-1, 1, address);
    Object.assign(location, { search: address.replace(/^[^?]*|#.*$/g, ""), hash: "" });
  },
};

/** @param {unknown} value @param {number} [status] @param {Record<string, string>} [headers] */
export function respond(value, status = 200, headers = {}) {
  const body = typeof value === "string" ? value : JSON.stringify(value);
  return new Response(status === 204 ? null : body, { status, headers });
}

/**
 * Respond with plants, as the service does: its ids are numbers.
 *
 * @param {unknown} value one plant, or several
 * @param {Record<string, string>} [headers]
 */
export function respondPlants(value, headers) {
  const text = JSON.stringify(value).replace(/"id":"(-?\d+)"/g, '"id":$1');
  return respond(text, 200, headers);
}

/**
 * Answer the next requests of the page, in turn; later ones get an empty list of plants.
 *
 * @param {(Response | Error | Promise<Response>)[]} answers
 * @returns {{path: string, method?: string, body?: string}[]} the requests, as they are sent
 */
export function answer(...answers) {
  const requests = [];
  globalThis.fetch = async (path, { signal, ...options }) => {
    requests.push({ path, ...options });
    const given = answers.shift() ?? respond([]);
    if (given instanceof Error) throw given;
    const aborted = new Promise((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
    });
    return await Promise.race([given, aborted]);
  };
  return requests;
}

/**
 * Store plants, and answer all requests for single plants as the service does.
 *
 * @param {{id: string, name: string, tag?: string}[]} plants
 * @param {(method: string, id: string) => ?Response} [interfere] is called before each request, and
 *   may change the plants or return another answer
 */
export function serve(plants, interfere = () => null) {
  const stored = new Map(plants.map((plant) => [plant.id, plant]));
  const requests = [];
  const tagOf = ({ name, tag }) => {
    const hash = createHash("sha256").update(tag === undefined ? name : `${name}\0${tag}`);
    return `"${hash.digest("hex").slice(0, 32)}"`;
  };
  globalThis.fetch = async (path, { method = "GET", headers, body }) => {
    const record = body && JSON.parse(body.replace(/"id":(-?\d+)/, '"id":"$1"'));
    const id = record?.id ?? path.split("/")[1]?.split("?")[0];
    if (!path.startsWith("plants") || id === undefined) return respond([]);
    requests.push(`${method} ${id}`);
    const other = interfere(method, id);
    if (other) return other;
    const present = stored.get(id);
    if (method === "POST") {
      if (present) return respond({ error: 1004, message: "`id` is taken" }, 400);
      stored.set(id, record);
      return respond("");
    }
    if (!present && method !== "GET") return respond({ error: 3011, message: "It is gone" }, 412);
    if (!present)
      return respond({ error: 1005, message: `No plant is stored under the id ${id}` }, 404);
    const etag = tagOf(present);
    if (method === "GET") return respondPlants(present, { ETag: etag });
    if (headers.get("If-Match") !== etag)
      return respond({ error: 3011, message: "It changed" }, 412);
    if (method === "PUT") stored.set(id, { id, ...record });
    else stored.delete(id);
    return respond("");
  };
  return { stored, requests };
}

/**
 * Answer the next file that the page sends.
 *
 * @param {(request: any) => void} act calls a handler of the XMLHttpRequest
 */
export function answerFile(act) {
  globalThis.XMLHttpRequest = class {
    upload = {};
    headers = {};
    open(method, path) {
      Object.assign(this, { method, path });
    }
    setRequestHeader(name, value) {
      this.headers[name] = value;
    }
    send(body) {
      this.body = body;
      act(this);
    }
    abort() {
      this.onabort();
    }
  };
}

/** Return an `act` of `answerFile` that responds. @param {unknown} value @param {number} [status] */
export function withResponse(value, status = 200, statusText = "") {
  const responseText = typeof value === "string" ? value : JSON.stringify(value);
  return (request) => {
    Object.assign(request, { status, statusText, responseText });
    request.onload();
  };
}

/** Return the text that markup shows, with a space between elements. @param {any} markup */
export function textOf(markup) {
  if (Array.isArray(markup)) return markup.map(textOf).filter(Boolean).join(" ");
  if (typeof markup === "string" || typeof markup === "number") return String(markup).trim();
  if (!markup?.props || markup.props.hidden) return "";
  const { type, props } = markup;
  return textOf(typeof type === "function" ? type(props) : props.children);
}

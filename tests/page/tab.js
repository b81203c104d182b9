/**
 * What the modules of the page need of a browser, for tests that run without one.
 *
 * Node.js loads this module before the tests. It has no document: what the page shows is the
 * content of its components, as text.
 */

import { register } from "node:module";

/** The libraries, which the service serves beside the modules of the page. */
const LIBRARIES = Object.fromEntries(
  ["htm.mjs", "preact.mjs", "uqr.mjs", "papaparse.min.js", "xlsx.core.min.js"].map((file) => [
    `./${file}`,
    `../${file.split(".")[0]}/${file}`,
  ]),
);
const HOOK = `
  const libraries = ${JSON.stringify(LIBRARIES)};
  export const resolve = async (name, context, next) => {
    const found = await next(libraries[name] ?? name, context);
    return name.endsWith(".min.js") ? { ...found, format: "module" } : found;
  };
`;
register(`data:text/javascript,${encodeURIComponent(HOOK)}`);

const noElement = {
  querySelector: () => null,
  querySelectorAll: () => [],
  getElementById: () => null,
};
const link = { click: () => {} };
globalThis.document = Object.assign(new EventTarget(), {
  ...noElement,
  createElement: () => link,
  hidden: false,
});
globalThis.location = { pathname: "/", search: "", hash: "" };
/** Whether the window is wide: then the list of tags is shown. */
export const wide = { matches: false, onchange: () => {} };
const makeStorage = (kept = new Map()) => ({
  getItem: (key) => kept.get(key) ?? null,
  setItem: (key, text) => kept.set(key, text),
  removeItem: (key) => kept.delete(key),
});
globalThis.window = {
  matchMedia: () => wide,
  localStorage: makeStorage(),
  sessionStorage: makeStorage(),
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
    Object.assign(location, {
      search: address.replace(/^[^?]*|#.*$/g, ""),
      hash: address.replace(/^[^#]*/, ""),
    });
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

/** Read JSON as the page does: ids are text. @param {string} text */
function parse(text) {
  return JSON.parse(text, (key, value, { source }) => (key === "id" ? source : value));
}

/**
 * Store plants, and answer all requests for their changes as the service does.
 *
 * @param {{id: string, name: string, tag?: string}[]} plants
 * @param {(change: string, id?: string) => ?Response} [interfere] is called before each request, and
 *   each line of a list of changes; it may change the plants, or return another answer
 */
export function serve(plants, interfere = () => null) {
  const stored = new Map(plants.map((plant) => [plant.id, plant]));
  const requests = [];
  const sets = new Map();
  const service = { stored, requests, sets, keepsChanges: true, shown: 1000 };
  const isSame = (one, other) => one?.name === other?.name && one?.tag === other?.tag;
  const put = (id, plant, set) => {
    const { changes } = sets.get(set) ?? { changes: new Map() };
    if (!changes.has(id)) changes.set(id, { before: stored.get(id) ?? null });
    changes.get(id).after = plant;
    if (service.keepsChanges) sets.set(set, { changes });
    if (plant) stored.set(id, { id, ...plant });
    else stored.delete(id);
  };
  const fieldsOf = (set) => (set && service.keepsChanges ? { "Change-Set": set } : {});

  /** Make a list of changes, until its client leaves. */
  function change(text, set, request) {
    const counts = { stored: 0, already_stored: 0, replaced: 0, deleted: 0, refused: 0 };
    const errors = [];
    const isDry = request.path.endsWith("?dry-run");
    for (const [at, line] of text.trim().split("\n").entries()) {
      const { id, before, after } = parse(line);
      const other = interfere("CHANGE", id);
      if (other || request.isAborted) return { answer: other };
      const present = stored.get(id) ?? null;
      const error = { line: at + 1, error: 3011, message: "`before` is not what is stored" };
      if (service.refuse?.(id)) errors.push({ line: at + 1, ...service.refuse(id) });
      else if (isSame(present, after)) counts.already_stored += 1;
      else if (!isSame(present, before)) {
        const isShown = errors.filter(({ plant }) => plant !== undefined).length < service.shown;
        errors.push(isShown ? { ...error, plant: present } : error);
      } else {
        counts[after ? (before ? "replaced" : "stored") : "deleted"] += 1;
        if (!isDry) put(id, after, set);
      }
    }
    return { ...counts, refused: errors.length, errors: errors.slice(0, service.listed ?? 1000) };
  }

  /** Undo a set, or count what this would do. */
  function undo(name, isDry) {
    const set = sets.get(name);
    if (!service.keepsChanges) return respond({ error: 3006, message: "It keeps none" }, 400);
    if (!set) return respond({ error: 4003, message: "No change set has this name" }, 404);
    const counts = { restored: 0, deleted: 0, recreated: 0, kept: 0, kept_ids: [] };
    for (const [id, { before, after }] of set.changes) {
      const present = stored.get(id) ?? null;
      if (!isSame(present, after) && !isSame(present, before)) counts.kept += 1;
      else {
        counts[before ? (after ? "restored" : "recreated") : "deleted"] += 1;
        if (!isDry && before) stored.set(id, before);
        else if (!isDry) stored.delete(id);
      }
    }
    return respond(counts);
  }

  globalThis.fetch = async (path, { signal }) => {
    const [, id = ""] = /^plants\/(-?\d+)$/.exec(path) ?? [];
    const query = new URLSearchParams(path.replace(/^undo/, ""));
    if (!id && !path.startsWith("undo")) return respond([]);
    requests.push(id ? `GET ${id}` : path.replace(/set=\w+/, "set"));
    const other = await interfere(requests.at(-1), id);
    signal?.throwIfAborted();
    if (other) return other;
    if (path.startsWith("undo")) return undo(query.get("set"), query.has("dry-run"));
    return stored.has(id) ? respondPlants(stored.get(id)) : respond({ message: "None" }, 404);
  };
  answerFile(async (request) => {
    requests.push(`POST ${request.path}`);
    const { set } = request;
    const other = await interfere(requests.at(-1));
    const { answer: broken, ...result } = other
      ? { answer: other }
      : change(await request.body.text(), set, request);
    if (request.isAborted) return;
    if (broken) withResponse(await broken.text(), broken.status)(request);
    else
      withResponse(
        JSON.stringify(result).replace(/"id":"(-?\d+)"/g, '"id":$1'),
        200,
        "",
        fieldsOf(set),
      )(request);
  });
  return service;
}

/** Answers the requests that send files, and the others. */
let actOnFile = null;
let actOnOthers = null;
Object.defineProperty(globalThis, "fetch", {
  get: () => {
    const act = actOnOthers;
    return (path, options) =>
      options.body instanceof Blob ? sendFile(path, options) : act(path, options);
  },
  set: (act) => {
    actOnOthers = act;
  },
});

/** Have a file answered. */
function sendFile(path, { method, headers, body, signal }) {
  const { promise, resolve, reject } = Promise.withResolvers();
  const fields = Object.fromEntries(headers);
  const request = { path, method, headers: fields, set: fields["change-set"], body };
  request.onload = () => resolve(request.response);
  request.onerror = () => reject(new TypeError("Failed to fetch"));
  signal.addEventListener("abort", () => {
    request.isAborted = true;
    reject(signal.reason);
  });
  actOnFile(request);
  return promise;
}

/**
 * Answer the next files that the page sends.
 *
 * @param {(request: any) => void} act calls `onload` or `onerror` of the request
 * @returns what answered them before
 */
export function answerFile(act) {
  const before = actOnFile;
  actOnFile = act;
  return before;
}

/** Return an `act` of `answerFile` that responds. @param {unknown} value @param {number} [status] */
export function withResponse(value, status = 200, statusText = "", fields = {}) {
  const body = typeof value === "string" ? value : JSON.stringify(value);
  return (request) => {
    request.response = new Response(body, { status, statusText, headers: fields });
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

/** Return the properties of the elements of a kind in markup. @param {string} kind @param {any} markup */
export function findAll(kind, markup) {
  if (Array.isArray(markup)) return markup.flatMap((each) => findAll(kind, each));
  if (!markup?.props) return [];
  const { type, props } = markup;
  if (type === kind) return [props];
  return findAll(kind, typeof type === "function" ? type(props) : props.children);
}

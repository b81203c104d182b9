/**
 * The API reference: the introduction of the OpenAPI document of this service, and its operations,
 * which Swagger UI shows.
 *
 * Swagger UI is large. The introduction can be read while the browser loads and runs it.
 *
 * @typedef {{[method: string]: object}} PathItem of the document
 * @typedef {{token?: {value?: string}}} Credentials by the name of the security scheme
 */

/** The key of the token in the session storage of the tab, where the page has it too. */
const TOKEN = "plantstore.token";

/** Each of these methods exists wherever GET or POST does, and shows nothing new. */
const HIDDEN_METHODS = ["head", "options"];

const SWAGGER_UI = /** @type {HTMLScriptElement} */ (document.currentScript).src.replace(
  "reference.js",
  "swagger-ui-bundle.js",
);

const tab = findStorage();

/** Return the session storage. Without it, the token is kept until the reference is reloaded. */
function findStorage() {
  try {
    return window.sessionStorage;
  } catch {
    return null;
  }
}

/**
 * Indent a JSON text, with each number as it was written.
 *
 * @param {string} text
 */
function indent(text) {
  const value = JSON.parse(text, (_key, value, { source }) =>
    typeof value === "number" ? JSON.rawJSON(source) : value,
  );
  return JSON.stringify(value, null, 2);
}

/** @typedef {(props: any) => unknown} Component of React */

/**
 * Swagger UI parses JSON as JavaScript does, and so rounds numbers beyond 2^53. This plugin shows
 * the numbers of responses exactly. Swagger UI sends request bodies as they were typed.
 */
const keepNumbers = () => ({
  wrapComponents: {
    /** @param {Component} Original @param {{React: any}} system @returns {Component} */
    responseBody:
      (Original, { React }) =>
      (props) => {
        let shown = {};
        try {
          shown = { content: indent(props.content), contentType: "text/plain" };
        } catch {
          // The body is not JSON, so it is shown unchanged.
        }
        return React.createElement(Original, { ...props, ...shown });
      },
  },
});

/** This plugin shares the token with the page: what is entered or removed here, is there too. */
const shareToken = () => ({
  statePlugins: {
    auth: {
      wrapActions: {
        /** @param {(credentials: Credentials) => unknown} original */
        authorize:
          (original) =>
          (/** @type {Credentials} */ { token }) => {
            const value = token?.value?.trim() ?? "";
            tab?.setItem(TOKEN, value);
            return original({ token: { ...token, value } });
          },
        /** @param {(names: string[]) => unknown} original */
        logout: (original) => (/** @type {string[]} */ names) => {
          tab?.removeItem(TOKEN);
          return original(names);
        },
      },
    },
  },
});

/**
 * This plugin names the fields and the button that Swagger UI gives no names. It adds the heading
 * that precedes those of the groups of operations. Paths of operations are no links, because each is
 * within a button, which also changes the address.
 */
const makeAccessible = () => ({
  wrapComponents: {
    /** @param {Component} Original @param {{React: any}} system @returns {Component} */
    operations:
      (Original, { React }) =>
      (props) => {
        const heading = React.createElement("h2", {}, "Operations");
        return React.createElement("div", {}, heading, React.createElement(Original, props));
      },
    /** @param {Component} Original @param {{React: any}} system @returns {Component} */
    OperationSummaryPath:
      (Original, { React }) =>
      (props) => {
        const operationProps = props.operationProps.set("isDeepLinkingEnabled", false);
        return React.createElement(Original, { ...props, operationProps });
      },
    /** @param {Component} Original @param {{React: any}} system @returns {Component} */
    TextArea:
      (Original, { React }) =>
      (props) =>
        React.createElement(Original, { "aria-label": "Request body", ...props }),
    /** @param {Component} Original @param {{React: any}} system @returns {Component} */
    ExamplesSelect:
      (Original, { React }) =>
      (props) => {
        const select = React.createElement(Original, { ...props, showLabels: false });
        return React.createElement("label", { className: "example-choice" }, "Example:", select);
      },
    /** @param {Component} Original @param {{React: any}} system @returns {Component} */
    JsonSchema_string:
      (Original, { React }) =>
      (props) => {
        const field = React.createElement(Original, props);
        if (!props.schema.has("enum")) return field;
        const name = React.createElement("span", { className: "unseen" }, props.description);
        return React.createElement("label", {}, name, field);
      },
    /** @param {Component} Original @param {{React: any}} system @returns {Component} */
    CloseIcon:
      (Original, { React }) =>
      (props) => {
        const name = { role: "img", "aria-hidden": false, "aria-label": "Close the dialog" };
        return React.createElement(Original, { ...props, ...name });
      },
  },
});

/** There is one server, this one, and the introduction is above: this plugin leaves out both. */
const leaveOut = () => ({
  components: { ServersContainer: () => null, InfoContainer: () => null },
});

/**
 * Swagger UI resolves the references of the security schemes at the start. This takes as long as
 * showing all operations, since it parses the whole document again. The schemes have no references.
 */
const skipResolving = () => ({
  statePlugins: {
    spec: {
      wrapActions: {
        /** @param {(path: string[]) => unknown} original */
        requestResolvedSubtree: (original) => (/** @type {string[]} */ path) =>
          path[0] === "components" ? { type: "skipped" } : original(path),
      },
    },
  },
});

/** Load the OpenAPI document, with the address of this service. */
async function readInterface() {
  const answer = await fetch("openapi.json");
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  // Leave out the bounds of int64: they would be rounded, and the format implies them.
  const spec = JSON.parse(await answer.text(), (_key, value) =>
    Number.isInteger(value) && !Number.isSafeInteger(value) ? undefined : value,
  );
  for (const path of /** @type {PathItem[]} */ (Object.values(spec.paths))) {
    for (const method of HIDDEN_METHODS) delete path[method];
  }
  // A proxy may add a prefix to the paths of the service.
  return { ...spec, servers: [{ url: new URL(".", location.href).href.replace(/\/$/, "") }] };
}

/**
 * Show the introduction. Of Markdown, it has paragraphs, `code` and **strong** words.
 *
 * @param {{openapi: string, info: Record<string, any>}} spec
 */
function introduce({ openapi, info }) {
  const names = { "*": "strong", "`": "code" };
  const place = find("#introduction");
  find("#version").textContent = `${info.version} · OpenAPI ${openapi} · ${info.license.name}`;
  for (const paragraph of info.description.split(/\n{2,}/)) {
    const parts = paragraph.split(/(\*\*.+?\*\*|`.+?`)/).map((/** @type {string} */ text) => {
      const name = names[/** @type {"*"|"`"} */ (text[0])];
      if (name === undefined) return text;
      return Object.assign(document.createElement(name), {
        textContent: text.replaceAll(text[0], ""),
      });
    });
    const element = document.createElement("p");
    element.append(...parts);
    place.append(element);
  }
}

/**
 * Load Swagger UI when the operations come near the screen, the address names one of them, or a key
 * is pressed, as to search in the document. On a phone, this is after the introduction was read.
 */
async function loadSwaggerUi() {
  const { promise, resolve } = Promise.withResolvers();
  const place = find("#reference");
  const options = { rootMargin: "0px 0px 25%" };
  new IntersectionObserver(
    ([{ isIntersecting }]) => isIntersecting && resolve(null),
    options,
  ).observe(place);
  window.addEventListener("keydown", resolve, { once: true });
  if (location.hash === "") await promise;
  place.textContent = "The operations are loading…";
  await new Promise((resolve, reject) => {
    const script = document.createElement("script");
    const onerror = () => reject(new Error("Swagger UI is missing"));
    document.head.append(Object.assign(script, { src: SWAGGER_UI, onload: resolve, onerror }));
  });
}

/** @param {string} selector */
function find(selector) {
  return /** @type {Element} */ (document.querySelector(selector));
}

/** @param {object} spec */
function show(spec) {
  const ui = SwaggerUIBundle({
    dom_id: "#reference",
    spec,
    plugins: [keepNumbers, shareToken, makeAccessible, leaveOut, skipResolving],
    deepLinking: true,
    displayRequestDuration: true,
    tryItOutEnabled: true,
    validatorUrl: null, // Send nothing to other hosts.
    onComplete: () => {
      const token = tab?.getItem(TOKEN);
      if (token) ui.preauthorizeApiKey("token", token);
    },
  });
}

/** Swagger UI's dark mode is a class. */
function followColorScheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.onchange = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
  document.documentElement.classList.toggle("dark-mode", dark.matches);
}

window.onpageshow = ({ persisted }) => {
  // The back button would restore a reference with a token after the sign-out.
  if (persisted) location.reload();
};

followColorScheme();
readInterface()
  .then(async (spec) => {
    introduce(spec);
    fetch(SWAGGER_UI).catch(() => {}); // so that it is in the cache when it is needed
    await loadSwaggerUi();
    show(spec);
  })
  .catch((error) => {
    find("#reference").textContent = `The API reference cannot be loaded: ${error.message}`;
  });

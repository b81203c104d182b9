/**
 * The API reference: Swagger UI, which shows the OpenAPI document of this service.
 *
 * This script runs before Swagger UI is loaded, so that the document is loaded at the same time.
 *
 * @typedef {{[method: string]: object}} PathItem of the document
 * @typedef {{token?: {value?: string}}} Credentials by the name of the security scheme
 */

/** The key of the token in the session storage of the tab, where the page has it too. */
const TOKEN = "plantstore.token";

/** Each of these methods exists wherever GET or POST does, and shows nothing new. */
const HIDDEN_METHODS = ["head", "options"];

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

/** This plugin names the fields and the button that Swagger UI gives no names. */
const nameFields = () => ({
  wrapComponents: {
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
    CloseIcon:
      (Original, { React }) =>
      (props) => {
        const name = { role: "img", "aria-hidden": false, "aria-label": "Close the dialog" };
        return React.createElement(Original, { ...props, ...name });
      },
  },
});

/** There is one server, this one, so this plugin leaves out the choice of a server. */
const hideServers = () => ({ components: { ServersContainer: () => null } });

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

/** @param {object} spec */
function show(spec) {
  const ui = SwaggerUIBundle({
    dom_id: "#reference",
    spec,
    plugins: [keepNumbers, shareToken, nameFields, hideServers, skipResolving],
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
const loaded = new Promise((resolve) => document.addEventListener("DOMContentLoaded", resolve));
Promise.all([readInterface(), loaded]).then(
  ([spec]) => show(spec),
  (error) => {
    const place = document.querySelector("#reference");
    if (place) place.textContent = `The API reference cannot be loaded: ${error.message}`;
  },
);

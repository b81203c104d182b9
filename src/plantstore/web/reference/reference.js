/**
 * Swagger UI parses JSON as JavaScript does, and so rounds numbers beyond 2^53. This script shows
 * the numbers of responses exactly. Swagger UI sends request bodies as they were typed.
 */

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

/** @typedef {(props: {content: string}) => unknown} Component of React */

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

/** Load the OpenAPI document, with the address of this service. */
async function readInterface() {
  const answer = await fetch("openapi.json");
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  // Leave out the bounds of int64: they would be rounded, and the format implies them.
  const spec = JSON.parse(await answer.text(), (_key, value) =>
    Number.isInteger(value) && !Number.isSafeInteger(value) ? undefined : value,
  );
  // A proxy may add a prefix to the paths of the service.
  return { ...spec, servers: [{ url: new URL(".", location.href).href.replace(/\/$/, "") }] };
}

/** @param {object} spec */
function show(spec) {
  SwaggerUIBundle({
    dom_id: "#reference",
    spec,
    plugins: [keepNumbers],
    deepLinking: true,
    displayRequestDuration: true,
    tryItOutEnabled: true,
    validatorUrl: null, // Send nothing to other hosts.
  });
}

readInterface().then(show, (error) => {
  const place = document.querySelector("#reference");
  if (place) place.textContent = `The API reference cannot be loaded: ${error.message}`;
});

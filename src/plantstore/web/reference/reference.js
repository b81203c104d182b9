/**
 * Swagger UI reads JSON as JavaScript does, and so rounds whatever is beyond 2^53. Here ids
 * are shown as they came; what is sent goes out as it was typed.
 */

/**
 * Write a JSON text over several lines, with each number as it is there.
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
          // It is no JSON, and shown as it came.
        }
        return React.createElement(Original, { ...props, ...shown });
      },
  },
});

/** Read the interface, as that of the service which this page is from. */
async function readInterface() {
  const answer = await fetch("openapi.json");
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  // Without the bounds of int64: the format says them, and exactly.
  const spec = JSON.parse(await answer.text(), (_key, value) =>
    Number.isInteger(value) && !Number.isSafeInteger(value) ? undefined : value,
  );
  // A proxy may have it under a path of its own.
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
    validatorUrl: null, // Nothing is sent to another host.
  });
}

readInterface().then(show, (error) => {
  const place = document.querySelector("#reference");
  if (place) place.textContent = `The interface does not load: ${error.message}`;
});

/* global SwaggerUIBundle */

/**
 * Swagger UI reads JSON as JavaScript does, and so rounds whatever is beyond 2^53. Here ids
 * are shown as they came; what is sent goes out as it was typed.
 */

/** Write a JSON text over several lines, with each number as it is there. */
function indent(text) {
  const keep = (key, value, { source }) =>
    typeof value === "number" ? JSON.rawJSON(source) : value;
  return JSON.stringify(JSON.parse(text, keep), null, 2);
}

const keepNumbers = () => ({
  wrapComponents: {
    responseBody: (Original, { React }) => (props) => {
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
  const spec = JSON.parse(await answer.text(), (key, value) =>
    Number.isInteger(value) && !Number.isSafeInteger(value) ? undefined : value,
  );
  // A proxy may have it under a path of its own.
  return { ...spec, servers: [{ url: new URL(".", location).href.replace(/\/$/, "") }] };
}

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
  document.getElementById("reference").textContent = `The interface does not load: ${error.message}`;
});

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

/** Read the interface without the bounds of int64: the format says them, and exactly. */
async function readInterface() {
  const answer = await fetch("openapi.json");
  return JSON.parse(await answer.text(), (key, value) =>
    Number.isInteger(value) && !Number.isSafeInteger(value) ? undefined : value,
  );
}

readInterface().then((spec) =>
  SwaggerUIBundle({
    dom_id: "#reference",
    spec,
    plugins: [keepNumbers],
    deepLinking: true,
    displayRequestDuration: true,
    tryItOutEnabled: true,
    validatorUrl: null, // Nothing is sent to another host.
  }),
);

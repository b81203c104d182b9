/** Markup in JavaScript. An element with `data-needs` is left out if the token lacks the scope. */

import htm from "./htm.mjs";
import { h } from "./preact.mjs";
import { may } from "./state.js";

/**
 * Return a text that changes in an element of its own, which a new text replaces: a browser that
 * translates the page has replaced the old text, and its change would not be seen. An isolated part,
 * such as a name, is not translated.
 *
 * @param {any} child other markup stays as it is
 * @returns {any}
 */
export function renew(child) {
  if (typeof child !== "string" || child === "") return child;
  const parts = child.split(/\u2068(.*?)(?:\u2069|$)/s);
  const shown = parts.map((part, at) => (at % 2 === 0 ? part : html`<bdi>${part}</bdi>`));
  return html`<span key=${child}>${shown}</span>`;
}

/** Isolate a name within a text. @param {string} name */
export function isolate(name) {
  return `\u2068${name}\u2069`;
}

export const html = htm.bind(
  /** @this {number[]} @param {any} type @param {any} props @param {any[]} children */
  function (type, props, ...children) {
    this[0] = 3; // htm must not keep an element for the next time: other scopes may be known then.
    if (!may(props?.["data-needs"])) return null;
    // Names and tags stay as they are if a browser translates the page. The property is a boolean.
    if (type === "bdi") props = { ...props, translate: false };
    const isTold = props?.role === "status" || props?.role === "alert";
    const all = isTold ? children.map(renew) : children;
    // Preact would set an empty text again each time, which screen readers may notice.
    return h(type, props, ...all.map((child) => (child === "" ? null : child)));
  },
);

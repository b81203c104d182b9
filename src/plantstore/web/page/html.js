/** Markup in JavaScript. An element with `data-needs` is left out if the token lacks the scope. */

import htm from "./htm.mjs";
import { h } from "./preact.mjs";
import { may } from "./state.js";

export const html = htm.bind(
  /** @this {number[]} @param {any} type @param {any} props @param {any[]} children */
  function (type, props, ...children) {
    this[0] = 3; // htm must not keep an element for the next time: other scopes may be known then.
    if (!may(props?.["data-needs"])) return null;
    // Names and tags stay as they are if a browser translates the page.
    if (type === "bdi") props = { ...props, translate: "no" };
    // Preact would set an empty text again each time, which screen readers may notice.
    return h(type, props, ...children.map((child) => (child === "" ? null : child)));
  },
);

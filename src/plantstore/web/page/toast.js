/** The feedback at the edge of the window: what was done, and a button that undoes it. */

import { element } from "./elements.js";

/**
 * Show a text until the next one comes. Screen readers announce it.
 *
 * @param {string} text
 * @param {() => void} [undo] is called when the button Undo is pressed
 */
export function toast(text, undo) {
  const button = element("undo");
  element("said").textContent = text;
  button.hidden = !undo;
  button.onclick = () => {
    toast("");
    undo?.();
  };
  element("dismiss").hidden = text === "";
  element("dismiss").onclick = () => toast("");
}

/** Remove a text that another page of plants makes outdated, but not the chance to undo. */
export function settle() {
  if (element("undo").hidden) toast("");
}

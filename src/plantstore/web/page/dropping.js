/** The ways to give a file to the page: drop it on the page, or choose it. */

import { element } from "./elements.js";

/**
 * Call `take` with the files of each drop or choice.
 *
 * @param {{isOpen: () => boolean, take: (files: File[]) => void}} how `isOpen` tells whether
 *   files are taken now
 */
export function watchFiles({ isOpen, take }) {
  const input = element("file", HTMLInputElement);
  input.onchange = () => {
    take([...(input.files ?? [])]);
    input.value = ""; // The same file may be chosen again.
  };
  document.ondragover = (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault(); // otherwise the browser would open the file
    document.body.classList.toggle("dropping", isOpen());
  };
  document.ondragleave = () => document.body.classList.remove("dropping");
  document.ondrop = (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    document.body.classList.remove("dropping");
    if (isOpen()) take([...(event.dataTransfer?.files ?? [])]);
  };
}

/** @param {DragEvent} event */
function hasFiles({ dataTransfer }) {
  return dataTransfer?.types.includes("Files") ?? false;
}

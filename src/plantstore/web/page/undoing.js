/** The button that undoes the last change, or lets the user choose one of the last. */

import { undoChange } from "./changes.js";
import { Choice, Frame, open } from "./dialogs.js";
import { html } from "./html.js";
import { state } from "./state.js";

/** If there is one change, the feedback may have this button instead. */
export function UndoButton() {
  const { undos, toast, job } = state;
  if (undos.length <= (toast.isOffer ? 1 : 0) || job) return null;
  const last = describe(undos[undos.length - 1], "Undo: ");
  const text = undos.length === 1 ? last : "Undo…";
  const act = undos.length === 1 ? () => undoChange() : chooseUndo;
  return html`<button id="undo" type="button" title=${last} onclick=${act}>${text}</button>`;
}

function chooseUndo() {
  const undos = state.undos.toReversed();
  /** @type {import("./dialogs.js").Act} */
  const act = async ({ which = "0" }) => {
    setTimeout(undoChange, 0, undos[Number(which)]); // Its progress is shown without a dialog.
  };
  const options = undos.map((undo, at) => [String(at), describe(undo)]);
  open({ View: UndoView, title: "Undo a change", content: { options }, act, isDisposable: true });
}

/** @param {{options: string[][]}} props */
function UndoView({ options }) {
  return html`
    <${Frame} id="undoing" buttons=${[["undo", "Undo", "primary"]]}>
      <${Choice} name="which" options=${options} />
    <//>
  `;
}

/** @param {import("./changes.js").Undo} undo */
function describe({ done, text }, prefix = "") {
  return `${done > 0 ? "Continue: " : prefix}${text}`;
}

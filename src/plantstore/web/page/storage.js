/** What this tab keeps after a reload, until it is closed or its user signs out. */

/** @typedef {import("./changes.js").Undo} Undo */

/** The key of what can be undone, and its largest text: a browser keeps some 5 million characters. */
const UNDOS = "plantstore.undos";
const UNDOS_CHARACTERS_MAX = 2_000_000;

/** The session storage, or null: some browsers are set to have none. */
export const tab = findStorage();

function findStorage() {
  try {
    return window.sessionStorage;
  } catch {
    return null;
  }
}

/** Keep what can be undone: the newest that fits. @param {Undo[]} undos */
export function keepUndos(undos) {
  tab?.removeItem(UNDOS);
  const text = JSON.stringify(undos);
  if (text.length > UNDOS_CHARACTERS_MAX) return keepUndos(undos.slice(1));
  try {
    tab?.setItem(UNDOS, text);
  } catch {
    // The storage is full.
  }
}

/** Return what was kept. @returns {Undo[]} */
export function readUndos() {
  return JSON.parse(tab?.getItem(UNDOS) ?? "[]");
}

/** What this tab keeps after a reload, until it is closed or its user signs out. */

/** The key of what can be undone, and its largest text: a browser keeps some 5 million characters. */
const UNDO = "plantstore.undo";
const UNDO_CHARACTERS_MAX = 2_000_000;

/** The session storage, or null: some browsers are set to have none. */
export const tab = findStorage();

function findStorage() {
  try {
    return window.sessionStorage;
  } catch {
    return null;
  }
}

/** Keep what can be undone, instead of what was kept. @param {?object} [undo] */
export function keepUndo(undo) {
  const text = JSON.stringify(undo ?? null);
  tab?.removeItem(UNDO);
  if (!undo || text.length > UNDO_CHARACTERS_MAX) return;
  try {
    tab?.setItem(UNDO, text);
  } catch {
    // The storage is full.
  }
}

/** Return what was kept, if it can be read. @returns {?import("./changes.js").Undo} */
export function readUndo() {
  return JSON.parse(tab?.getItem(UNDO) ?? "null");
}

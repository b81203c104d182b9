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
  /** @type {string[]} */
  const texts = [];
  let length = 0;
  for (const undo of undos.toReversed()) {
    const text = JSON.stringify(undo);
    length += text.length;
    if (length > UNDOS_CHARACTERS_MAX) break;
    texts.unshift(text);
  }
  tab?.removeItem(UNDOS);
  try {
    tab?.setItem(UNDOS, `[${texts}]`);
  } catch {
    // The storage is full.
  }
}

/** Return what was kept. @returns {Undo[]} */
export function readUndos() {
  return JSON.parse(tab?.getItem(UNDOS) ?? "[]");
}

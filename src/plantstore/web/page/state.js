/** The state of the page: all that it shows, except what is typed into the fields of forms. */

/** @typedef {import("./client.js").Plant} Plant */
/** @typedef {import("./requests.js").ApiError} ApiError */

export const state = {
  /** Why the service cannot respond, or "". */
  outage: "",
  /** The form that asks for a token; `isAgain` if a dialog is open, which must remain. */
  signIn: /** @type {?{message: string, isAgain: boolean}} */ (null),
  isSignedIn: false,
  /** What the token permits; null if that is not known. */
  scopes: /** @type {?string[]} */ (null),
  /** Whether the catalogue is shown. */
  isOpen: false,
  /** What is typed into the search box and into *Begin at*, and the query of the address. */
  search: "",
  from: "",
  query: new URLSearchParams(),
  isLoading: false,
  /** Whether what is typed is not shown yet. */
  isSearching: false,
  /** The page of plants that is shown, its query, and why there is none or no newer one. */
  listing: /** @type {?import("./client.js").Listing} */ (null),
  shownQuery: new URLSearchParams(),
  problem: /** @type {?ApiError} */ (null),
  /** The plants that are selected, by id, also those of other pages and searches. */
  selected: /** @type {Map<string, Plant>} */ (new Map()),
  /** The ids of the plant that was selected last, and of the one whose row had the focus last. */
  picked: "",
  current: "",
  /** The tags that begin with what is typed. */
  tags: /** @type {string[]} */ ([]),
  /** What filters and orders the list of tags, and the list: undefined if it was not read yet, null if it cannot be. */
  tagFilter: "",
  tagSort: "tag",
  tagList: /** @type {undefined|null|(import("./client.js").Tags & {total: number})} */ (undefined),
  /** What is printed instead of the page. */
  sheet: /** @type {any} */ (null),
  /** Whether a file is dragged over the page. */
  isDropping: false,
  /** The feedback, and the label and the function of its button. */
  toast: /** @type {{text: string, plant?: ?Plant, isGone?: boolean, note?: string,
   *   action?: [string, () => void]}} */ ({ text: "" }),
  /** What was done with many plants, and can be undone; the last is at the end. */
  sets: /** @type {import("./sets.js").Entry[]} */ ([]),
  /** Whether the service keeps changes, so that they can be undone; null if that is not known. */
  keepsChanges: /** @type {?boolean} */ (null),
  dialog: /** @type {?import("./dialogs.js").Dialog} */ (null),
  /** The question above the dialog. */
  question: /** @type {?import("./dialogs.js").Question} */ (null),
};

let show = () => {};

/** Show the state now, and after each change. @param {() => void} listener shows it */
export function onUpdate(listener) {
  show = listener;
  show();
}

/** Change the state. The change is shown at once. @param {Partial<typeof state>} [changes] */
export function update(changes) {
  Object.assign(state, changes);
  show();
}

/**
 * Change a dialog, which may be closed already.
 *
 * @param {?import("./dialogs.js").Dialog|undefined} dialog
 * @param {Partial<import("./dialogs.js").Dialog>} changes
 */
export function change(dialog, changes) {
  Object.assign(dialog ?? {}, changes);
  show();
}

/** Return whether the token permits something, or may permit it. @param {string} [scope] */
export function may(scope) {
  return scope === undefined || (state.scopes?.includes(scope) ?? true);
}

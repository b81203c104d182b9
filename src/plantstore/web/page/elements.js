/** The elements of the page, each looked up with the type that it has. */

/**
 * Return an element by its id.
 *
 * @template {HTMLElement} [T=HTMLElement]
 * @param {string} id
 * @param {new () => T} [type] if the caller needs more than any element has
 * @returns {T}
 * @throws {TypeError} if there is none of this type
 */
export function element(id, type) {
  return within(document, `#${id}`, type);
}

/**
 * Return the first element within another one that a selector matches.
 *
 * @template {HTMLElement} [T=HTMLElement]
 * @param {ParentNode} place
 * @param {string} selector
 * @param {new () => T} [type] if the caller needs more than any element has
 * @returns {T}
 * @throws {TypeError} if there is none of this type
 */
export function within(place, selector, type) {
  const found = place.querySelector(selector);
  if (found instanceof (type ?? HTMLElement)) return /** @type {T} */ (found);
  throw new TypeError(`The page has no such element: ${selector}`);
}

/**
 * Return a copy of what a template holds.
 *
 * @param {string} id
 */
export function copyTemplate(id) {
  return /** @type {DocumentFragment} */ (element(id, HTMLTemplateElement).content.cloneNode(true));
}

/**
 * Show a text, or other words for an empty or a missing one.
 *
 * @param {HTMLElement} place
 * @param {string|undefined} text
 * @param {string} [missing]
 */
export function fill(place, text, missing = "") {
  place.textContent = text || (text === undefined ? missing : "(empty)");
  place.classList.toggle("empty", !text);
}

/** @param {string} text what the window shows */
export function entitle(text) {
  document.title = `${text} · Plant Store`;
}

/** @param {number} number @param {string} [more] stands before the noun */
export function countPlants(number, more = "") {
  return `${number.toLocaleString("en")}${more} ${number === 1 ? "plant" : "plants"}`;
}

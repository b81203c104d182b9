/** The page: sign in with a token, and manage plants. */

import { Catalogue } from "./catalogue.js";
import { Client, KEEPS_IDS } from "./client.js";
import { watchFiles } from "./dropping.js";
import { addPlants, changePlant } from "./editing.js";
import { element, entitle } from "./elements.js";
import { Exporting } from "./exporting.js";
import { showCounts, watchHealth } from "./health.js";
import { Importing } from "./importing.js";
import { RowMenu } from "./menu.js";
import { ApiError } from "./requests.js";
import { Selection } from "./selection.js";
import { deletePlants, nameThem, restorePlants, tagPlants } from "./several.js";
import { toast } from "./toast.js";

/** @typedef {import("./client.js").Plant} Plant */

/** The keys in the session storage of the tab: the token, or the reason for the sign-out. */
const TOKEN = "plantstore.token";
const REFUSAL = "plantstore.refusal";

const tab = findStorage();
const client = new Client();
const menu = new RowMenu((what, plant) => (what === "change" ? open(plant.id) : remove([plant])));
const selection = new Selection((what, plants) => (what === "tag" ? setTag : remove)(plants));
const catalogue = new Catalogue(client, menu, selection);
const importing = new Importing(client, () => catalogue.show());
const exporting = new Exporting(client);

/** The scopes of the token; null if they are not known. @type {?string[]} */
let scopes = null;

/** @param {string} scope */
const may = (scope) => scopes?.includes(scope) ?? true;

/** Return the session storage. Without it, the token is kept until the page is reloaded. */
function findStorage() {
  try {
    return window.sessionStorage;
  } catch {
    return null;
  }
}

/**
 * Ask for a token; `message` says why the last one was refused.
 *
 * @param {string} message
 */
function ask(message) {
  element("entry").hidden = false;
  element("token").ariaInvalid = String(message !== "");
  element("token-error").textContent = message;
  element("token").focus();
}

/**
 * Sign in with a token.
 *
 * @param {string} token
 */
async function enter(token) {
  // A browser cannot send it in a header field, so the service cannot refuse it.
  if (/[^\x21-\x7e]/.test(token)) {
    ask("The token is malformed: it contains invalid characters");
    return;
  }
  const again = element("again", HTMLDialogElement);
  const isAgain = again.open;
  tab?.setItem(TOKEN, token);
  client.token = token;
  again.close();
  element("entry").hidden = true;
  element("forget").hidden = false;
  const shown = catalogue.show();
  await offer();
  element("catalogue").hidden = false;
  // Meanwhile, a file may have been dropped, which moves the focus.
  if (!isAgain && document.activeElement === document.body) element("plants-title").focus();
  await shown;
  if (!isAgain) openLinked();
}

/** Offer only what the token permits. */
async function offer() {
  try {
    scopes = await client.readScopes();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    scopes = null; // The service refuses what the token does not permit.
  }
  /** @type {NodeListOf<HTMLElement>} */
  const places = document.querySelectorAll("[data-needs]");
  for (const place of places) place.hidden = !may(place.dataset.needs ?? "");
  const canAct = may("plants:update") || may("plants:delete");
  element("listing").classList.toggle("plain", !canAct);
}

/** Ask for a new token: at once if a dialog is open, because what is typed there must remain. */
client.onrefusal = ({ message }) => {
  const again = element("again", HTMLDialogElement);
  if (!document.querySelector("dialog[open]")) {
    leave(message);
    return;
  }
  again.append(element("entry"));
  if (!again.open) again.showModal();
  element("token", HTMLInputElement).value = "";
  ask(message);
};

/**
 * Sign out: remove the token and all plants from the page, by reloading it.
 *
 * @param {string} message why the service refused the token; its user may want to come back here
 */
function leave(message) {
  tab?.removeItem(TOKEN);
  tab?.setItem(REFUSAL, message);
  importing.stop(); // otherwise the browser would ask before leaving the page
  if (message) location.reload();
  else location.replace(location.pathname);
}

async function add() {
  const ids = await addPlants(client);
  if (ids.length === 0) return;
  toast(`Stored: ${ids.join(", ")}`);
  await catalogue.show();
}

/** Open the plant that the address names: `#/plants/7`. */
async function openLinked() {
  const id = /^#\/plants\/(-?\d+)$/.exec(location.hash)?.[1];
  if (id === undefined || document.querySelector("dialog[open]")) return;
  let outcome = "failed";
  try {
    const shown = await client.read(id);
    if (document.querySelector("dialog[open]")) return;
    outcome = await changePlant(client, shown, may("plants:update"));
    if (outcome === "done") toast(`Changed: ${id}`);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    toast(error.message);
  }
  history.replaceState(history.state, "", location.pathname + location.search);
  if (outcome !== "left") await catalogue.show();
}

/** @param {string} id */
function open(id) {
  history.replaceState(history.state, "", `#/plants/${id}`);
  openLinked();
}

/** @param {Plant[]} plants */
async function remove(plants) {
  const deleted = await deletePlants(client, plants);
  const undo = may("plants:create") ? () => restore(deleted) : undefined;
  if (deleted.length > 0) toast(`Deleted: ${nameThem(deleted)}`, undo);
  await catalogue.show();
}

/** @param {Plant[]} plants */
async function restore(plants) {
  try {
    await restorePlants(client, plants);
    toast(`Stored again: ${nameThem(plants)}`);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    toast(error.message, () => restore(plants));
  }
  await catalogue.show();
}

/** @param {Plant[]} plants */
async function setTag(plants) {
  const outcome = await tagPlants(client, plants);
  if (outcome === "done") toast(`Changed: ${nameThem(plants)}`);
  if (outcome !== "left") await catalogue.show();
}

element("token-form").onsubmit = (event) => {
  event.preventDefault();
  enter(element("token", HTMLInputElement).value.trim());
};
element("forget").onclick = () => leave("");
for (const id of ["add", "start-add"]) element(id).onclick = add;
element("start-import").onclick = () => element("file").click();
element("export").onclick = () => exporting.run(catalogue.query);
element("plants").onclick = (event) => {
  const link = event.target instanceof Element ? event.target.closest(".name a") : null;
  const id = link?.closest("tr")?.dataset.id;
  if (!id || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  open(id);
};
watchFiles({
  isOpen: () => client.token !== "" && may("plants:create"),
  take: (files) => importing.take(files),
});
window.onpopstate = () => {
  if (client.token === "") return;
  catalogue.show();
  openLinked();
};
window.onpageshow = ({ persisted }) => {
  // The back button would restore a page with plants after the sign-out.
  if (persisted) location.reload();
};

showCounts(client);
watchHealth(() => {
  if (catalogue.isStale) catalogue.show();
});
const kept = tab?.getItem(TOKEN);
if (!KEEPS_IDS) {
  element("fault").textContent =
    "This browser is too old: it would round large ids. Use a version of 2025 or later.";
} else if (kept) enter(kept);
else {
  entitle("Sign in");
  ask(tab?.getItem(REFUSAL) ?? "");
  tab?.removeItem(REFUSAL);
}

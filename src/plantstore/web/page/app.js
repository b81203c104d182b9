/** The page: sign in with a token, and manage plants. */

import { Catalogue } from "./catalogue.js";
import { Client, KEEPS_IDS } from "./client.js";
import { deletePlant, editPlant } from "./dialogs.js";
import { watchFiles } from "./dropping.js";
import { element } from "./elements.js";
import { Exporting } from "./exporting.js";
import { showCounts, watchHealth } from "./health.js";
import { Importing } from "./importing.js";

/** The keys in the session storage of the tab: the token, or the reason for the sign-out. */
const TOKEN = "plantstore.token";
const REFUSAL = "plantstore.refusal";

const tab = findStorage();
const client = new Client();
const catalogue = new Catalogue(client, act);
const importing = new Importing(client, () => catalogue.show());
const exporting = new Exporting(client);
client.onrefusal = ({ message }) => leave(message);

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
function enter(token) {
  // A browser cannot send it in a header field, so the service cannot refuse it.
  if (/[^\x21-\x7e]/.test(token)) {
    ask("The token is malformed: it contains invalid characters");
    return;
  }
  tab?.setItem(TOKEN, token);
  client.token = token;
  element("entry").hidden = true;
  element("catalogue").hidden = false;
  element("forget").hidden = false;
  element("plants-title").focus();
  showCounts(client);
  catalogue.show();
}

/**
 * Sign out: remove the token and all plants from the page, by reloading it.
 *
 * @param {string} message
 */
function leave(message) {
  tab?.removeItem(TOKEN);
  tab?.setItem(REFUSAL, message);
  importing.stop(); // otherwise the browser would ask before leaving the page
  location.replace(location.pathname);
}

/**
 * Add a plant, or change or delete a plant of the list.
 *
 * @param {keyof typeof DONE} what
 * @param {import("./client.js").Plant} [plant] the one that is shown
 */
async function act(what, plant) {
  let id = plant?.id;
  let outcome;
  if (what === "delete" && plant) outcome = await deletePlant(plant, () => client.delete(plant.id));
  else {
    outcome = await editPlant(plant, (edited) => {
      ({ id } = edited);
      return what === "add" ? client.create(edited) : client.replace(edited);
    });
  }
  if (outcome === "done") element("said").textContent = `${DONE[what]}: ${id}`;
  if (outcome !== "left") await catalogue.show();
}

const DONE = { add: "Stored", change: "Changed", delete: "Deleted" };

element("token-form").onsubmit = (event) => {
  event.preventDefault();
  enter(element("token", HTMLInputElement).value.trim());
};
element("forget").onclick = () => leave("");
element("add").onclick = () => act("add");
element("export").onclick = () => exporting.run();
watchFiles({ isOpen: () => client.token !== "", take: (files) => importing.take(files) });
window.onpageshow = ({ persisted }) => {
  // The back button would restore a page with plants after the sign-out.
  if (persisted) location.reload();
};

watchHealth();
const kept = tab?.getItem(TOKEN);
if (!KEEPS_IDS) {
  element("fault").textContent =
    "This browser is too old: it would round large ids. Use a version of 2025 or later.";
} else if (kept) enter(kept);
else {
  ask(tab?.getItem(REFUSAL) ?? "");
  tab?.removeItem(REFUSAL);
}

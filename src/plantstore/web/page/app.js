/** The page: what a person with a token does with plants. */

import { Catalogue } from "./catalogue.js";
import { Client, KEEPS_IDS } from "./client.js";
import { deletePlant, editPlant } from "./dialogs.js";
import { Dropping } from "./dropping.js";
import { showCounts, watchHealth } from "./health.js";

/** What the tab keeps, and loses when it closes: the token, or why there is none any more. */
const TOKEN = "plantstore.token";
const REFUSAL = "plantstore.refusal";

const element = (id) => document.getElementById(id);

const tab = findStorage();
const client = new Client();
const catalogue = new Catalogue(client, act);
const dropping = new Dropping(client, () => catalogue.show());
client.onrefusal = ({ message }) => leave(message);

/** Return the storage of the tab; without one, a token is good until the page is loaded anew. */
function findStorage() {
  try {
    return window.sessionStorage;
  } catch {
    return null;
  }
}

/** Ask for a token, and say why if there was one. */
function ask(message) {
  element("entry").hidden = false;
  element("token").ariaInvalid = String(message !== "");
  element("token-error").textContent = message;
  element("token").focus();
}

/** Show what a token opens. */
function enter(token) {
  // A browser cannot send it, and so the service cannot say it.
  if (/[^\x21-\x7e]/.test(token)) {
    ask("The token is malformed: it has characters that no token has");
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

/** Forget the token and all that it has shown, by loading the page anew. */
function leave(message) {
  tab?.removeItem(TOKEN);
  tab?.setItem(REFUSAL, message);
  dropping.stop(); // or the browser would ask whether to leave
  location.replace(location.pathname);
}

/** Add a plant, or change or delete one that is shown. */
async function act(what, plant) {
  let id = plant?.id;
  let outcome;
  if (what === "delete") outcome = await deletePlant(plant, () => client.delete(id));
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
  enter(element("token").value.trim());
};
element("forget").onclick = () => leave("");
element("add").onclick = () => act("add", null);
window.onpageshow = ({ persisted }) => {
  // Who goes back to a page that was left finds it as it was, with what the token had shown.
  if (persisted) location.reload();
};

watchHealth();
if (!KEEPS_IDS) {
  element("fault").textContent =
    "This browser is too old: it would round large ids. One of 2025 or later is needed.";
} else if (tab?.getItem(TOKEN)) enter(tab.getItem(TOKEN));
else {
  ask(tab?.getItem(REFUSAL) ?? "");
  tab?.removeItem(REFUSAL);
}

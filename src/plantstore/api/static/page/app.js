/** The page: what a person with a token does with plants. */

import { Catalogue } from "./catalogue.js";
import { Client, KEEPS_IDS } from "./client.js";
import { deletePlant, editPlant } from "./dialogs.js";
import { Dropping } from "./dropping.js";
import { showCounts, watchHealth } from "./health.js";

/** Where the tab keeps the token; it is gone with the tab. */
const TOKEN = "plantstore.token";

const element = (id) => document.getElementById(id);

const client = new Client();
const catalogue = new Catalogue(client, act);
const dropping = new Dropping(client, () => catalogue.show());
client.onrefusal = ({ message }) => leave(message);

/** Show what a token opens. */
async function enter(token) {
  // A browser cannot send it, and so the service cannot say it.
  if (/[^\x21-\x7e]/.test(token)) {
    leave("The token is malformed: it has characters that no token has");
    return;
  }
  sessionStorage.setItem(TOKEN, token);
  client.token = token;
  element("token-error").textContent = "";
  element("said").textContent = "";
  showSections(true);
  showCounts(client);
  if (await catalogue.show()) element("plants-title").focus();
}

/** Forget the token, and say why. */
function leave(message) {
  sessionStorage.removeItem(TOKEN);
  client.token = "";
  dropping.stop();
  catalogue.clear();
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close("");
  showSections(false);
  element("token").value = "";
  element("token").ariaInvalid = String(message !== "");
  element("token-error").textContent = message;
  element("token").focus();
}

function showSections(hasToken) {
  element("entry").hidden = hasToken;
  element("catalogue").hidden = !hasToken;
  element("forget").hidden = !hasToken;
}

async function add() {
  const plant = await editPlant(null, (added) => client.create(added));
  if (plant) await done(`Stored: ${plant.id}`);
}

/** Change or delete a plant that is shown. */
async function act(what, plant) {
  if (what === "change") {
    const changed = await editPlant(plant, (replacement) => client.replace(replacement));
    if (changed) await done(`Changed: ${plant.id}`);
  } else if (await deletePlant(plant, (id) => client.delete(id))) {
    await done(`Deleted: ${plant.id}`);
  }
}

async function done(message) {
  element("said").textContent = message;
  await catalogue.show();
  // The row that held the focus is another one now; the keyboard goes on from above it.
  if (document.activeElement === document.body) element("plants-title").focus();
}

element("token-form").onsubmit = (event) => {
  event.preventDefault();
  enter(element("token").value.trim());
};
element("forget").onclick = () => leave("");
element("add").onclick = add;

watchHealth();
if (!KEEPS_IDS) {
  element("fault").textContent =
    "This browser is too old: it would round large ids. One of 2025 or later is needed.";
} else if (sessionStorage.getItem(TOKEN)) enter(sessionStorage.getItem(TOKEN));
else leave("");

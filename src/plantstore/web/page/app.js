/** The page: sign in with a token, and manage plants. */

import { entitle } from "./address.js";
import { Catalogue } from "./catalogue.js";
import { client, KEEPS_IDS } from "./client.js";
import { followHistory, forgetError, isTyped, QuestionView } from "./dialogs.js";
import { focus, say, Toast } from "./elements.js";
import { html } from "./html.js";
import { watchFiles } from "./importing.js";
import { press } from "./keyboard.js";
import { followAddress, go, refresh } from "./listing.js";
import { openLinkedPlant, openPlant } from "./plant.js";
import { render } from "./preact.mjs";
import { ApiError, messageOf } from "./requests.js";
import { Enter, SignIn, SignOut, start } from "./session.js";
import { isRunning } from "./sets.js";
import { onUpdate, state, update } from "./state.js";

const ICON = new URL("icon.svg", import.meta.url).href;
const LOOK_SECONDS = 5;
const TOO_OLD =
  "This browser is too old: it would round large ids. Use a version of 2025 or later.";

function App() {
  const { isSignedIn, isOpen, outage, dialog, question, sheet } = state;
  // The first rows would move what is below the list.
  const isListMissing = !state.listing && !state.problem;
  return html`
    <header>
      <h1><img src=${ICON} alt="" width="32" height="32" /> Plant Store</h1>
      <p id="health" role="status">${outage}</p>
      <nav aria-label="Service">
        ${isSignedIn ? html`<${SignOut} />` : isOpen && html`<${Enter} />`}
      </nav>
    </header>
    <main>
      <p id="fault" class="error" role="alert">${KEEPS_IDS ? "" : TOO_OLD}</p>
      <${SignIn} />
      ${isOpen && html`<${Catalogue} />`}
    </main>
    <footer hidden=${isOpen && isListMissing}><a href="docs">API reference</a></footer>
    <${Toast} />
    ${dialog && html`<${dialog.View} ...${dialog.content} />`}
    ${sheet && html`<div id="sheet">${sheet}</div>`}
    ${question && html`<${QuestionView} ...${question} />`}
  `;
}

/** Follow a link to other plants, or to one plant, without reloading. @param {MouseEvent} event */
function follow(event) {
  const link = /** @type {Element} */ (event.target).closest("a");
  const href = link?.getAttribute("href");
  if (!href || link?.target || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (href.startsWith("?")) {
    go(href);
    focus("#plants-title");
  } else if (href.startsWith("#/plants/")) openPlant(href);
  else return;
  event.preventDefault();
}

/**
 * Show the state. If the focused element disappears, the dialog that is open gets the focus, or the row
 * of the list that had it last.
 */
function show() {
  const { dialog, isSignedIn, isOpen, query, isDropping } = state;
  const title = dialog?.title ?? (isSignedIn || isOpen ? entitle(query) || "Plants" : "Sign in");
  document.title = `${title} · Plant Store`;
  document.body.classList.toggle("dropping", isDropping);
  const focused = document.activeElement;
  render(html`<${App} />`, /** @type {Element} */ (document.getElementById("page")));
  if (focused !== document.body && document.activeElement === document.body) {
    const places = ["dialog:last-of-type h2", "#plants [tabindex='0']", "#plants-title"];
    focus(places.find((place) => document.querySelector(place)) ?? "main");
  }
}

/** Check the service repeatedly while the page is visible, and load the list again. */
async function watchService() {
  try {
    if (!document.hidden) {
      await client.probe();
      if (state.outage) update({ outage: "" });
      forgetError(0);
      await refresh();
    }
  } catch (error) {
    update({ outage: messageOf(error) });
  }
  setTimeout(watchService, LOOK_SECONDS * 1000);
}

client.onoutage = ({ message }) => update({ outage: message });
onUpdate(show);
document.onclick = follow;
document.onkeydown = press;
watchFiles();
watchService();
window.onpopstate = () => {
  if (!state.isSignedIn && !state.isOpen) return;
  followHistory();
  followAddress();
  openLinkedPlant();
};
// The browser asks before what is typed, is sent, or is being changed is lost.
window.onbeforeunload = (event) => {
  if (state.isSignedIn && (isRunning() || isTyped())) event.preventDefault();
};
// What a function cannot do, and nobody else says, is said.
window.onunhandledrejection = (event) => {
  if (!(event.reason instanceof ApiError)) return;
  event.preventDefault();
  say(event.reason.message);
};
window.onpageshow = ({ persisted }) => {
  // The back button would restore a page with plants after the sign-out.
  if (persisted) location.reload();
};
if (KEEPS_IDS) start();

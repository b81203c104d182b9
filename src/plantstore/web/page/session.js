/** Signing in with a token, and signing out. */

import { client, tokenIn } from "./client.js";
import { ask as askAbout, DISCARD, forgetError, isTyped, Modal } from "./dialogs.js";
import { focus } from "./elements.js";
import { html, renew } from "./html.js";
import { load } from "./listing.js";
import { openLinkedPlant } from "./plant.js";
import { messageOf } from "./requests.js";
import { readSets, tab } from "./sets.js";
import { state, update } from "./state.js";

/** The keys in the session storage of the tab: the token, or the reason for the sign-out. */
const TOKEN = "plantstore.token";
const REFUSAL = "plantstore.refusal";

/**
 * The signed-in tabs of this service give their token to a new one, and sign out together. The token
 * is in no storage that outlives them.
 */
const tabs = new BroadcastChannel(`plantstore:${new URL(".", location.href).pathname}`);

/** Whether the user has signed out in another tab, which must not get the token again. */
let isAlone = false;

/** How long a new tab waits for the token of another one. */
const ASK_SECONDS = 0.3;

/** Sign in with the token of this tab or of another one, or show public plants, or ask for one. */
export async function start() {
  const refusal = tab?.getItem(REFUSAL);
  tab?.removeItem(REFUSAL);
  tabs.onmessage = listen;
  const token = tab?.getItem(TOKEN) ?? (refusal ? null : await receiveToken());
  if (token) return enter(token);
  const isPublic = document.documentElement.dataset.publicRead === "true";
  if (refusal || !isPublic) ask(refusal ?? "");
  if (isPublic) {
    update({ scopes: ["plants:read"], isOpen: true });
    await load();
    openLinkedPlant();
  }
}

/** @returns {Promise<?string>} the token of another tab */
function receiveToken() {
  const { promise, resolve } = Promise.withResolvers();
  tabs.addEventListener("message", ({ data }) => data.token && resolve(data.token));
  tabs.postMessage({ isAsking: true });
  setTimeout(() => resolve(null), ASK_SECONDS * 1000);
  return promise;
}

/** Listen to other tabs. @param {MessageEvent<{isAsking?: boolean, isEnd?: boolean}>} event */
function listen({ data: { isAsking, isEnd } }) {
  if (!state.isSignedIn) return;
  if (isAsking && !state.signIn && !isAlone) tabs.postMessage({ token: client.token });
  if (!isEnd) return;
  isAlone = true;
  signOut();
}

/** @param {string} message why the last token was refused @param {boolean} [isAgain] */
function ask(message, isAgain = false) {
  update({ signIn: { message, isAgain } });
  focus("#token");
}

/** @param {string} token */
async function enter(token) {
  const isAgain = state.signIn?.isAgain;
  // A browser cannot send it in a header field, so the service cannot refuse it.
  if (/[^\x21-\x7e]/.test(token)) {
    ask("The token is malformed: copy all of it, from plst_", isAgain);
    return;
  }
  tab?.setItem(TOKEN, token);
  client.token = token;
  update({ signIn: null, isSignedIn: true });
  const loaded = load();
  const scopes = await client.readScopes().catch((error) => {
    messageOf(error);
    return null; // The service refuses what the token does not permit.
  });
  if (!state.isSignedIn) return; // The service has refused the token.
  update({ scopes, isOpen: true });
  forgetError(401);
  if (isAgain) return;
  // Meanwhile, a file may have been dropped, which moves the focus.
  if (document.activeElement === document.body) focus("#plants-title");
  await loaded;
  readSets();
  openLinkedPlant();
}

client.onrefusal = ({ message }) => (state.dialog ? ask(message, true) : leave(message));

/**
 * Remove the token and all plants from the page, by reloading it.
 *
 * @param {string} message why the service refused the token; its user may want to come back here
 */
function leave(message) {
  tabs.close(); // Until the page has gone, another tab might ask for the token.
  tab?.removeItem(TOKEN);
  tab?.setItem(REFUSAL, message);
  state.isSignedIn = false;
  if (message) location.reload();
  else location.replace(location.pathname);
}

/** Sign out, after a question if this would lose what is typed or being changed. */
async function signOut() {
  if (!isTyped() || (await askAbout(DISCARD)) === "yes") leave("");
}

export function SignOut() {
  const signOutAll = () => {
    tabs.postMessage({ isEnd: true });
    signOut();
  };
  return html`<button type="button" onclick=${signOutAll}>Sign out</button>`;
}

/** The button that shows the form, or hides it: public plants are read without it. */
export function Enter() {
  const toggle = () => (state.signIn ? update({ signIn: null }) : ask(""));
  const text = state.signIn ? "Cancel" : "Sign in";
  return html`<button type="button" onclick=${toggle}>${renew(text)}</button>`;
}

/** The form that asks for a token. If a dialog is open, it is above it, and the dialog remains. */
export function SignIn() {
  if (!state.signIn) return null;
  const { message, isAgain } = state.signIn;
  const submit = (/** @type {On<HTMLFormElement>} */ event) => {
    event.preventDefault();
    enter(tokenIn(String(new FormData(event.currentTarget).get("token"))));
  };
  const form = html`
    <section id="entry" aria-labelledby="entry-title">
      <h2 id="entry-title">Sign in</h2>
      <form autocomplete="off" onsubmit=${submit}>
        <label for="token">Access token</label>
        <input id="token" name="token" type="password" autocomplete="off" spellcheck=${false} required
          aria-invalid=${message !== ""} aria-describedby="token-hint token-error" />
        <p id="token-error" class="error" role="alert">${message}</p>
        <button class="primary">Sign in</button>
      </form>
      <p id="token-hint" class="hint">
        Ask whoever runs this catalogue for a token. Only the open tabs of this page keep it.
      </p>
    </section>
  `;
  const hide = () => update({ signIn: null });
  if (!isAgain) return form;
  return html`<${Modal} id="again" aria-labelledby="entry-title" leave=${hide}>${form}<//>`;
}

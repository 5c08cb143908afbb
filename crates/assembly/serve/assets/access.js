// The token of a page: from the printed address to this tab's storage.
//
// It is kept in sessionStorage, which belongs to this tab and to the origin with its port: a page
// of another port of this machine does not get it, as it would get a cookie.

import { byId, element, setText } from "./dom.js";

const KEY = "timeloom-token";
/** Time in which another tab of this server answers. */
const LENT_MS = 400;

const others = new BroadcastChannel("timeloom-access");

/**
 * Keeps the token of the address, if it has one, and asks for the rights of this page. A tab
 * without a token, as one that was opened from a link, asks other tabs of this server. If there is
 * none, the page asks its user.
 * @returns {Promise<{may_act: boolean}>} never resolves without access
 */
export async function enter() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given !== null) {
    // Out of the address line and the history, before anything is shown.
    history.replaceState(null, "", location.pathname + location.search);
    sessionStorage.setItem(KEY, given);
  } else if (token() === null) {
    const lent = await borrow();
    if (lent) sessionStorage.setItem(KEY, lent);
  }
  if (token() === null) return askForToken("This tab has no access yet.");
  const answer = await request("/api/rights");
  if (!answer.ok) {
    forget();
    return askForToken(await sentence(answer));
  }
  others.addEventListener("message", ({ data }) => {
    if (data.asks) others.postMessage({ to: data.asks, token: token() });
  });
  return answer.json();
}

/** The token of this tab, or null. */
export function token() {
  return sessionStorage.getItem(KEY);
}

/** Forgets a token that the server does not know. */
export function forget() {
  sessionStorage.removeItem(KEY);
}

/** Requests something of the server, with the token. */
export function request(path, options = {}) {
  return fetch(path, { ...options, headers: { authorization: `Bearer ${token()}`, ...options.headers } });
}

/** Posts JSON. */
export function post(path, value) {
  return request(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(value) });
}

/** The token of another tab of this server; undefined if none answers. */
function borrow() {
  const asks = crypto.randomUUID();
  return new Promise((resolve) => {
    const hear = ({ data }) => {
      if (data.to !== asks) return;
      others.removeEventListener("message", hear);
      resolve(data.token);
    };
    others.addEventListener("message", hear);
    others.postMessage({ asks });
    setTimeout(() => {
      others.removeEventListener("message", hear);
      resolve(undefined);
    }, LENT_MS);
  });
}

/** The sentence of an answer that refuses. */
export async function sentence(answer) {
  try {
    return (await answer.json()).error;
  } catch {
    return `The server answered ${answer.status}.`;
  }
}

function askForToken(problem) {
  setText(byId("about"), "");
  const said = element("p", { class: "problem", role: "status" }, problem);
  const field = element("input", { id: "token", size: 40, autocomplete: "off", spellcheck: "false" });
  const form = element(
    "form",
    { class: "row" },
    element("label", { for: "token" }, "Token, or the address that `timeloom serve` printed"),
    field,
    element("button", {}, "Enter"),
  );
  byId("access").replaceChildren(said, form);
  field.focus();
  return new Promise(() => {
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, field.value.trim().replace(/^.*#token=/, ""));
      const answer = await request("/api/rights");
      if (answer.ok) return location.reload();
      forget();
      setText(said, await sentence(answer));
    });
  });
}

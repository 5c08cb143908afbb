// From the token in the printed address to a cookie.

import { byId, element, setText } from "./dom.js";

/**
 * Exchanges the token of the address, if it has one, and asks for the rights of this page. Without
 * any, the page asks for the token.
 * @returns {Promise<{may_act: boolean}>} never resolves without access
 */
export async function enter() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token !== null) {
    // Out of the address line and the history, before anything is shown.
    history.replaceState(null, "", location.pathname + location.search);
    const problem = await exchange(token);
    if (problem) return askForToken(problem);
  }
  const answer = await fetch("/api/rights");
  if (answer.ok) return answer.json();
  return askForToken("This browser has no access yet.");
}

/** Returns a problem, or nothing. */
async function exchange(token) {
  const answer = await post("/api/enter", { token });
  return answer.ok ? "" : sentence(answer);
}

/** Posts JSON. */
export function post(path, value) {
  const headers = { "content-type": "application/json" };
  return fetch(path, { method: "POST", headers, body: JSON.stringify(value) });
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
      const found = await exchange(field.value.trim().replace(/^.*#token=/, ""));
      if (found) setText(said, found);
      else location.reload();
    });
  });
}

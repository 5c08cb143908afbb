// The page of one run: one WebSocket, whose messages are differences to what the page has.

import { enter, forget, request, sentence, token } from "./access.js";
import { Controls } from "./controls.js";
import { byId, setText } from "./dom.js";
import { Events } from "./events.js";
import { Header } from "./header.js";
import { Hosts } from "./hosts.js";
import { Logs } from "./logs.js";
import { Strips } from "./strips.js";

const RETRY_MS = 2000;
/** Code of a socket that is closed for want of access. */
const NO_ACCESS = 4401;

const run = new URLSearchParams(location.search).get("run") ?? "";
document.title = `${run} – Timeloom`;
const rights = await enter();

const controls = new Controls(run, rights.may_act);
const header = new Header(run);
const strips = new Strips(byId("strips"));
const events = new Events();
const hosts = new Hosts();
/** @type {WebSocket | undefined} */
let socket;
const logs = new Logs((wish) => {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(wish));
});

connect();

function connect() {
  const address = new URL(`/api/watch?${new URLSearchParams({ run })}`, location.href);
  address.protocol = "ws:";
  socket = new WebSocket(address);
  socket.addEventListener("open", () => socket.send(JSON.stringify({ token: token() })));
  let isFirst = true;
  socket.addEventListener("message", ({ data }) => {
    if (isFirst) {
      // The server knows nothing of what an earlier connection brought.
      isFirst = false;
      strips.clear();
      events.clear();
      hosts.clear();
      logs.subscribe();
    }
    update(JSON.parse(data));
  });
  socket.addEventListener("close", async ({ code, reason }) => {
    controls.disconnected();
    if (code === NO_ACCESS || !(await explain(reason))) {
      forget();
      return location.reload();
    }
    setTimeout(connect, RETRY_MS);
  });
}

/** Says why there is no connection; false if the token is of an earlier server. */
async function explain(reason) {
  try {
    const answer = await request("/api/rights");
    if (answer.status === 401) return false;
    const why = answer.ok ? reason || "The connection was closed." : await sentence(answer);
    setText(byId("about"), `No connection: ${why} This page tries again.`);
  } catch {
    setText(byId("about"), "The server does not answer; this page tries again. Is `timeloom serve` still running?");
  }
  return true;
}

function update(message) {
  if (message.run) {
    header.showRun(message.run);
    controls.showRun(message.run);
    hosts.showRun(message.run);
  }
  if (message.clock) {
    header.showClock(message.clock);
    controls.showClock(message.clock);
    strips.setNow(message.clock.virtual_s);
  }
  if (message.attacks) {
    strips.setAttacks(message.attacks);
    events.setAttacks(message.attacks);
  }
  if (message.events) {
    events.add(message.events);
    strips.addEvents(message.events.added);
  }
  if (message.signals) strips.add(message.signals);
  events.setNow(strips.end());
  if (message.hosts) hosts.setHosts(message.hosts);
  if (message.programs) hosts.addPrograms(message.programs);
  if (message.logs) logs.setNames(message.logs);
  if (message.tails) logs.setTails(message.tails);
}

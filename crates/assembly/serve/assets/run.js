// The page of one run: one WebSocket, whose messages are differences to what the page has.

import { enter } from "./access.js";
import { Controls } from "./controls.js";
import { byId, setText } from "./dom.js";
import { Events } from "./events.js";
import { Header } from "./header.js";
import { Hosts } from "./hosts.js";
import { Logs } from "./logs.js";
import { Strips } from "./strips.js";

const RETRY_MS = 2000;

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
  let isFirst = true;
  socket.addEventListener("message", ({ data }) => {
    if (isFirst) {
      // The server knows nothing of what an earlier connection brought.
      isFirst = false;
      strips.clear();
      events.clear();
      logs.subscribe();
    }
    update(JSON.parse(data));
  });
  socket.addEventListener("close", async () => {
    await explain();
    setTimeout(connect, RETRY_MS);
  });
}

/** Says why there is no connection: a script learns no reason from the socket itself. */
async function explain() {
  controls.disconnected();
  try {
    const answer = await fetch("/api/rights");
    if (answer.status === 401) return location.reload();
    setText(byId("about"), `The server has no run “${run}”, or cannot read it, or has too many pages. This page tries again.`);
  } catch {
    setText(byId("about"), "The server does not answer; this page tries again. Is `timeloom serve` still running?");
  }
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
  if (message.programs) hosts.setPrograms(message.programs);
  if (message.logs) logs.setNames(message.logs);
  if (message.tails) logs.setTails(message.tails);
}

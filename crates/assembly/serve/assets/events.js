// Attacks and events as lists.

import { byId, setText, table } from "./dom.js";
import { seconds } from "./format.js";

/** Number of events that are listed; the server keeps a thousand. */
const MOST = 300;

const COLUMNS = [{ name: "Time", number: true }, { name: "Where" }, { name: "Kind", short: true }, { name: "Event" }];

export class Events {
  constructor() {
    this.attacks = [];
    this.now = 0;
    this.shown = "";
    this.clear();
  }

  clear() {
    /** @type {{t_s: number, host: string, source: string, kind: string, text: string}[]} */
    this.events = [];
  }

  add({ seen, added }) {
    this.events = [...this.events, ...added].slice(-MOST);
    const counted = seen === 1 ? "One event" : `${seen.toLocaleString("en")} events`;
    const listed = this.events.length < seen ? `; the last ${this.events.length} of them` : "";
    setText(byId("events-about"), `${counted}${listed}, the newest first.`);
    const where = ({ host, source }) => (host && host !== "local" ? `${host}: ${source}` : source);
    const rows = this.events.map((event) => [seconds(event.t_s), where(event), event.kind, event.text]).reverse();
    byId("events").hidden = false;
    byId("events").replaceChildren(table("Events, the newest first", COLUMNS, rows));
  }

  setNow(now) {
    this.now = now;
    this.showAttacks();
  }

  setAttacks(attacks) {
    this.attacks = attacks;
    this.showAttacks();
  }

  showAttacks() {
    byId("no-attacks").hidden = this.attacks.length > 0;
    byId("attacks").hidden = this.attacks.length === 0;
    const end = ({ end_s }) => (end_s === null ? "" : seconds(end_s));
    const rows = this.attacks.map((it) => [it.name, it.technique, it.target, seconds(it.start_s), end(it), phase(it, this.now)]);
    // Made anew only when a row changes, so that a selection stays.
    const text = JSON.stringify(rows);
    if (text === this.shown) return;
    this.shown = text;
    const columns = [{ name: "Attack" }, { name: "Technique" }, { name: "Target" }, { name: "From", number: true }, { name: "Until", number: true }, { name: "State", short: true }];
    byId("attacks").replaceChildren(table("Attacks", columns, rows));
  }
}

/** The state of an attack now. */
export function phase({ start_s, end_s }, now) {
  if (now < start_s) return "planned";
  return end_s === null || now < end_s ? "▲ goes on" : "ended";
}

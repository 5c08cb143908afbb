// Hosts and their programs.

import { byId, table } from "./dom.js";
import { number, seconds } from "./format.js";

const STATES = { running: "▶ running", ready: "▶ ready", ended: "■ ended" };
/** After a run: a program that ran to the end of it has no event of its own end. */
const STATES_AFTER = { running: "■ ran to the end", ready: "■ ran to the end", ended: "■ ended" };

export class Hosts {
  constructor() {
    this.hosts = [];
    this.states = STATES;
    this.clear();
  }

  clear() {
    /** By the numbers that the server gives them. */
    this.programs = [];
  }

  showRun(run) {
    const states = ["running", "unfinished"].includes(run.state) ? STATES : STATES_AFTER;
    if (states === this.states) return;
    this.states = states;
    this.show();
  }

  setHosts(hosts) {
    this.hosts = hosts;
    this.show();
  }

  addPrograms(changed) {
    for (const program of changed) this.programs[program.id] = program;
    this.show();
  }

  show() {
    const rows = this.programs.map((it) => [it.host, it.name, this.states[it.state], seconds(it.since_s), it.text]);
    const withPrograms = new Set(this.programs.map(({ host }) => host));
    for (const host of this.hosts) {
      if (isOff(host)) rows.push([host.name, "its clock", host.paused ? "❚❚ paused" : "▶ running", "", ownTime(host)]);
      else if (!withPrograms.has(host.name)) rows.push([host.name, "", "", "", "no program has started"]);
    }
    rows.sort((a, b) => a[0].localeCompare(b[0], "en", { numeric: true }));
    byId("no-hosts").hidden = rows.length > 0;
    byId("hosts").hidden = rows.length === 0;
    const columns = [{ name: "Host" }, { name: "Program" }, { name: "State", short: true }, { name: "Since", number: true }, { name: "Command, or cause of its end" }];
    byId("hosts").replaceChildren(table("Hosts and programs", columns, rows));
  }
}

/** True if a host's own time differs from the session's. */
function isOff({ paused, behind_s, dilation }) {
  return paused || behind_s !== 0 || dilation !== 1;
}

function ownTime({ behind_s, dilation }) {
  const way = behind_s < 0 ? "ahead of" : "behind";
  return `${seconds(Math.abs(behind_s))} ${way} the session, dilation ${number(dilation)}`;
}

// The last lines of logs. Only those of opened logs are sent.

import { byId, element, setText } from "./dom.js";

/** Maximum number of logs that are open at the same time; the server sends no more. */
const MOST_OPEN = 8;

export class Logs {
  /** @param {(wish: {logs: string[]}) => void} send */
  constructor(send) {
    this.send = send;
    /** @type {Map<string, {details: HTMLElement, lines: HTMLElement}>} */
    this.logs = new Map();
  }

  setNames(names) {
    const about = names.length ? "Open one to see its last lines while they are written." : "No program has printed anything yet.";
    setText(byId("logs-about"), about);
    for (const name of names.filter((name) => !this.logs.has(name))) this.addLog(name);
  }

  addLog(name) {
    const lines = element("pre", { tabindex: 0, role: "region", "aria-label": `Last lines of ${name}` }, "No line yet.");
    const details = element("details", {}, element("summary", {}, name), lines);
    details.addEventListener("toggle", () => {
      const open = this.open();
      // The first one that was opened makes room.
      if (details.open && open.length > MOST_OPEN) this.logs.get(open.find((other) => other !== name)).details.open = false;
      this.subscribe();
    });
    this.logs.set(name, { details, lines });
    byId("logs").append(details);
  }

  open() {
    return [...this.logs].filter(([, { details }]) => details.open).map(([name]) => name);
  }

  /** Tells the server which logs are open. */
  subscribe() {
    this.send({ logs: this.open() });
  }

  setTails(tails) {
    for (const [name, text] of Object.entries(tails)) {
      const log = this.logs.get(name);
      if (!log) continue;
      const { lines } = log;
      const isAtEnd = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 4;
      setText(lines, text.length ? text.join("\n") : "No line yet.");
      if (isAtEnd) lines.scrollTop = lines.scrollHeight;
    }
  }
}

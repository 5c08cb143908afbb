// Actions on a run: buttons, forms, keys.

import { post, sentence } from "./access.js";
import { byId, setText } from "./dom.js";
import { seconds } from "./format.js";
import { isHeldByUser } from "./header.js";

const KEYS = "timeloom-keys";

export class Controls {
  /**
   * @param {string} run
   * @param {boolean} mayAct
   */
  constructor(run, mayAct) {
    this.run = run;
    this.mayAct = mayAct;
    this.isRunning = false;
    this.isHeld = false;
    const onClick = (id, action) => byId(id).addEventListener("click", () => this.act(action));
    onClick("pause", { op: "pause" });
    onClick("resume", { op: "resume" });
    const onSubmit = (id, action) =>
      byId(id).addEventListener("submit", (event) => {
        event.preventDefault();
        this.act(action());
      });
    onSubmit("step", () => this.step());
    onSubmit("until", () => ({ op: "run-until", instant: byId("instant").value }));
    onSubmit("dilate", () => ({ op: "dilate", factor: byId("factor").value }));
    const value = (id) => byId(id).value;
    const link = (more) => ({ op: "link", link: value("link-name"), ...more });
    onSubmit("link", () => link({ delay: value("link-delay"), loss: value("link-loss"), mbit_per_s: value("link-rate") }));
    byId("link-down").addEventListener("click", () => this.act(link({ up: false })));
    byId("link-up").addEventListener("click", () => this.act(link({ up: true })));
    onSubmit("attack", () => ({ op: "start-attack", id: value("attack-id") }));
    byId("attack-stop").addEventListener("click", () => this.act({ op: "stop-attack", id: value("attack-id") }));
    byId("keys").checked = localStorage.getItem(KEYS) !== "off";
    byId("keys").addEventListener("change", (event) => localStorage.setItem(KEYS, event.target.checked ? "on" : "off"));
    document.addEventListener("keydown", (event) => this.onKey(event));
  }

  step() {
    return { op: "step", span: byId("span").value };
  }

  showRun(run) {
    this.isRunning = run.state === "running";
    byId("actions").hidden = !(this.mayAct && this.isRunning);
    if (!this.mayAct && this.isRunning) setText(byId("answer"), "This page only shows: the address it was opened with may not act.");
  }

  showClock(clock) {
    // Not: whether it stands. A plant, or a granter, may hold it most of the time, and it is to be
    // paused then too; only a pause by a user can be resumed.
    this.isHeld = isHeldByUser(clock);
    const [useful, useless] = this.isHeld ? [byId("resume"), byId("pause")] : [byId("pause"), byId("resume")];
    const hasFocus = document.activeElement === useless;
    useful.disabled = false;
    useless.disabled = true;
    // Without this, a reader with a keyboard would lose the place.
    if (hasFocus) useful.focus();
  }

  disconnected() {
    byId("actions").hidden = true;
  }

  onKey(event) {
    const isOurs = event.key === " " || event.key === ".";
    const isPlain = !event.ctrlKey && !event.altKey && !event.metaKey && !event.repeat;
    // A focused element that takes the key gets it itself.
    const takes = event.key === " " ? "input, select, textarea, button, summary, a, [tabindex]" : "input, select, textarea";
    const takesKey = event.target.closest?.(takes);
    if (!isOurs || !isPlain || takesKey || !this.mayAct || !this.isRunning || !byId("keys").checked) return;
    event.preventDefault();
    if (event.key === ".") this.act(this.step());
    else this.act({ op: this.isHeld ? "resume" : "pause" });
  }

  async act(action) {
    const said = byId("answer");
    setText(said, action.op === "step" || action.op === "run-until" ? "Running …" : "…");
    said.className = "";
    try {
      const answer = await post(`/api/act?${new URLSearchParams({ run: this.run })}`, action);
      if (!answer.ok) {
        said.className = "problem";
        setText(said, await sentence(answer));
        return;
      }
      const { virtual_s, paused } = await answer.json();
      setText(said, `Done: ${paused ? "paused" : "running"} at ${seconds(virtual_s)}.`);
    } catch {
      said.className = "problem";
      setText(said, "The server does not answer.");
    }
  }
}

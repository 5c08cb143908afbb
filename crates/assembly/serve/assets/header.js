// The clock of a run, its state, and what is to be said about its results.

import { byId, element, setText, table } from "./dom.js";
import { STATES, UNFINISHED, date, number, seconds } from "./format.js";

/** Shorter holds are exchanges with a plant: the run goes on for its reader. */
const MOMENT_S = 0.25;

/** True if a run stands for a reader: not for a moment, as it does for each exchange with a plant. */
export function stands(clock) {
  const lasting = (hold) => hold.held_s > MOMENT_S || ["user", "granter"].includes(hold.requester);
  return clock.paused && (clock.holds.length === 0 || clock.holds.some(lasting));
}

/** True if a user holds the run, so that it can be resumed. */
export function isHeldByUser(clock) {
  return clock.holds.some((hold) => hold.requester === "user");
}

export class Header {
  /** @param {string} name name of the run's directory */
  constructor(name) {
    this.name = name;
    this.run = undefined;
    this.clock = undefined;
  }

  showRun(run) {
    this.run = run;
    setText(byId("title"), run.scenario || run.shown);
    document.title = `${run.scenario || run.shown} – Timeloom`;
    const mode = run.time_mode ? `, time mode ${run.time_mode}` : "";
    setText(byId("about"), `${run.shown}, started ${date(run.started)}, seed ${run.seed}${mode}`);
    const report = byId("report");
    report.hidden = !run.has_report;
    report.href = `/report?${new URLSearchParams({ run: this.name })}`;
    byId("banners").replaceChildren(...banners(run));
    showChecks(run.checks);
    this.show();
  }

  showClock(clock) {
    this.clock = clock;
    this.show();
  }

  show() {
    if (!this.run) return;
    const { run, clock } = this;
    const isPaused = run.state === "running" && clock && stands(clock);
    const isPreparing = isPaused && clock.virtual_s === 0 && clock.holds.length === 0;
    const state = byId("state");
    state.className = isPreparing ? "preparing" : isPaused ? "paused" : run.state;
    setText(state, STATES[state.className]);
    if (!clock) return;
    setText(byId("virtual"), seconds(clock.virtual_s));
    setText(byId("wall"), `${seconds(clock.wall_s)}`);
    setText(byId("rate"), rate(clock, run.state, isPaused));
    setText(byId("dilation"), run.state === "running" ? dilation(clock) : "–");
    setText(byId("held"), isPreparing ? "Its programs and plants are being started." : held(clock, run.state, isPaused));
  }
}

function rate(clock, state, isPaused) {
  if (isPaused) return "0 (paused)";
  if (clock.rate === null) return "–";
  const mean = state === "running" ? "" : " on average";
  return `${number(Number(clock.rate.toPrecision(3)))} × real time${mean}`;
}

function dilation(clock) {
  const skips = clock.skipping ? ", skips while all wait" : "";
  return `${number(clock.dilation)}${skips}`;
}

/** A sentence about the pause, and the component that holds it. */
function held(clock, state, isPaused) {
  const total = `The clock has stood for ${seconds(clock.paused_s)} of wall time in all.`;
  if (state !== "running") return total;
  if (!isPaused) return total;
  const one = (hold) => `${hold.requester} (${hold.reason}) for ${seconds(hold.held_s)}`;
  const holders = clock.holds.map(one).join("; ");
  const why = holders ? `Held by ${holders}.` : "The session does not say which component holds it.";
  return `${why} ${total}`;
}

function banners(run) {
  const made = [];
  const banner = (kind, title, texts) =>
    made.push(element("div", { class: `banner ${kind}` }, element("strong", {}, title), ...texts.map((text) => element("p", {}, text))));
  if (run.untrusted?.length) banner("bad", "UNTRUSTED: passed and failed checks mean nothing.", run.untrusted);
  if (run.culprit) banner("bad", `This run ${run.state === "running" ? "is failing" : "did not end as planned"}.`, [run.culprit]);
  if (run.state === "unfinished") banner("", "No session.", [UNFINISHED]);
  if (run.degraded.length) banner("", "Degraded", run.degraded);
  if (run.remarks.length) banner("", "About this page", run.remarks);
  return made;
}

function showChecks(checks) {
  byId("checks-section").hidden = checks.length === 0;
  const sign = { passed: "✓ passed", failed: "✕ failed", "not applicable": "not applicable" };
  const verdict = (check) => element("span", { class: check.verdict === "failed" ? "fail" : undefined }, sign[check.verdict]);
  const rows = checks.map((check) => [check.name, verdict(check), check.explanation]);
  byId("checks").replaceChildren(table("Checks", [{ name: "Check" }, { name: "Verdict", short: true }, { name: "Explanation" }], rows));
}

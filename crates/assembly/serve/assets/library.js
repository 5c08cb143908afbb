// The list of runs.

import { enter, forget, request, sentence } from "./access.js";
import { byId, element, setText } from "./dom.js";
import { STATES, date, seconds } from "./format.js";

const REFRESH_MS = 3000;

/** Rows by the names of their runs. They are changed in place, so that the focus stays. */
const rows = new Map();

await enter();
refresh();

async function refresh() {
  try {
    const answer = await request("/api/runs");
    if (answer.status === 401) {
      forget();
      return location.reload();
    }
    if (answer.ok) {
      show(await answer.json());
      setText(byId("problem"), "");
    } else {
      setText(byId("problem"), await sentence(answer));
    }
  } catch {
    setText(byId("problem"), "The server does not answer. Is `timeloom serve` still running?");
  }
  setTimeout(refresh, REFRESH_MS);
}

function show({ runs, is_complete }) {
  const counted = runs.length === 1 ? "One run" : `${runs.length} runs`;
  const rest = is_complete ? "." : ", and more than this page lists.";
  setText(byId("about"), runs.length ? `${counted}, the newest first${rest}` : "There is no run yet: `timeloom run SCENARIO` makes one.");
  byId("runs").hidden = runs.length === 0;
  const body = byId("runs").tBodies[0];
  runs.forEach((run, place) => {
    const row = rows.get(run.run) ?? newRow(run);
    fill(row, run);
    if (body.rows[place] !== row.line) body.insertBefore(row.line, body.rows[place] ?? null);
  });
  const present = new Set(runs.map(({ run }) => run));
  for (const [name, { line }] of rows) {
    if (!present.has(name)) {
      line.remove();
      rows.delete(name);
    }
  }
}

function newRow({ run, shown }) {
  const query = new URLSearchParams({ run });
  const cell = (label, extra = {}) => element("td", { "data-label": label, ...extra });
  const row = {
    name: element("td", { class: "any", "data-label": "Run" }, element("a", { href: `/run?${query}` }, shown)),
    scenario: element("span", { class: "soft" }),
    state: cell("State"),
    started: cell("Started", { class: "w" }),
    virtual: cell("Virtual time", { class: "n" }),
    checks: cell("Checks"),
    trusted: cell("Trusted"),
    report: cell("Report"),
    link: element("a", { href: `/report?${query}` }, "report"),
  };
  row.name.append(row.scenario);
  const cells = [row.name, row.state, row.started, row.virtual, row.checks, row.trusted, row.report];
  row.line = element("tr", {}, ...cells);
  rows.set(run, row);
  return row;
}

function fill(row, run) {
  setText(row.scenario, run.scenario && !run.shown.endsWith(run.scenario) ? ` ${run.scenario}` : "");
  setText(row.state, STATES[run.state] + (run.culprit ? `: ${run.culprit}` : ""));
  row.state.className = run.state === "failed" ? "fail any" : "any";
  setText(row.started, date(run.started));
  setText(row.virtual, run.state === "unreadable" ? "" : seconds(run.virtual_s));
  setText(row.checks, checks(run));
  row.checks.className = run.failed ? "fail" : "";
  setText(row.trusted, trusted(run));
  row.trusted.className = run.untrusted?.length ? "fail any" : "any";
  if (run.has_report !== row.report.contains(row.link)) row.report.replaceChildren(...(run.has_report ? [row.link] : []));
}

function checks({ passed, failed, untrusted }) {
  if (passed + failed === 0) return untrusted ? "none" : "";
  return failed ? `✕ ${failed} of ${passed + failed} failed` : `✓ ${passed} passed`;
}

function trusted(run) {
  if (run.error) return run.error;
  if (!run.untrusted) return "known at its end";
  return run.untrusted.length ? `UNTRUSTED: ${run.untrusted.join(" ")}` : "✓ yes";
}

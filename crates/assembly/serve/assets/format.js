// Numbers, times and states as texts.

const GROUPED = new Intl.NumberFormat("en", { maximumSignificantDigits: 5 });

/** A value to five digits; very large and small ones by a power of ten. */
export function number(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e7 || size < 1e-4)) return value.toExponential(3).replace("e+", "e");
  return GROUPED.format(value);
}

/** A value with its unit. */
export function quantity(value, unit) {
  return unit ? `${number(value)} ${unit}` : number(value);
}

/** Seconds, to a millisecond. */
export function seconds(s) {
  return `${s.toLocaleString("en", { minimumFractionDigits: 3, maximumFractionDigits: 3 })} s`;
}

/** Seconds for an axis whose ticks are `step` apart. */
export function tick(s, step) {
  const digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
  return s.toFixed(Math.min(digits, 9));
}

/** An instant of RFC 3339, to a second. */
export function date(text) {
  return text.replace("T", " ").replace(/(\.\d+)?Z$/, " UTC");
}

/** The state of a run, with a sign that does without colour. */
export const STATES = {
  running: "▶ running",
  paused: "❚❚ paused",
  preparing: "… getting ready",
  done: "■ done",
  failed: "✕ failed",
  interrupted: "■ interrupted",
  unfinished: "… no session",
  unreadable: "✕ cannot be read",
};

/** A sentence about a run without a session and without an end. */
export const UNFINISHED =
  "No session writes this run, and it has no end: it is about to begin or to write its results, or it was killed " +
  "(then `timeloom report` completes it).";

/** Distances between ticks: 1, 2 or 5 times a power of ten, so that there are at most `most`. */
export function tickStep(span, most) {
  const rough = span / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough * (1 - 1e-9));
}

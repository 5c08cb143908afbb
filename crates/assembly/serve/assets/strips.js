// Signals as strips over virtual time, one for each, with attacks and events marked in them.

import { byId, drawn, element, setText, table } from "./dom.js";
import { number, quantity, seconds, tick, tickStep } from "./format.js";

const HEIGHT = 92;
/** Room for the values at the left, for the marks above, for the times below. */
const LEFT = 62;
const RIGHT = 8;
const TOP = 14;
const BOTTOM = 18;
/** Number of the last points in the table behind a strip. */
const TABLE_POINTS = 20;
/** Kinds of events that are marked: not starts, readings and writes, which are many. */
const MARKED = new Set(["control", "link", "attack", "end", "trouble", "warning", "spoofed", "violation", "status", "paused", "resumed", "dilated", "leave", "join"]);
const MOST_MARKS = 300;
/** Number of events that are remembered, to tell those that are alike. */
const MOST_TOLD = 1000;
/** Events that are alike and closer than this are one that continues. */
const CONTINUES_S = 5;
/** Strips out of sight are drawn each time that this many drawings have passed: to be printed. */
const SELDOM = 16;
/** Interval between two drawings. */
const REDRAW_MS = matchMedia("(prefers-reduced-motion: reduce)").matches ? 1000 : 240;

export class Strips {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.place = place;
    this.attacks = [];
    this.isDue = false;
    this.drawings = 0;
    this.clear();
    byId("window").addEventListener("change", () => this.changed(true));
    byId("filter").addEventListener("input", () => this.filter());
    new ResizeObserver(() => this.changed(true)).observe(place);
    this.visible = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        const strip = [...this.strips.values()].find(({ figure }) => figure === target);
        if (strip) strip.isVisible = isIntersecting;
      }
      this.changed(true);
    });
  }

  clear() {
    /** @type {Map<number, Strip>} */
    this.strips = new Map();
    this.marks = [];
    this.now = 0;
    /** Instant of the last sample: a run that was killed tells no other end. */
    this.latest = 0;
    /** Times of the last events, by what they are about; the one that was told last is last. */
    this.told = new Map();
    this.visible?.disconnect();
    this.place.replaceChildren();
  }

  add(signals) {
    byId("no-signals").hidden = true;
    for (const signal of signals) {
      let strip = this.strips.get(signal.id);
      if (!strip) {
        strip = new Strip(...signal.name);
        this.strips.set(signal.id, strip);
        this.insert(strip);
      }
      strip.add(signal);
      this.latest = Math.max(this.latest, signal.summary.last_s);
    }
    this.changed(false);
  }

  /** Puts a strip at its place by name. */
  insert(strip) {
    const later = [...this.place.children].find((other) => other.dataset.name.localeCompare(strip.name, "en", { numeric: true }) > 0);
    this.place.insertBefore(strip.figure, later ?? null);
    this.visible.observe(strip.figure);
    this.filter();
  }

  filter() {
    const wanted = byId("filter").value.trim().toLowerCase();
    for (const { figure, name } of this.strips.values()) figure.hidden = !name.toLowerCase().includes(wanted);
  }

  /** The last instant that is known of the run. */
  end() {
    return Math.max(this.now, this.latest);
  }

  setNow(now) {
    this.now = now;
    this.changed(false);
  }

  setAttacks(attacks) {
    this.attacks = attacks;
    this.changed(true);
  }

  addEvents(events) {
    const marked = events.filter((event) => MARKED.has(event.kind) && this.begins(event));
    this.marks = [...this.marks, ...marked].slice(-MOST_MARKS);
    this.changed(true);
  }

  /** True for the first of several alike: one that continues is told again and again. */
  begins({ t_s, host, source, kind, text }) {
    const key = `${host} ${source} ${kind} ${kind === "control" || kind === "link" ? `${text} ${t_s}` : ""}`;
    const last = this.told.get(key);
    this.told.delete(key);
    this.told.set(key, t_s);
    if (this.told.size > MOST_TOLD) this.told.delete(this.told.keys().next().value);
    return last === undefined || t_s - last > CONTINUES_S;
  }

  /** Draws soon; all strips, also those without new samples, if the axis or the marks changed. */
  changed(all) {
    if (all) for (const strip of this.strips.values()) strip.isStale = true;
    if (this.isDue) return;
    this.isDue = true;
    setTimeout(() => requestAnimationFrame(() => this.draw()), REDRAW_MS);
  }

  draw() {
    this.isDue = false;
    const last = byId("window").value;
    const end = Math.max(this.end(), 1e-3);
    const begin = last ? Math.max(0, end - Number(last)) : 0;
    const isMoving = end !== this.drawnEnd;
    this.drawnEnd = end;
    const view = { begin, end, attacks: this.attacks, marks: this.marks };
    const isForAll = this.drawings++ % SELDOM === 0;
    for (const strip of this.strips.values()) {
      const isWanted = !strip.figure.hidden && (strip.isVisible || !strip.isDrawn || isForAll);
      if (isWanted && (strip.isStale || isMoving)) strip.draw(view);
    }
  }
}

class Strip {
  /**
   * @param {string} name
   * @param {string} unit
   */
  constructor(name, unit) {
    Object.assign(this, { name, unit, t: [], low: [], high: [], summary: undefined, isVisible: false, isStale: true, isDrawn: false });
    this.sentence = element("p", { class: "sentence" });
    this.svg = drawn("svg", { class: "strip", role: "img", height: HEIGHT });
    this.table = element("details", {}, element("summary", {}, "Table", element("span", { class: "unseen" }, ` of ${name}`)));
    this.table.addEventListener("toggle", () => this.tabulate());
    const title = element("h3", {}, unit ? `${name}, ${unit}` : name);
    this.figure = element("figure", { "data-name": name }, title, this.sentence, this.svg, this.table);
  }

  add({ from, t, low, high, summary }) {
    for (const [kept, added] of [[this.t, t], [this.low, low], [this.high, high.length ? high : low]]) {
      kept.length = Math.min(kept.length, from);
      kept.push(...added);
    }
    this.summary = summary;
    this.isStale = true;
  }

  draw({ begin, end, attacks, marks }) {
    this.isStale = false;
    const width = this.figure.clientWidth;
    if (!this.summary || width === 0) return;
    this.isDrawn = true;
    const shown = this.shown(begin);
    const x = (s) => LEFT + ((s - begin) / (end - begin)) * (width - LEFT - RIGHT);
    const [floor, ceiling] = range(this.low, this.high, shown);
    const y = (value) => TOP + ((ceiling - value) / (ceiling - floor)) * (HEIGHT - TOP - BOTTOM);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.svg.setAttribute("width", String(width));
    this.svg.replaceChildren(
      ...bands(attacks, begin, end, x),
      ...grid([floor, ceiling], begin, end, x, y, width),
      ...lines(marks, begin, end, x),
      drawn("path", { class: "trace", d: this.path(shown, x, y) }),
    );
    const text = this.describe();
    setText(this.sentence, text);
    this.svg.setAttribute("aria-label", `${this.name}: ${text}`);
    if (this.table.open) this.tabulate();
  }

  /** Index of the first point of the window, and one before, so that the line begins at its edge. */
  shown(begin) {
    let [first, end] = [0, this.t.length];
    while (first < end) {
      const middle = (first + end) >> 1;
      if (this.t[middle] < begin) first = middle + 1;
      else end = middle;
    }
    return Math.max(0, first - 1);
  }

  path(first, x, y) {
    const parts = [];
    for (let at = first; at < this.t.length; at++) {
      const place = Math.max(LEFT, x(this.t[at])).toFixed(1);
      parts.push(`${place} ${y(this.low[at]).toFixed(1)}`);
      if (this.high[at] !== this.low[at]) parts.push(`${place} ${y(this.high[at]).toFixed(1)}`);
    }
    return parts.length === 1 ? `M${parts[0]} h1` : `M${parts.join(" L")}`;
  }

  describe() {
    const { count, last, last_s, low, high } = this.summary;
    const now = `${quantity(last, this.unit)} at ${seconds(last_s)}`;
    const samples = count === 1 ? "one sample" : `${count.toLocaleString("en")} samples`;
    return low === high ? `${now}; constant, ${samples}.` : `${now}; from ${number(low)} to ${quantity(high, this.unit)}, ${samples}.`;
  }

  tabulate() {
    if (!this.table.open || !this.summary) return;
    const { count, first, last, last_s, low, high } = this.summary;
    const figures = [
      ["Last value", `${quantity(last, this.unit)} at ${seconds(last_s)}`],
      ["First value", quantity(first, this.unit)],
      ["Smallest", quantity(low, this.unit)],
      ["Largest", quantity(high, this.unit)],
      ["Samples", count.toLocaleString("en")],
    ];
    const points = [];
    for (let at = this.t.length - 1; at >= Math.max(0, this.t.length - TABLE_POINTS); at--) {
      points.push([seconds(this.t[at]), number(this.low[at]), number(this.high[at])]);
    }
    const columns = [{ name: "From", number: true }, { name: "Smallest", number: true }, { name: "Largest", number: true }];
    const tables = element(
      "div",
      { class: "wide", tabindex: 0, role: "region", "aria-label": `Table of ${this.name}` },
      table(`${this.name}: figures`, [{ name: "Figure" }, { name: "Value" }], figures),
      table(`${this.name}: the last points of the strip, the newest first`, columns, points),
    );
    this.table.replaceChildren(this.table.firstElementChild, tables);
  }
}

/** The values at the lower and the upper edge. */
function range(low, high, first) {
  let [floor, ceiling] = [Infinity, -Infinity];
  for (let at = first; at < low.length; at++) {
    floor = Math.min(floor, low[at]);
    ceiling = Math.max(ceiling, high[at]);
  }
  if (ceiling - floor > Math.abs(ceiling) * 1e-6) return [floor, ceiling];
  // A constant is drawn in the middle.
  const around = Math.abs(ceiling) * 0.05 || 1;
  return [floor - around, ceiling + around];
}

function grid(values, begin, end, x, y, width) {
  const made = values.flatMap((value) => [
    drawn("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
    drawn("text", { class: "tick", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, number(value)),
  ]);
  const step = tickStep(end - begin, (width - LEFT) / 90);
  for (let s = Math.ceil(begin / step - 1e-9) * step; s <= end; s += step) {
    made.push(drawn("line", { class: "grid", x1: x(s), x2: x(s), y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 4 }));
    const isLast = x(s) > width - 24;
    made.push(drawn("text", { class: "tick", x: x(s), y: HEIGHT - 3, "text-anchor": isLast ? "end" : "middle" }, `${tick(s, step)} s`));
  }
  return made;
}

/** Attacks: an area with an edge and a name, until now if they go on. */
function bands(attacks, begin, end, x) {
  const inside = attacks.filter(({ start_s, end_s }) => start_s < end && (end_s ?? end) > begin);
  return inside.flatMap(({ name, start_s, end_s }) => {
    const [from, to] = [x(Math.max(start_s, begin)), x(Math.min(end_s ?? end, end))];
    return [
      drawn("rect", { class: "attack", x: from, width: Math.max(1, to - from), y: TOP, height: HEIGHT - TOP - BOTTOM }),
      drawn("text", { class: "mark", x: from, y: TOP - 4 }, `▲ ${name}`),
    ];
  });
}

/** Events: a line each; several in one pixel are one. */
function lines(marks, begin, end, x) {
  const places = new Map();
  for (const { t_s, kind, source, text } of marks.filter(({ t_s }) => t_s >= begin && t_s <= end)) {
    places.set(Math.round(x(t_s)), `${seconds(t_s)} ${source}, ${kind}: ${text}`);
  }
  return [...places].map(([place, text]) =>
    drawn("line", { class: "event", x1: place, x2: place, y1: TOP, y2: HEIGHT - BOTTOM }, drawn("title", {}, text)),
  );
}

//! Figure of an attack: the scenario's labels, spoofed frames, alarms and all writes to devices, on
//! one time axis with the signals that changed.

use std::fmt::Write;

use super::data::{RunData, seconds};
use super::event_summary::Rank;
use super::figure::Numbering;
use super::markup::{NAME_CHARS, escape, section_head, shortened};
use super::number::{Range, fixed, significant, ticks};
use super::panels::attack_marks;
use super::plot::Mark;
use super::strip;

/// Times at which one source caused events of one kind.
struct Lane<'a> {
    name: &'a str,
    colour: &'static str,
    at_s: Vec<f64>,
}

/// Appends the section about the first run that has such events; appends nothing if no run has any.
pub(super) fn section(
    out: &mut String,
    figures: &mut Numbering,
    runs: &[RunData],
    colours: &[&'static str],
) {
    let has_news = |run: &RunData| !run.labels.is_empty() || !run.event_summary.is_empty();
    let attacked = runs.iter().position(|run| !run.labels.is_empty());
    let Some(index) = attacked.or_else(|| runs.iter().position(has_news)) else {
        return;
    };
    let run = &runs[index];
    let is_attack = !run.labels.is_empty() || run.event_summary.has_spoofed;
    let title = match is_attack {
        true => "The attack over time",
        false => "Writes and alarms over time",
    };
    section_head(out, title);
    let end_s = run.end_s().unwrap_or(1.0);
    let x = Range {
        low: 0.0,
        high: end_s,
    };
    let marks = attack_marks(std::slice::from_ref(run), &colours[index..], end_s);
    let lanes = lanes(run);
    figures.begin(out);
    draw(out, &lanes, &marks, run, x);
    figures.end(
        out,
        &format!("Actions in the run “{}”, and signals that changed.", run.label),
        "Bars are attacks as the scenario labels them; each stroke is an event: a spoofed frame (recorded \
         once a second while spoofing continues), an alarm, a write to a device, a manual action on the clock. Below, on the same axis, the signals that \
         changed most after the onset.",
    );
    moments(out, run);
    writes(out, run);
    out.push_str("</section>\n");
}

fn lanes(run: &RunData) -> Vec<Lane<'_>> {
    let lanes = run.event_summary.lanes(MOST_LANES).into_iter();
    lanes
        .map(|(rank, name, at_s)| Lane {
            name,
            colour: match rank {
                Rank::Lie => "#d55e00",
                Rank::Alarm => "#aa4a86",
                Rank::Write => "#0072b2",
            },
            at_s,
        })
        .collect()
}

fn draw(out: &mut String, lanes: &[Lane<'_>], marks: &[Mark], run: &RunData, x: Range) {
    let onset_s = run
        .labels
        .iter()
        .map(|label| seconds(label.start))
        .reduce(f64::min);
    let strips = strip::moved(run, onset_s);
    let rows = marks.len() + lanes.len();
    let lanes_bottom = TOP + LANE * rows as f64;
    let bottom = lanes_bottom + strips.len() as f64 * (strip::HEIGHT + GAP);
    let height = bottom + 34.0;
    let px = |at: f64| LEFT + x.part(at).clamp(0.0, 1.0) * (RIGHT - LEFT);
    let _ = writeln!(
        out,
        "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"Time axis of the attack\">\n\
         <svg class=\"lanes\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{rows} lanes of events and {} signals over virtual time\">",
        strips.len()
    );
    for mark in marks {
        let _ = writeln!(
            out,
            "<path d=\"M{:.1} {TOP}V{bottom:.1}\" stroke=\"{}\" stroke-width=\"1\" stroke-dasharray=\"4 2.5\"/>",
            px(mark.from),
            mark.colour
        );
    }
    for (row, mark) in marks.iter().enumerate() {
        let base = TOP + LANE * (row + 1) as f64;
        name(out, &mark.text, base);
        let _ = writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\" opacity=\"0.35\"/>",
            px(mark.from),
            base - LANE + 6.0,
            (px(mark.to) - px(mark.from)).max(1.0),
            LANE - 10.0,
            mark.colour
        );
    }
    for (row, lane) in lanes.iter().enumerate() {
        let base = TOP + LANE * (marks.len() + row + 1) as f64;
        name(out, lane.name, base);
        // A tenth of a unit is not visible, so strokes that are closer than that are merged.
        let mut places: Vec<i64> = lane.at_s.iter().map(|at| (px(*at) * 10.0) as i64).collect();
        places.dedup();
        let mut path = String::new();
        for place in places {
            let _ = write!(
                path,
                "M{:.1} {:.1}v{:.1}",
                place as f64 / 10.0,
                base - LANE + 6.0,
                LANE - 10.0
            );
        }
        let _ = writeln!(
            out,
            "<path class=\"lane\" d=\"M{LEFT} {base:.1}H{RIGHT}\"/><path d=\"{path}\" stroke=\"{}\" stroke-width=\"1\"/>",
            lane.colour
        );
    }
    let mut top = lanes_bottom + GAP;
    for strip in &strips {
        strip.draw(out, top, x, (LEFT, RIGHT));
        top += strip::HEIGHT + GAP;
    }
    let (columns, decimals) = ticks(x, 10);
    for tick in columns {
        let _ = writeln!(
            out,
            "<path class=\"axis\" d=\"M{at:.1} {bottom:.1}v4\"/><text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 15.0,
            fixed(tick, decimals),
            at = px(tick)
        );
    }
    let _ = writeln!(
        out,
        "<path class=\"axis\" d=\"M{LEFT} {bottom:.1}H{RIGHT}\"/><text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">Virtual time (s)</text>\n</svg>\n</div>",
        (LEFT + RIGHT) / 2.0,
        height - 3.0
    );
}

fn name(out: &mut String, text: &str, base: f64) {
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        LEFT - 8.0,
        base - 6.0,
        escape(&shortened(text, 36))
    );
}

/// Appends labels, spoofed frames and alarms in the order of time. A spoof that continues is listed
/// once, at its beginning.
fn moments(out: &mut String, run: &RunData) {
    let mut rows: Vec<(f64, String, String)> = Vec::new();
    for label in &run.labels {
        let against = match &*label.target {
            "" => String::new(),
            target => format!(", against {target}"),
        };
        let text = format!("{} begins{against}", label.title());
        rows.push((seconds(label.start), "label".into(), text));
        if label.end != timeloom_time::Instant::FAR_FUTURE {
            let text = format!("{} ends", label.attack);
            rows.push((seconds(label.end), "label".into(), text));
        }
    }
    for (kind, moment) in run.event_summary.moments() {
        rows.push((moment.at_s, kind.to_owned(), moment.text.clone()));
    }
    if rows.is_empty() {
        return;
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    out.push_str(
        "<h3>Attacks, spoofed frames and alarms</h3>\n<table tabindex=\"0\">\n<thead><tr><th class=\"n\">Time</th><th>Kind</th><th>Description</th></tr></thead>\n<tbody>\n",
    );
    for (at, kind, text) in rows.iter().take(MOST_ROWS) {
        let _ = writeln!(
            out,
            "<tr><td class=\"n\">{} s</td><td>{}</td><td class=\"any\">{}</td></tr>",
            fixed(*at, 3),
            escape(kind),
            escape(text)
        );
    }
    out.push_str("</tbody>\n</table>\n");
    more(out, rows.len() + run.event_summary.left_out);
}

fn writes(out: &mut String, run: &RunData) {
    let all = &run.event_summary.writes;
    if all.is_empty() {
        return;
    }
    out.push_str(
        "<h3>Writes to devices</h3>\n<table tabindex=\"0\">\n<thead><tr><th>Writer</th><th>Register</th><th>Signal</th><th class=\"n\">Writes</th>\
         <th class=\"n\">First</th><th class=\"n\">Last</th><th class=\"n\">Least</th><th class=\"n\">Greatest</th>\
         <th class=\"n\">Greatest change</th></tr></thead>\n<tbody>\n",
    );
    for ((writer, register, signal), it) in all.iter().take(MOST_ROWS) {
        let _ = writeln!(
            out,
            "<tr><td class=\"label\">{}</td><td class=\"label\">{}</td><td class=\"label\">{}</td><td class=\"n\">{}</td><td class=\"n\">{} at {} s</td><td class=\"n\">{} at {} s</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{} at {} s</td></tr>",
            escape(&shortened(writer, NAME_CHARS)),
            escape(&shortened(register, NAME_CHARS)),
            escape(&shortened(signal, NAME_CHARS)),
            it.count,
            significant(it.first.1, 5),
            fixed(it.first.0, 3),
            significant(it.last.1, 5),
            fixed(it.last.0, 3),
            significant(it.least, 5),
            significant(it.greatest, 5),
            significant(it.step.0, 5),
            fixed(it.step.1, 3),
        );
    }
    out.push_str("</tbody>\n</table>\n");
    more(out, all.len());
    out.push_str("<p class=\"other\">Each single write, with the value before it, is an event of kind <code>write</code> in events.parquet.</p>\n");
}

fn more(out: &mut String, rows: usize) {
    if rows > MOST_ROWS {
        let _ = writeln!(
            out,
            "<p class=\"other\">{} more are in events.parquet.</p>",
            rows - MOST_ROWS
        );
    }
}

const WIDTH: f64 = 940.0;
const LEFT: f64 = 215.0;
const RIGHT: f64 = 900.0;
const TOP: f64 = 6.0;
const LANE: f64 = 24.0;
const GAP: f64 = 12.0;
const MOST_LANES: usize = 16;
const MOST_ROWS: usize = 40;

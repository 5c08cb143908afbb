//! Section about the pauses of the clock, by requester.

use timeloom_time::Duration;

use super::data::RunData;
use super::figure::{Numbering, key};
use super::markup::{NAME_CHARS, escape, missing, section_head, shortened};
use super::number::{Range, duration};
use super::pauses::Requester;
use super::plot::{Plot, Trace};
use super::spec::ReportSpec;
use super::{lanes, panels};

/// Appends the section: time lanes, a plot of wall against virtual time, and a table.
pub(super) fn section(
    out: &mut String,
    figures: &mut Numbering,
    spec: &ReportSpec,
    runs: &[RunData],
    colours: &[&'static str],
) {
    section_head(out, "Pauses of the clock and their requesters");
    let Some((index, run)) = runs
        .iter()
        .enumerate()
        .nth(spec.clock_run)
        .or_else(|| runs.iter().enumerate().next())
    else {
        missing(out, "there is no run whose clock could be shown.");
        out.push_str("</section>\n");
        return;
    };
    let end_s = run.end_s().unwrap_or(1.0);
    let requesters = &run.clock.requesters;
    if run.clock.is_empty {
        missing(
            out,
            &format!("the run “{}” has no record of its clock.", run.label),
        );
    } else if requesters.is_empty() {
        out.push_str(&format!(
            "<p>In the run “{}” the clock was never paused.</p>\n",
            escape(&run.label)
        ));
    } else {
        let marks = panels::attack_marks(std::slice::from_ref(run), &colours[index..], end_s);
        figures.begin(out);
        let scale = lanes::draw(
            out,
            requesters,
            Range {
                low: 0.0,
                high: end_s,
            },
            &marks,
        );
        figures.end(
            out,
            &format!("Time lanes of the run “{}”.", run.label),
            &scale,
        );
    }
    if runs.iter().any(|run| run.clock.progress.len() > 1) {
        figures.begin(out);
        out.push_str("<div class=\"grid2\">\n<div class=\"panel\">\n");
        draw_progress(out, runs, colours);
        out.push_str("</div>\n");
        let mut caption = "The clock is stopped where the curve is level; the dashed line is a clock that is never paused."
            .to_owned();
        if !requesters.is_empty() {
            out.push_str("<div class=\"panel\">\n");
            table(out, requesters, run);
            out.push_str("</div>\n");
            caption.push_str(
                " The table has the requesters; times are wall time, percentiles by nearest rank. Several may hold the \
                 clock at once, so their totals may exceed the time for which it was stopped. That time includes stopping and starting \
                 the programs.",
            );
        }
        out.push_str("</div>\n");
        figures.end(out, "Virtual time against wall time.", &caption);
    } else if !requesters.is_empty() {
        table(out, requesters, run);
    }
    out.push_str("</section>\n");
}

fn draw_progress(out: &mut String, runs: &[RunData], colours: &[&'static str]) {
    let furthest = |axis: fn(&(f64, f64)) -> f64| {
        runs.iter()
            .flat_map(|run| &run.clock.progress)
            .map(axis)
            .reduce(f64::max)
            .filter(|far| *far > 0.0)
            .unwrap_or(1.0)
    };
    let (x, y) = (
        Range {
            low: 0.0,
            high: furthest(|p| p.0),
        },
        Range {
            low: 0.0,
            high: furthest(|p| p.1),
        },
    );
    if runs.len() > 1 {
        out.push_str("<div class=\"keys\">");
        runs.iter().zip(colours).for_each(|(run, colour)| {
            key(out, colour, "", 1.8, &shortened(&run.label, NAME_CHARS))
        });
        out.push_str("</div>\n");
    }
    let corner = x.high.min(y.high);
    let mut never_paused = Trace::new([(0.0, 0.0), (corner, corner)], x, "#7a8794");
    (never_paused.dash, never_paused.width) = ("2 2.5", 1.0);
    let mut traces = vec![never_paused];
    traces.extend(
        runs.iter()
            .zip(colours)
            .enumerate()
            .map(|(index, (run, colour))| {
                let points = run.clock.progress.iter().copied();
                let mut trace = Trace::new(points, x, colour);
                trace.width = if runs.len() > 1 && index == 0 {
                    2.6
                } else {
                    1.1
                };
                trace
            }),
    );
    Plot {
        description: "Virtual time against wall time".to_owned(),
        x,
        y: Range {
            low: 0.0,
            high: y.high * 1.05,
        },
        x_label: "Wall time (s)",
        y_label: "Virtual time (s)".to_owned(),
        factor: 1.0,
        references: &[],
        marks: &[],
        traces,
    }
    .draw(out);
}

fn table(out: &mut String, requesters: &[Requester], run: &RunData) {
    out.push_str(&format!(
        "<h3>{}</h3>\n<table tabindex=\"0\">\n<thead><tr><th>Requester</th><th class=\"n\">Pauses</th><th class=\"n\">Total</th>\
         <th class=\"n\">Median</th><th class=\"n\">95 %</th><th class=\"n\">Longest</th></tr></thead>\n<tbody>\n",
        escape(&run.label)
    ));
    for requester in requesters.iter().take(ROWS) {
        out.push_str(&format!(
            "<tr><td class=\"label\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
            escape(&shortened(&requester.name, NAME_CHARS)),
            requester.count,
            duration(requester.total),
            duration(requester.median),
            duration(requester.p95),
            duration(requester.max),
        ));
    }
    if requesters.len() > ROWS {
        let rest = &requesters[ROWS..];
        out.push_str(&format!(
            "<tr><td class=\"other\">{} others</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td></td><td></td><td></td></tr>\n",
            rest.len(),
            rest.iter().map(|requester| requester.count).sum::<usize>(),
            duration(rest.iter().map(|requester| requester.total).sum::<Duration>()),
        ));
    }
    if let Some(manifest) = &run.manifest {
        out.push_str(&format!(
            "<tr><td class=\"total\">clock stopped</td><td class=\"n total\">{}</td><td class=\"n total\">{}</td><td></td><td></td><td></td></tr>\n",
            manifest.pauses,
            duration(manifest.paused_total)
        ));
    }
    out.push_str("</tbody>\n</table>\n");
}

/// Maximum number of rows in the table. One further row has the sums of the other requesters.
const ROWS: usize = 20;

//! When the clock was paused and by whom.

use timeloom_time::Duration;

use super::data::{RunData, seconds};
use super::figure::{Numbering, key};
use super::markup::{NAME_CHARS, escape, missing, section_head, shortened};
use super::number::{Range, duration};
use super::pauses::{Requester, by_requester, holds};
use super::plot::{Plot, Trace};
use super::spec::ReportSpec;
use super::{lanes, panels};

/// The section: lanes, wall against virtual time, and the table.
pub(super) fn section(
    out: &mut String,
    figures: &mut Numbering,
    spec: &ReportSpec,
    runs: &[RunData],
    colours: &[&'static str],
) {
    section_head(out, "When the clock was paused, and by whom");
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
    let requesters = by_requester(holds(&run.clock));
    if run.clock.is_empty() {
        missing(
            out,
            &format!("the run “{}” has no record of its clock.", run.label),
        );
    } else if requesters.is_empty() {
        out.push_str(&format!(
            "<p>In the run “{}” nobody paused the clock.</p>\n",
            escape(&run.label)
        ));
    } else {
        let marks = panels::attack_marks(std::slice::from_ref(run), &colours[index..], end_s);
        figures.begin(out);
        let scale = lanes::draw(
            out,
            &requesters,
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
    if runs.iter().any(|run| wall_against_virtual(run).len() > 1) {
        figures.begin(out);
        out.push_str("<div class=\"grid2\">\n<div class=\"panel\">\n");
        draw_progress(out, runs, colours);
        out.push_str("</div>\n");
        let mut caption = "Where the curve is level the clock stands; the dashed line is a clock that is never paused."
            .to_owned();
        if !requesters.is_empty() {
            out.push_str("<div class=\"panel\">\n");
            table(out, &requesters, run);
            out.push_str("</div>\n");
            caption.push_str(
                " The table has the requesters; times are wall time, percentiles by nearest rank. Several may hold the \
                 clock at once, so their totals may exceed the time it stood; stopping and starting the programs adds \
                 to it.",
            );
        }
        out.push_str("</div>\n");
        figures.end(out, "Virtual time against wall time.", &caption);
    } else if !requesters.is_empty() {
        table(out, &requesters, run);
    }
    out.push_str("</section>\n");
}

/// Points (wall, virtual) in seconds since the first, of the first host that
/// wrote: hosts' wall clocks have no common zero.
fn wall_against_virtual(run: &RunData) -> Vec<(f64, f64)> {
    let Some(first) = run.clock.first() else {
        return Vec::new();
    };
    run.clock
        .iter()
        .filter(|row| row.host == first.host)
        .map(|row| {
            (
                (row.t_wall - first.t_wall).as_s_f64(),
                seconds(row.t_virtual),
            )
        })
        .collect()
}

fn draw_progress(out: &mut String, runs: &[RunData], colours: &[&'static str]) {
    let curves: Vec<_> = runs.iter().map(wall_against_virtual).collect();
    let furthest = |axis: fn(&(f64, f64)) -> f64| {
        curves
            .iter()
            .flatten()
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
        curves
            .into_iter()
            .zip(colours)
            .enumerate()
            .map(|(index, (curve, colour))| {
                let mut last = f64::NEG_INFINITY;
                // Rows of several threads may be a little out of order; the plot
                // wants them rising.
                let rising = curve.into_iter().filter(move |(wall, _)| {
                    let keep = *wall >= last;
                    last = last.max(*wall);
                    keep
                });
                let mut trace = Trace::new(rising, x, colour);
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
            requester.holds.len(),
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
            rest.iter().map(|requester| requester.holds.len()).sum::<usize>(),
            duration(rest.iter().map(|requester| requester.total).sum::<Duration>()),
        ));
    }
    if let Some(manifest) = &run.manifest {
        out.push_str(&format!(
            "<tr><td class=\"total\">the clock stood</td><td class=\"n total\">{}</td><td class=\"n total\">{}</td><td></td><td></td><td></td></tr>\n",
            manifest.pauses,
            duration(manifest.paused_total)
        ));
    }
    out.push_str("</tbody>\n</table>\n");
}

/// So many requesters are still read; the rest are added up.
const ROWS: usize = 20;

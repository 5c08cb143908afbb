//! Section about the test of virtual time: a slower solver must not change the results.
//!
//! The same experiment is run with solvers that are slower from run to run. Under virtual time all
//! curves must agree within a stated tolerance. In real time they must not, or the experiment could
//! not have shown a difference.

use super::comparison;
use super::data::{one_signal, seconds};
use super::figure::{Numbering, key};
use super::markup::{NAME_CHARS, missing, section_head, shortened};
use super::number::{Range, prefix};
use super::panels::axis_name;
use super::plot::{Plot, Trace};
use super::spec::{Proof, ProofRun, Reference};
use super::style::colour;
use crate::Series;
use crate::deviation::differences;

/// Appends the section with its figures and its table.
pub(super) fn section(out: &mut String, figures: &mut Numbering, proof: &Proof) {
    section_head(out, "Virtual time under test: solvers of different speed");
    let mut problems = Vec::new();
    let with = load(&proof.with_virtual_time, &proof.signal, &mut problems);
    let without = load(&proof.without_virtual_time, &proof.signal, &mut problems);
    let all = || with.iter().chain(&without);
    let unit = if proof.unit.is_empty() {
        all()
            .map(|(_, series)| series.unit.to_string())
            .find(|unit| !unit.is_empty())
            .unwrap_or_default()
    } else {
        proof.unit.clone()
    };
    // Both panels have the same axes, so that differences between them are visible.
    let y = Range::of(all().flat_map(|(_, series)| series.samples.iter().map(|(_, value)| *value)));
    let end = Range::of(
        all()
            .filter_map(|(_, series)| series.samples.last())
            .map(|(t, _)| seconds(*t)),
    );
    if let (Some(y), Some(end)) = (y, end) {
        let axes = (
            Range {
                low: 0.0,
                high: if end.high > 0.0 { end.high } else { 1.0 },
            },
            y.padded(0.07),
        );
        figures.begin(out);
        out.push_str("<div class=\"grid2\">\n");
        draw(out, "(a) Virtual time on", &with, proof, &unit, axes);
        draw(out, "(b) Virtual time off", &without, proof, &unit, axes);
        draw_apart(
            out,
            [
                ("(c) Virtual time on: difference from the first", &with),
                ("(d) Virtual time off: difference from the first", &without),
            ],
            proof,
            &unit,
            axes.0,
        );
        out.push_str("</div>\n");
        figures.end(
            out,
            "The same experiment with solvers of different speed.",
            "Earlier curves are drawn broader, so that coinciding curves look like one with a border. The panels below show how far \
             each run is from the first of its group; the band is the tolerance. Panels of a row have the same axes.",
        );
        comparison::paragraphs(out, proof, &unit, &with, &without);
    }
    problems.iter().for_each(|problem| missing(out, problem));
    if with.is_empty() && without.is_empty() && problems.is_empty() {
        missing(out, "no runs were given to compare.");
    }
    out.push_str("</section>\n");
}

/// Draws the deviations from the first run of each group. (If the curves themselves are drawn over
/// each other, a difference of a twentieth is invisible.)
fn draw_apart(
    out: &mut String,
    groups: [(&str, &Vec<(&str, Series)>); 2],
    proof: &Proof,
    unit: &str,
    x: Range,
) {
    let apart = groups.map(|(title, group)| (title, apart(group, proof)));
    let Some(y) = Range::of(
        apart
            .iter()
            .flat_map(|(_, curves)| {
                curves
                    .iter()
                    .flat_map(|(_, points)| points.iter().map(|(_, v)| *v))
            })
            .chain([-proof.tolerance, proof.tolerance]),
    ) else {
        return;
    };
    let y = y.padded(0.07);
    let (factor, prefix) = prefix(unit, y);
    let band = [Reference::Band {
        from: -proof.tolerance,
        to: proof.tolerance,
        label: "tolerance".to_owned(),
    }];
    for (title, curves) in apart {
        out.push_str(&format!(
            "<div class=\"panel\">\n<h3>{title}</h3>\n<div class=\"keys\">"
        ));
        let mut traces = Vec::new();
        for (index, (label, points)) in curves.into_iter().enumerate() {
            let colour = if index == 0 { colour(1) } else { "#222222" };
            key(out, colour, "", 1.2, &shortened(label, NAME_CHARS));
            let mut trace = Trace::new(points, x, colour);
            trace.width = 1.2;
            traces.push(trace);
        }
        out.push_str("</div>\n");
        Plot {
            description: format!("{title}: {}", proof.signal),
            x,
            y,
            x_label: "Virtual time (s)",
            y_label: axis_name(&proof.y_label, &format!("{prefix}{unit}")),
            factor,
            references: &band,
            marks: &[],
            traces,
        }
        .draw(out);
        out.push_str("</div>\n");
    }
}

type Curve<'a> = (&'a str, Vec<(f64, f64)>);

fn apart<'a>(group: &[(&'a str, Series)], proof: &Proof) -> Vec<Curve<'a>> {
    let Some(((_, first), others)) = group.split_first() else {
        return Vec::new();
    };
    others
        .iter()
        .filter_map(|(label, series)| {
            let differences = differences(&first.samples, &series.samples, proof.alignment)?;
            let points = differences.into_iter().map(|(t, v)| (seconds(t), v));
            Some((*label, points.filter(|(t, _)| *t >= proof.from_s).collect()))
        })
        .collect()
}

fn load<'a>(
    runs: &'a [ProofRun],
    signal: &str,
    problems: &mut Vec<String>,
) -> Vec<(&'a str, Series)> {
    runs.iter()
        .filter_map(|run| match one_signal(&run.directory, signal) {
            Ok(series) if series.samples.is_empty() => {
                problems.push(format!("signal {signal} in run “{}”.", run.label));
                None
            }
            Ok(series) => Some((run.label.as_str(), series)),
            Err(error) => {
                problems.push(format!("run “{}”: {error}.", run.label));
                None
            }
        })
        .collect()
}

fn draw(
    out: &mut String,
    title: &str,
    group: &[(&str, Series)],
    proof: &Proof,
    unit: &str,
    axes: (Range, Range),
) {
    let (x, y) = axes;
    out.push_str(&format!(
        "<div class=\"panel\">\n<h3>{title}</h3>\n<div class=\"keys\">"
    ));
    let mut traces = Vec::new();
    for (index, (label, series)) in group.iter().enumerate() {
        // The first curve is wide and pale, and the later ones are narrow and dark, so that all are
        // visible.
        let (colour, width) = match index {
            0 => ("#9fc9e6", 5.5),
            1 => (colour(1), 2.6),
            2 => ("#222222", 1.0),
            _ => (colour(index), 1.0),
        };
        key(out, colour, "", width, &shortened(label, NAME_CHARS));
        let mut trace = Trace::new(
            series.samples.iter().map(|(t, v)| (seconds(*t), *v)),
            x,
            colour,
        );
        trace.width = width;
        traces.push(trace);
    }
    out.push_str("</div>\n");
    if traces.is_empty() {
        missing(out, "no run of this group could be read.");
    } else {
        let (factor, prefix) = prefix(unit, y);
        Plot {
            description: format!("{title}: {} of {} runs", proof.signal, traces.len()),
            x,
            y,
            x_label: "Virtual time (s)",
            y_label: axis_name(&proof.y_label, &format!("{prefix}{unit}")),
            factor,
            references: &[],
            marks: &[],
            traces,
        }
        .draw(out);
    }
    out.push_str("</div>\n");
}

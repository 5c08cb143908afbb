//! The proof that virtual time works: a slower solver changes nothing.
//!
//! The same experiment is run with solvers that take longer and longer. Under
//! virtual time all traces must lie on each other within a stated tolerance;
//! in real time they must not, or the experiment would prove nothing.

use super::data::{one_signal, seconds};
use super::figure::{Numbering, key};
use super::markup::{NAME_CHARS, escape, missing, shortened};
use super::number::{Range, fixed, prefix, significant};
use super::panels::axis_name;
use super::plot::{Plot, Trace};
use super::spec::{Proof, ProofRun};
use super::style::colour;
use crate::{Deviation, Series, deviation_aligned};

/// The section with figure and table.
pub(super) fn section(out: &mut String, figures: &mut Numbering, proof: &Proof) {
    out.push_str("<section>\n<h2>The proof that virtual time works</h2>\n");
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
    // Both panels on the same axes: what differs shall look different.
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
        out.push_str("</div>\n");
        figures.end(
            out,
            "The same experiment with solvers of different speed.",
            "Earlier curves are drawn broader, so that curves which coincide show as one with a rim. Both panels have \
             the same axes.",
        );
        table(out, proof, &unit, &with, &without);
    }
    problems.iter().for_each(|problem| missing(out, problem));
    if with.is_empty() && without.is_empty() && problems.is_empty() {
        missing(out, "no runs were given to compare.");
    }
    out.push_str("</section>\n");
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
        // Broad and pale below, narrow and dark above.
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

fn table(
    out: &mut String,
    proof: &Proof,
    unit: &str,
    with: &[(&str, Series)],
    without: &[(&str, Series)],
) {
    let unit = escape(unit);
    out.push_str(&format!(
        "<p>Deviation of <code>{}</code> from the first run of its group, over the virtual time that both cover. The \
         tolerance is {} {unit}.</p>\n<table>\n<thead><tr><th>Virtual time</th><th>Run</th><th>Reference</th>\
         <th class=\"n\">Greatest ({unit})</th><th class=\"n\">at (s)</th><th class=\"n\">RMS ({unit})</th><th>Within tolerance</th></tr></thead>\n<tbody>\n",
        escape(&proof.signal),
        significant(proof.tolerance, 3),
    ));
    for (word, group, wanted) in [("on", with, true), ("off", without, false)] {
        let Some(((reference, base), others)) = group.split_first() else {
            continue;
        };
        for (label, series) in others {
            let apart = deviation_aligned(&base.samples, &series.samples, proof.alignment);
            out.push_str(&format!(
                "<tr><td>{word}</td><td>{}</td><td>{}</td>{}</tr>\n",
                escape(&shortened(label, NAME_CHARS)),
                escape(&shortened(reference, NAME_CHARS)),
                cells(apart, proof.tolerance, wanted)
            ));
        }
    }
    out.push_str("</tbody>\n</table>\n");
}

/// Figures and verdict. Off virtual time the traces are expected to part, so
/// there a deviation is no failure of the tool.
fn cells(apart: Option<Deviation>, tolerance: f64, wanted: bool) -> String {
    let Some(apart) = apart else {
        return "<td colspan=\"4\" class=\"other\">no common virtual time</td>".to_owned();
    };
    let (class, word) = match (apart.max_abs <= tolerance, wanted) {
        (true, true) => ("pass", "✓ yes"),
        (false, true) => ("fail", "✗ no"),
        (true, false) => ("other", "yes"),
        (false, false) => ("other", "no, as expected"),
    };
    format!(
        "<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"verdict {class}\">{word}</td>",
        significant(apart.max_abs, 3),
        fixed(apart.at_ns as f64 / 1e9, 3),
        significant(apart.rms, 3)
    )
}

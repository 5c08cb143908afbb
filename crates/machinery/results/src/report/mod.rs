//! Report `report.html`: one file about one or several runs.
//!
//! The page needs no network and no script, is readable on a screen, and prints on A4. It is a pure
//! function of the run directories: the same runs give the same bytes. A sentence takes the place
//! of missing content, because a report on an incomplete run is better than none.
//!
//! This module draws the figures itself. `plotters` was considered. Its SVG back end styles every
//! element inline, knows no `@media print`, repeats all points, and guesses the size of text
//! without fonts. The part of it that would be used is shorter than its replacement here.

mod attack;
mod checks;
mod clock;
mod comparison;
mod data;
mod decimate;
mod event_summary;
mod figure;
mod lanes;
mod map;
mod markup;
mod network;
mod number;
mod outline;
mod panels;
mod pauses;
mod plot;
mod proof;
mod provenance;
mod sheet;
mod spec;
mod strip;
mod style;
mod summary;
mod timelines;
mod verdict;

pub use sheet::{Chart, Curve, Sheet, SheetPart};
pub use spec::{Panel, PanelSignal, Proof, ProofRun, Reference, ReportRun, ReportSpec, RunKind};

use data::RunData;
use markup::escape;

/// Renders the report as an HTML document.
///
/// Reads the tables of every run, and `signals.parquet` more than once if there is a simulated
/// network. Of each table, keeps no more than the figures need. Never fails: read errors are stated
/// in the report.
pub fn render(spec: &ReportSpec) -> String {
    let runs: Vec<RunData> = spec
        .runs
        .iter()
        .map(|run| RunData::load(run, &spec.panels))
        .collect();
    let colours = style::run_colours(&spec.runs);
    let mut head = String::new();
    summary::header(&mut head, spec, &runs, &colours);
    let mut body = String::new();
    let mut figures = figure::Numbering::default();
    panels::section(&mut body, &mut figures, spec, &runs, &colours);
    checks::section(&mut body, &runs);
    attack::section(&mut body, &mut figures, &runs, &colours);
    timelines::section(&mut body, &runs);
    network::section(&mut body, &mut figures, &runs, &colours);
    if let Some(proof) = &spec.proof {
        proof::section(&mut body, &mut figures, proof);
    }
    clock::section(&mut body, &mut figures, spec, &runs, &colours);
    provenance::section(&mut body, &runs);
    summary::notes(&mut body, &spec.notes);
    head.push_str(&markup::contents(&body));
    document(&spec.title, &(head + &body))
}

/// Returns an HTML page with this title and body.
fn document(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
         <title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escape(title),
        style::SHEET,
    )
}

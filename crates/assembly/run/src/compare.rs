//! Comparison of two runs: the distance between them for each signal, their first difference, and a
//! page that draws both runs in the same charts. Implements `timeloom compare`.
//!
//! `timeloom_results` computes the figures; this module selects the runs and presents the results.

use std::collections::BTreeMap;
use std::path::PathBuf;

use timeloom_results::report::{Chart, Curve, Part, Sheet};
use timeloom_results::{
    Alignment, Comparison, Series, SignalApart, Signals, Spread, Threshold, compare_runs,
    write_page,
};

use crate::report::{ReportError, recovered};

/// Parameters of a comparison.
#[derive(Clone, Debug, Default)]
pub struct CompareRequest {
    /// Reference run.
    pub first: PathBuf,
    /// Run that is compared with the reference.
    pub second: PathBuf,
    /// Greatest permitted distance of signals that are not in `of`; `None` sets no limit.
    pub all: Option<Threshold>,
    /// Greatest permitted distance of single signals, by `source.name`.
    pub of: BTreeMap<String, Threshold>,
    /// Method by which a signal's value between two samples is determined.
    pub alignment: Alignment,
    /// Path of the page; `None` places the page beside the second run.
    pub output: Option<PathBuf>,
}

/// Result of a comparison.
#[derive(Clone, Debug)]
pub struct ComparisonResult {
    /// Distances of all signals that either run recorded, sorted by name.
    pub signals: Vec<SignalApart>,
    /// First difference between the recorded events of both runs, if any.
    pub difference: Comparison,
    /// Path of the page.
    pub page: PathBuf,
    /// Remarks about the runs for the reader of the result.
    pub remarks: Vec<String>,
}

impl ComparisonResult {
    /// Returns the signals whose distance exceeds their threshold.
    pub fn past(&self) -> impl Iterator<Item = &SignalApart> {
        self.signals.iter().filter(|signal| signal.past)
    }
}

/// Compares two runs and writes the page. Recovers killed runs first.
///
/// # Errors
/// Returns an error if a directory is not a run, if a threshold is for a signal that neither run
/// has, or if the page cannot be written.
pub fn compare(request: &CompareRequest) -> Result<ComparisonResult, ReportError> {
    let mut remarks = Vec::new();
    let first = recovered(&request.first, &mut remarks)?;
    let second = recovered(&request.second, &mut remarks)?;
    let signals = Signals::read(&first, &second).map_err(ReportError::Results)?;
    let names = signals.names();
    if let Some(unknown) = request
        .of
        .keys()
        .find(|name| !names.contains(name.as_str()))
    {
        return Err(ReportError::NoSignal {
            name: unknown.clone(),
            known: names.iter().map(|name| (*name).to_owned()).collect(),
        });
    }
    let threshold = |name: &str| request.of.get(name).copied().or(request.all);
    let apart = signals.apart(request.alignment, threshold);
    let difference = compare_runs(&first, &second).map_err(ReportError::Results)?;
    let labels = [first.name(), second.name()];
    let html = sheet(&labels, &signals, &apart, &difference).render();
    let page = match &request.output {
        Some(path) => write_page(path, &html).map(|()| path.clone()),
        None => {
            let file = format!("compare-{}-{}.html", labels[0], labels[1]);
            second.write_beside(&file, &html)
        }
    };
    let page = page.map_err(ReportError::Results)?;
    Ok(ComparisonResult {
        signals: apart,
        difference,
        page,
        remarks,
    })
}

/// Formats a number with about four significant digits.
pub fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let magnitude = value.abs().log10().floor();
    if !(-4.0..=8.0).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let decimals = (3.0 - magnitude).max(0.0) as usize;
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// The columns of a comparison's table.
pub const COLUMNS: [&str; 9] = [
    "signal",
    "unit",
    "first",
    "second",
    "apart at most",
    "at (s)",
    "RMS",
    "allowed",
    "",
];

/// Formats one row of that table: the least and greatest value of a signal in each run, and the
/// distance.
pub fn row(signal: &SignalApart) -> Vec<String> {
    let range = |spread: &Option<Spread>| match spread {
        Some(spread) => format!("{} to {}", short(spread.min), short(spread.max)),
        None => "not recorded".to_owned(),
    };
    let apart = signal.apart.as_ref();
    let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), short);
    vec![
        signal.signal.clone(),
        signal.unit.to_string(),
        range(&signal.first),
        range(&signal.second),
        shown(apart.map(|apart| apart.max_abs)),
        shown(apart.map(|apart| apart.at_ns as f64 * 1e-9)),
        shown(apart.map(|apart| apart.rms)),
        shown(signal.allowed),
        if signal.past { "PAST" } else { "" }.to_owned(),
    ]
}

fn sheet(
    labels: &[String; 2],
    signals: &Signals,
    apart: &[SignalApart],
    difference: &Comparison,
) -> Sheet {
    let past = apart.iter().filter(|signal| signal.past).count();
    let first_difference = match &difference.difference {
        Some(found) => format!(
            "They first differ at {} s of virtual time, in {} of {}.",
            short(found.at_ns as f64 * 1e-9),
            found.file,
            found.of
        ),
        None => "They agree in every signal and event, and in the time of every printed line."
            .to_owned(),
    };
    let judged = apart
        .iter()
        .filter(|signal| signal.allowed.is_some())
        .count();
    let verdict = match (past, judged) {
        (0, 0) => "No threshold was given.".to_owned(),
        (0, _) => format!("All {judged} signals with a threshold are within it."),
        (_, _) => format!(
            "{past} of {} signals are past their threshold.",
            apart.len()
        ),
    };
    Sheet {
        title: format!("{} against {}", labels[1], labels[0]),
        lead: format!("{verdict} {first_difference}"),
        parts: vec![
            Part::Text {
                heading: "Signals over virtual time".to_owned(),
                paragraphs: Vec::new(),
            },
            Part::Figure {
                charts: charts(signals, apart, labels),
                lead: "Both runs over virtual time.".to_owned(),
                caption: "Ordered by greatest difference relative to the signal's range."
                    .to_owned(),
            },
            Part::Table {
                heading: "Every signal".to_owned(),
                columns: named_columns(labels),
                rows: apart.iter().map(row).collect(),
                note:
                    "Greatest difference, and root mean square (RMS), over the virtual time that \
                       both cover, in the signal's unit."
                        .to_owned(),
            },
        ],
    }
}

/// Returns [`COLUMNS`], with the labels of the two runs in the titles of the columns that show each
/// run's range.
fn named_columns(labels: &[String; 2]) -> Vec<String> {
    let mut columns = COLUMNS.map(str::to_owned);
    for (column, label) in columns[2..4].iter_mut().zip(labels) {
        *column = format!("{label}, range");
    }
    columns.to_vec()
}

/// Returns the charts. Signals that exceed their threshold come first, then those whose distance is
/// greatest in relation to their range.
fn charts(signals: &Signals, apart: &[SignalApart], labels: &[String; 2]) -> Vec<Chart> {
    let relative = |signal: &SignalApart| match (&signal.apart, &signal.first) {
        (Some(apart), Some(first)) if first.range() > 0.0 => apart.max_abs / first.range(),
        (Some(apart), _) => apart.max_abs,
        (None, _) => f64::INFINITY,
    };
    let mut order: Vec<&SignalApart> = apart.iter().collect();
    order.sort_by(|a, b| {
        let past = b.past.cmp(&a.past);
        past.then(relative(b).total_cmp(&relative(a)))
    });
    let curve = |series: Option<&Series>, label: &str| Curve {
        label: label.to_owned(),
        points: series.map(points).unwrap_or_default(),
    };
    order
        .into_iter()
        .take(MOST_CHARTS)
        .map(|signal| Chart {
            bands: Vec::new(),
            name: signal.signal.clone(),
            title: signal.signal.clone(),
            x_label: "Virtual time (s)".to_owned(),
            y_label: signal.unit.to_string(),
            curves: vec![
                curve(signals.first.get(&signal.signal), &labels[0]),
                curve(signals.second.get(&signal.signal), &labels[1]),
            ],
        })
        .collect()
}

fn points(series: &Series) -> Vec<(f64, f64)> {
    let seconds = |(at, value): &(timeloom_time::Instant<timeloom_time::Virtual>, f64)| {
        (at.as_ns() as f64 * 1e-9, *value)
    };
    series.samples.iter().map(seconds).collect()
}

/// Maximum number of charts on the page.
const MOST_CHARTS: usize = 6;

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn a_number_has_the_digits_that_count() {
        let shown = [
            0.0,
            1.0,
            1.49986,
            2323.9921,
            -0.000123456,
            1e-9,
            123456789.0,
        ]
        .map(short);
        let expected = [
            "0",
            "1",
            "1.5",
            "2324",
            "-0.0001235",
            "1.000e-9",
            "123456789",
        ];
        assert_eq!(shown, expected);
    }
}

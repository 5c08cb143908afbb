//! Page about a sweep: a table, and a chart for each signal with a band over the seeds.

use std::collections::BTreeMap;

use timeloom_results::report::{Chart, Curve, Part, Sheet};
use timeloom_results::{Series, SweepDirectory, value_at};
use timeloom_time::Instant;

use super::table::{Group, Row, RunEnd, groups, names, quantile};
use crate::compare::short;

/// Returns the columns and rows of the table, which has one row for each combination of values. A
/// row has the number of runs that passed, and for each check the median, least and greatest value.
pub fn by_values(rows: &[Row]) -> (Vec<String>, Vec<Vec<String>>) {
    let checks = names(rows, |row| row.measured.keys());
    // If no check measures a value, the table shows the means of a few signals instead.
    let signals = match checks.is_empty() {
        true => names(rows, |row| row.signals.keys()),
        false => Vec::new(),
    };
    let signals: Vec<String> = signals.into_iter().take(FEW).collect();
    let mut columns = vec!["values".to_owned(), "runs".to_owned(), "passed".to_owned()];
    columns.extend(checks.iter().cloned());
    columns.extend(signals.iter().map(|name| format!("mean of {name}")));
    let line = |group: &Group<'_>| {
        let counts = [group.rows.len(), group.count(RunEnd::Passed)];
        let mut cells = vec![group.label.clone()];
        cells.extend(counts.map(|count| count.to_string()));
        let checked = checks
            .iter()
            .map(|name| group.spread(|row| row.measured.get(name).copied()));
        let meant = signals
            .iter()
            .map(|name| group.spread(|row| Some(row.signals.get(name)?.mean)));
        cells.extend(
            checked
                .chain(meant)
                .map(|spread| shown(spread, group.rows.len())),
        );
        cells
    };
    let lines = groups(rows).iter().map(line).collect();
    (columns, lines)
}

fn shown(spread: Option<[f64; 3]>, runs: usize) -> String {
    match spread {
        None => "–".to_owned(),
        Some([_, median, _]) if runs == 1 => short(median),
        Some([least, median, most]) => {
            format!("{} ({} to {})", short(median), short(least), short(most))
        }
    }
}

/// Returns a row for each run that did not pass: its name, how it ended, and the reason.
pub fn not_passed(rows: &[Row]) -> Vec<Vec<String>> {
    let others = rows.iter().filter(|row| row.ended != RunEnd::Passed);
    let why = |row: &Row| {
        row.culprit
            .clone()
            .unwrap_or_else(|| "it was not started".to_owned())
    };
    let cells = |row: &Row| {
        vec![
            row.point.name.clone(),
            row.ended.as_str().to_owned(),
            why(row),
        ]
    };
    others.map(cells).collect()
}

/// Returns the HTML page about all runs of the sweep in `directory`.
pub(super) fn page(name: &str, directory: &SweepDirectory, rows: &[Row]) -> String {
    let passed = rows
        .iter()
        .filter(|row| row.ended == RunEnd::Passed)
        .count();
    let (columns, lines) = by_values(rows);
    let mut parts = vec![Part::Table {
        heading: "By values".to_owned(),
        columns,
        rows: lines,
        note: "The median over the seeds, with the least and the greatest, of runs that passed \
               or failed."
            .to_owned(),
    }];
    let others = not_passed(rows);
    if !others.is_empty() {
        parts.push(Part::Table {
            heading: "Runs that did not pass".to_owned(),
            columns: ["run", "ended", "why"].map(str::to_owned).to_vec(),
            rows: others,
            note: "A failed run is in the table above and in the bands as far as it got."
                .to_owned(),
        });
    }
    let charts = charts(directory, rows);
    if !charts.is_empty() {
        parts.push(Part::Figure {
            charts,
            lead: "Signals over virtual time.".to_owned(),
            caption: format!(
                "The line is the median of all seeds at each instant, the band reaches from the \
                 5th to the 95th percentile.{}",
                not_drawn(rows)
            ),
        });
    }
    Sheet {
        title: format!("Sweep of {name}"),
        lead: format!("{passed} of {} runs passed.", rows.len()),
        parts,
    }
    .render()
}

/// Returns sentences that name the combinations and signals which the page does not draw; empty if
/// all are drawn.
fn not_drawn(rows: &[Row]) -> String {
    let groups: Vec<String> = groups(rows).into_iter().map(|group| group.label).collect();
    let signals = names(rows, |row| row.signals.keys());
    let left_out = |what: &str, all: &[String], drawn: usize| {
        let others = all.get(drawn..).unwrap_or_default();
        if others.is_empty() {
            return String::new();
        }
        let mut listed: Vec<&str> = others.iter().map(String::as_str).collect();
        listed.truncate(MOST_LISTED);
        let more = match others.len() - listed.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!(
            " Drawn are the first {drawn} of {} {what}; not drawn: {}{more}.",
            all.len(),
            listed.join(", ")
        )
    };
    let of_groups = left_out("combinations of values", &groups, MOST_CURVES);
    let of_signals = left_out("signals", &signals, MOST_CHARTS);
    let elsewhere = match (of_groups.is_empty(), of_signals.is_empty()) {
        (true, true) => "",
        _ => " All are in sweep.parquet.",
    };
    of_groups + &of_signals + elsewhere
}

/// Returns a chart for each signal, with a curve and its band for each combination of values.
fn charts(directory: &SweepDirectory, rows: &[Row]) -> Vec<Chart> {
    let shown: Vec<String> = names(rows, |row| row.signals.keys());
    let shown: Vec<String> = shown.into_iter().take(MOST_CHARTS).collect();
    let groups = groups(rows);
    let mut charts: BTreeMap<&String, Chart> = BTreeMap::new();
    for group in groups.iter().take(MOST_CURVES) {
        let all: Vec<BTreeMap<String, Series>> = group
            .rows
            .iter()
            .filter_map(|row| directory.run(&row.point.name).ok())
            .filter_map(|run| run.all_series().ok())
            .collect();
        for name in &shown {
            let series: Vec<&Series> = all.iter().filter_map(|run| run.get(name)).collect();
            let Some(first) = series.first() else {
                continue;
            };
            let chart = charts.entry(name).or_insert_with(|| Chart {
                name: name.clone(),
                title: name.clone(),
                x_label: "Virtual time (s)".to_owned(),
                y_label: first.unit.to_string(),
                curves: Vec::new(),
                bands: Vec::new(),
            });
            let (points, band) = over_seeds(&series);
            let label = group.label.clone();
            chart.curves.push(Curve { label, points });
            chart.bands.push(band);
        }
    }
    charts.into_values().collect()
}

/// Points of a curve: time and value.
type Points = Vec<(f64, f64)>;
/// Points of a band: time, lower and upper value.
type BandPoints = Vec<(f64, f64, f64)>;

/// Returns the median of several series, and the band from the 5th to the 95th percentile, at
/// instants at equal intervals.
fn over_seeds(series: &[&Series]) -> (Points, BandPoints) {
    let ends = series.iter().filter_map(|series| {
        Some((
            series.samples.first()?.0.as_ns(),
            series.samples.last()?.0.as_ns(),
        ))
    });
    let Some((from, to)) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else {
        return (Vec::new(), Vec::new());
    };
    // There are no more instants than the longest series has samples.
    let most = series
        .iter()
        .map(|series| series.samples.len())
        .max()
        .unwrap_or(1);
    let steps = most.saturating_sub(1).clamp(1, INSTANTS) as i64;
    let (mut points, mut band) = (Vec::new(), Vec::new());
    for step in 0..=steps {
        // Computed in 128 bits, because nanoseconds times the number of steps can exceed 64 bits.
        let at_ns = from + (i128::from(to - from) * i128::from(step) / i128::from(steps)) as i64;
        let at = Instant::from_ns(at_ns);
        let there = series
            .iter()
            .filter_map(|series| value_at(&series.samples, at));
        let mut values: Vec<f64> = there.collect();
        values.sort_by(f64::total_cmp);
        let of = |share| quantile(&values, share);
        if let (Some(low), Some(middle), Some(high)) = (of(0.05), of(0.5), of(0.95)) {
            let x = at_ns as f64 * 1e-9;
            points.push((x, middle));
            band.push((x, low, high));
        }
    }
    // With a single run there is no band.
    if series.len() < 2 {
        band.clear();
    }
    (points, band)
}

const FEW: usize = 3;
const MOST_CHARTS: usize = 8;
const MOST_CURVES: usize = 7;
/// Maximum number of names that a sentence lists.
const MOST_LISTED: usize = 20;
const INSTANTS: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omitted_combinations_and_signals_are_named() {
        use crate::sweep::points::{Axis, points};
        let rows = |combinations: usize, signals: usize| {
            let values: Vec<String> = (0..combinations).map(|gain| gain.to_string()).collect();
            let axis = Axis::parse(&format!("a.gain={}", values.join(","))).unwrap();
            let spread = timeloom_results::Spread::of(&[(Instant::ZERO, 1.0)]).unwrap();
            let named = |number| (format!("p.s{number:02}"), spread);
            let row = |point| Row {
                point,
                ended: RunEnd::Passed,
                culprit: None,
                lasted_s: None,
                measured: BTreeMap::new(),
                signals: (0..signals).map(named).collect(),
            };
            points(&[axis], 2).into_iter().map(row).collect::<Vec<_>>()
        };
        assert_eq!(not_drawn(&rows(7, 8)), "");
        let told = not_drawn(&rows(9, 8));
        let expected = "first 7 of 9 combinations of values; not drawn: gain=7, gain=8.";
        assert!(told.contains(expected), "{told}");
        let told = not_drawn(&rows(40, 10));
        assert!(told.contains("gain=26 and 13 more."), "{told}");
        assert!(
            told.contains("first 8 of 10 signals; not drawn: p.s08, p.s09."),
            "{told}"
        );
    }

    #[test]
    fn a_band_lies_around_the_median_where_runs_overlap() {
        let series = |values: [f64; 3]| Series {
            samples: values
                .iter()
                .zip(0..)
                .map(|(value, s)| (Instant::from_ns(s * 1_000_000_000), *value))
                .collect(),
            ..Series::default()
        };
        let (a, b, c) = (
            series([0.0, 1.0, 2.0]),
            series([0.0, 2.0, 4.0]),
            series([0.0, 3.0, 9.0]),
        );
        let (points, band) = over_seeds(&[&a, &b, &c]);
        assert_eq!(points, [(0.0, 0.0), (1.0, 2.0), (2.0, 4.0)]);
        let [.., (x, low, high)] = band[..] else {
            panic!("a band")
        };
        assert_eq!(x, 2.0);
        assert!(
            (low - 2.2).abs() < 1e-9 && (high - 8.5).abs() < 1e-9,
            "{low} {high}"
        );
        assert!(over_seeds(&[&a]).1.is_empty());
    }
}

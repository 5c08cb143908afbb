//! Results of a sweep: a row for each run, and a group for each combination of values.

use std::collections::BTreeMap;

use timeloom_results::{
    Check, Column, Manifest, MeasuredValue, Outcome, Spread, SweepDirectory, Values,
};

use super::points::Point;

/// Way in which a run of a sweep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The run ended as planned, and every check held.
    Passed,
    /// A program, a plant or a check failed.
    Failed,
    /// The run reached its end, but its results cannot be trusted, because the machine was too
    /// slow.
    Untrusted,
    /// The run was stopped or killed, or has no results.
    NotDone,
}

impl RunEnd {
    /// Returns the name used in the tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Untrusted => "untrusted",
            Self::NotDone => "not done",
        }
    }
}

/// Result of one run, as a row of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// Point of the run.
    pub point: Point,
    /// Kind of end.
    pub ended: RunEnd,
    /// Reason if the run did not end as planned, such as the program that failed.
    pub culprit: Option<String>,
    /// Duration of the run in virtual and in wall time, in seconds.
    pub lasted_s: Option<[f64; 2]>,
    /// Values that checks measured, by check; only checks that apply and measure a number.
    pub measured: BTreeMap<String, f64>,
    /// Statistics of the run's signals, by `source.name`.
    pub signals: BTreeMap<String, Spread>,
}

impl Row {
    /// Reads the result of one run of the sweep in `directory`.
    pub(super) fn read(point: &Point, directory: &SweepDirectory) -> Self {
        let mut row = Self {
            point: point.clone(),
            ended: RunEnd::NotDone,
            culprit: None,
            lasted_s: None,
            measured: BTreeMap::new(),
            signals: BTreeMap::new(),
        };
        let found = directory
            .run(&point.name)
            .and_then(|run| Ok((run.manifest()?, run.checks().unwrap_or_default(), run)));
        let (manifest, checks, run) = match found {
            Ok(found) => found,
            Err(_) => {
                // If there are no results, the last line of the console gives the reason.
                row.culprit = directory.last_console_line(&point.name);
                return row;
            }
        };
        row.ended = ended(&manifest);
        row.culprit = match row.ended {
            RunEnd::Untrusted => Some(manifest.untrusted.join(" ")),
            _ => manifest.culprit,
        };
        let lasted = [manifest.virtual_duration, manifest.wall_duration];
        row.lasted_s = Some(lasted.map(timeloom_time::Duration::as_s_f64));
        row.measured = checks.into_iter().filter_map(number).collect();
        match run.all_series() {
            Ok(all) => {
                let spreads = all
                    .into_iter()
                    .filter_map(|(name, series)| Some((name, Spread::of(&series.samples)?)));
                row.signals = spreads.collect();
            }
            Err(error) => row.culprit = Some(error.to_string()),
        }
        row
    }

    /// Returns true if the run need not be repeated when the sweep is continued.
    pub(super) fn is_done(&self) -> bool {
        self.ended != RunEnd::NotDone
    }
}

fn ended(manifest: &Manifest) -> RunEnd {
    let reached = manifest.failure.is_none();
    match manifest.outcome {
        Outcome::Done | Outcome::Failed if reached && !manifest.untrusted.is_empty() => {
            RunEnd::Untrusted
        }
        Outcome::Done => RunEnd::Passed,
        Outcome::Failed => RunEnd::Failed,
        Outcome::Running | Outcome::Interrupted => RunEnd::NotDone,
    }
}

fn number(check: Check) -> Option<(String, f64)> {
    match check.measured {
        MeasuredValue::Number(value) if check.applies => Some((check.name, value)),
        _ => None,
    }
}

/// The runs of one combination of values.
#[derive(Clone, Debug)]
pub(super) struct Group<'a> {
    /// The values as one line.
    pub(super) label: String,
    /// Rows of the runs with these values, one for each seed.
    pub(super) rows: Vec<&'a Row>,
}

impl Group<'_> {
    /// Returns the number of runs with this kind of end.
    pub(super) fn count(&self, ended: RunEnd) -> usize {
        self.rows.iter().filter(|row| row.ended == ended).count()
    }

    /// Returns the least, median and greatest value over those runs that passed or failed.
    pub(super) fn spread(&self, value: impl Fn(&Row) -> Option<f64>) -> Option<[f64; 3]> {
        let counts = |row: &&&Row| matches!(row.ended, RunEnd::Passed | RunEnd::Failed);
        let done = self.rows.iter().filter(counts);
        let mut values: Vec<f64> = done.filter_map(|row| value(row)).collect();
        values.sort_by(f64::total_cmp);
        let median = quantile(&values, 0.5)?;
        Some([*values.first()?, median, *values.last()?])
    }
}

/// Returns the quantile `share` (0 … 1) of sorted values, by linear interpolation between the two
/// nearest ranks. Returns `None` if there are no values.
pub(super) fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share * (sorted.len().checked_sub(1)?) as f64;
    let (below, above) = (
        sorted[place.floor() as usize],
        sorted[place.ceil() as usize],
    );
    Some(below + (above - below) * place.fract())
}

/// Returns the groups, in the order in which their first runs occur.
pub(super) fn groups(rows: &[Row]) -> Vec<Group<'_>> {
    let mut found: Vec<Group<'_>> = Vec::new();
    for row in rows {
        let label = row.point.label();
        match found
            .iter_mut()
            .find(|group| group.rows[0].point.values == row.point.values)
        {
            Some(group) => group.rows.push(row),
            None => found.push(Group {
                label,
                rows: vec![row],
            }),
        }
    }
    found
}

/// Returns the columns of the table, in which each run has one row.
pub(super) fn columns(rows: &[Row]) -> Vec<Column> {
    let text = |name: &str, value: &dyn Fn(&Row) -> Option<String>| Column {
        name: name.to_owned(),
        values: Values::Text(rows.iter().map(value).collect()),
    };
    let real = |name: String, value: &dyn Fn(&Row) -> Option<f64>| Column {
        name,
        values: Values::Real(rows.iter().map(value).collect()),
    };
    let mut columns = vec![text("run", &|row| Some(row.point.name.clone()))];
    let keys = rows
        .first()
        .map(|row| &row.point.values[..])
        .unwrap_or_default();
    for (place, (key, _)) in keys.iter().enumerate() {
        let value = |row: &Row| Some(row.point.values.get(place)?.1.clone());
        let as_number = |row: &Row| value(row)?.parse::<f64>().ok();
        // The column of a key is numeric if all its values are numbers.
        columns.push(match rows.iter().all(|row| as_number(row).is_some()) {
            true => real(key.clone(), &as_number),
            false => text(key, &value),
        });
    }
    columns.push(real("seed".into(), &|row| {
        row.point.seed.map(|seed| seed as f64)
    }));
    columns.push(text("ended", &|row| Some(row.ended.as_str().to_owned())));
    columns.push(text("culprit", &|row| row.culprit.clone()));
    columns.push(real("virtual_s".into(), &|row| Some(row.lasted_s?[0])));
    columns.push(real("wall_s".into(), &|row| Some(row.lasted_s?[1])));
    for name in names(rows, |row| row.measured.keys()) {
        let measured = |row: &Row| row.measured.get(&name).copied();
        columns.push(real(format!("check.{name}"), &measured));
    }
    for name in names(rows, |row| row.signals.keys()) {
        let spread = |row: &Row| row.signals.get(&name).copied();
        columns.push(real(format!("{name}.min"), &|row| Some(spread(row)?.min)));
        columns.push(real(format!("{name}.mean"), &|row| Some(spread(row)?.mean)));
        columns.push(real(format!("{name}.max"), &|row| Some(spread(row)?.max)));
        columns.push(real(format!("{name}.last"), &|row| Some(spread(row)?.last)));
    }
    columns
}

/// Returns all names that occur in any row, sorted, without duplicates.
pub(super) fn names<'a, N: Iterator<Item = &'a String>>(
    rows: &'a [Row],
    of: impl Fn(&'a Row) -> N,
) -> Vec<String> {
    let all: std::collections::BTreeSet<&String> = rows.iter().flat_map(of).collect();
    all.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::points::{Axis, points};

    fn row(point: Point, ended: RunEnd, measured: f64) -> Row {
        Row {
            point,
            ended,
            culprit: None,
            lasted_s: Some([1.0, 2.0]),
            measured: BTreeMap::from([("level".to_owned(), measured)]),
            signals: BTreeMap::new(),
        }
    }

    #[test]
    fn a_group_has_the_runs_of_all_seeds_and_its_spread() {
        let axes = [Axis::parse("gain=1,2").unwrap()];
        let values = [1.0, 5.0, 2.0, 7.0, 8.0, 9.0];
        let rows: Vec<Row> = points(&axes, 3)
            .into_iter()
            .zip(values)
            .map(|(point, value)| row(point, RunEnd::Passed, value))
            .collect();
        let groups = groups(&rows);
        assert_eq!(groups.len(), 2);
        let level = |row: &Row| row.measured.get("level").copied();
        assert_eq!(groups[0].spread(level), Some([1.0, 2.0, 5.0]));
        assert_eq!(groups[1].spread(level), Some([7.0, 8.0, 9.0]));
        assert_eq!(groups[1].label, "gain=2");
        let named = |name: &str| columns(&rows).into_iter().find(|c| c.name == name).unwrap();
        let gains = Values::Real([1.0, 1.0, 1.0, 2.0, 2.0, 2.0].map(Some).to_vec());
        assert_eq!(named("gain").values, gains);
        assert_eq!(
            named("check.level").values,
            Values::Real(values.map(Some).to_vec())
        );
    }

    #[test]
    fn a_run_that_is_not_done_counts_in_no_spread() {
        let [a, b] = &points(&[], 2)[..] else {
            panic!("two")
        };
        let rows = [
            row(a.clone(), RunEnd::Failed, 3.0),
            row(b.clone(), RunEnd::NotDone, 9.0),
        ];
        let group = &groups(&rows)[0];
        let level = |row: &Row| row.measured.get("level").copied();
        assert_eq!(group.spread(level), Some([3.0; 3]));
        assert_eq!(
            (group.count(RunEnd::Failed), group.count(RunEnd::NotDone)),
            (1, 1)
        );
    }

    #[test]
    fn quantiles_lie_on_the_line_between_ranks() {
        let sorted = [1.0, 2.0, 4.0];
        let found = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| quantile(&sorted, share).unwrap());
        assert_eq!(found, [1.0, 1.5, 2.0, 3.0, 4.0]);
        assert_eq!(quantile(&[], 0.5), None);
    }
}

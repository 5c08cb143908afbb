//! Data of a run for the report, loaded once. Read errors become sentences of the report. The
//! memory is bounded by the resolution of the figures, whatever the length of the run.

use std::collections::BTreeMap;
use std::path::Path;

use super::event_summary::EventSummary;
use super::outline::outlines;
use super::pauses::ClockStory;
use super::spec::{Panel, ReportRun};
use super::timelines::StatusChanges;
use crate::{CheckResult, LabelRow, Manifest, ResultsError, RunDirectory, Series, Topology};

/// Data of one run in memory.
#[derive(Default)]
pub(super) struct RunData {
    pub(super) label: String,
    pub(super) manifest: Option<Manifest>,
    pub(super) checks: Vec<CheckResult>,
    pub(super) clock: ClockStory,
    pub(super) labels: Vec<LabelRow>,
    /// Attacks, alarms and writes to devices, from the run's events.
    pub(super) event_summary: EventSummary,
    /// Changes of the status of the run's timelines.
    pub(super) statuses: StatusChanges,
    pub(super) network: Option<NetworkData>,
    series: Vec<Series>,
    /// Read errors, as whole sentences.
    pub(super) problems: Vec<String>,
}

/// A simulated network and the statistics of its signals.
pub(super) struct NetworkData {
    pub(super) topology: Topology,
    /// Statistics by name of the signal without its source, such as `link.core.load`.
    pub(super) totals: BTreeMap<String, Total>,
    /// Run directory, from which the few signals that are drawn are read again.
    pub(super) directory: RunDirectory,
}

/// Statistics of a signal's samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total {
    pub(super) count: u64,
    pub(super) mean: f64,
    /// Maximum of the samples, or zero if all are negative.
    pub(super) peak: f64,
}

impl Total {
    pub(super) fn add(&mut self, value: f64) {
        self.count += 1;
        self.mean += (value - self.mean) / self.count as f64;
        self.peak = self.peak.max(value);
    }
}

impl RunData {
    /// Loads a run and the signals that the panels need.
    pub(super) fn load(run: &ReportRun, panels: &[Panel]) -> Self {
        let mut data = Self {
            label: run.label.clone(),
            ..Self::default()
        };
        let directory = match RunDirectory::open(&run.directory) {
            Ok(directory) => directory,
            Err(error) => {
                data.problems.push(format!(
                    "The run “{}” could not be opened: {error}.",
                    run.label
                ));
                return data;
            }
        };
        if !directory.is_finished() {
            data.problems.push(format!(
                "The run “{}” has not finished (or was killed and not recovered); the report shows the content of its journal.",
                run.label
            ));
        }
        data.manifest = data.or_problem("manifest.json", directory.manifest());
        if directory.has_checks() {
            data.checks = data
                .or_problem("checks.json", directory.checks())
                .unwrap_or_default();
        }
        data.clock = data
            .or_problem("its clock records", ClockStory::load(&directory))
            .unwrap_or_default();
        data.labels = data
            .or_problem("its attack labels", directory.labels())
            .unwrap_or_default();
        (data.event_summary, data.statuses) = data
            .or_problem("its events", EventSummary::load(&directory))
            .unwrap_or_default();
        data.network = data
            .or_problem("its simulated network", NetworkData::load(&directory))
            .flatten();
        let written = data
            .event_summary
            .writes
            .keys()
            .map(|(_, _, signal)| signal.clone());
        let drawn = panels.iter().flat_map(|panel| &panel.signals);
        let mut names: Vec<String> = drawn
            .map(|signal| signal.name.clone())
            .chain(written)
            .collect();
        names.sort_unstable();
        names.dedup();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        data.series = data
            .or_problem("its signals", outlines(&directory, &names))
            .unwrap_or_default();
        data
    }

    /// Returns the signal `name`; `None` if the run has no sample of it.
    pub(super) fn signal(&self, name: &str) -> Option<&Series> {
        self.series
            .iter()
            .find(|series| series.selector == name && !series.samples.is_empty())
    }

    /// Returns all signals that were read and have samples.
    pub(super) fn all_series(&self) -> impl Iterator<Item = &Series> {
        self.series
            .iter()
            .filter(|series| !series.samples.is_empty())
    }

    /// Returns the last instant that the run's data contain, in seconds of virtual time.
    pub(super) fn end_s(&self) -> Option<f64> {
        let planned = self
            .manifest
            .as_ref()
            .map(|manifest| manifest.virtual_duration.as_s_f64());
        let sampled = self
            .series
            .iter()
            .filter_map(|series| series.samples.last())
            .map(|(t, _)| seconds(*t));
        planned
            .into_iter()
            .chain(sampled)
            .chain(self.clock.end_s)
            .filter(|end| *end > 0.0)
            .reduce(f64::max)
    }

    fn or_problem<T>(&mut self, what: &str, result: Result<T, ResultsError>) -> Option<T> {
        result
            .map_err(|error| {
                self.problems.push(format!(
                    "Of the run “{}”, {what} could not be read: {error}.",
                    self.label
                ))
            })
            .ok()
    }
}

/// Reads one signal of a run of which no other data are needed.
pub(super) fn one_signal(directory: &Path, name: &str) -> Result<Series, ResultsError> {
    Ok(RunDirectory::open(directory)?.series(&[name])?.remove(0))
}

/// Converts an instant to seconds since its scale's zero. For plots only, because precision is
/// lost.
pub(super) fn seconds<S: timeloom_time::Scale>(at: timeloom_time::Instant<S>) -> f64 {
    (at - timeloom_time::Instant::ZERO).as_s_f64()
}

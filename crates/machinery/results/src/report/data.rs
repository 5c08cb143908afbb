//! What the report needs of a run, loaded once; problems become sentences. However long the
//! run was, what is kept of a table is no more than a drawing shows.

use std::collections::BTreeMap;
use std::path::Path;

use super::event_summary::EventSummary;
use super::outline::outlines;
use super::pauses::ClockStory;
use super::spec::{Panel, ReportRun};
use super::timelines::StatusChanges;
use crate::{Check, LabelRow, Manifest, ResultsError, RunDirectory, Series, Topology};

/// One run in memory.
#[derive(Default)]
pub(super) struct RunData {
    pub(super) label: String,
    pub(super) manifest: Option<Manifest>,
    pub(super) checks: Vec<Check>,
    pub(super) clock: ClockStory,
    pub(super) labels: Vec<LabelRow>,
    /// Attacks, alarms and writes, by its events.
    pub(super) event_summary: EventSummary,
    /// Changes of the status of timelines.
    pub(super) statuses: StatusChanges,
    pub(super) network: Option<NetworkData>,
    series: Vec<Series>,
    /// What could not be read, in whole sentences.
    pub(super) problems: Vec<String>,
}

/// A simulated network and what was recorded of it, over seconds of virtual time.
pub(super) struct NetworkData {
    pub(super) topology: Topology,
    /// By name, without the source: `link.core.load`.
    pub(super) totals: BTreeMap<String, Total>,
    /// For the few that are drawn.
    pub(super) directory: RunDirectory,
}

/// What the samples of a signal come to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total {
    pub(super) count: u64,
    pub(super) mean: f64,
    /// Zero where all are below it.
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
    /// Loads a run and the signals that the panels ask for.
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
                "The run “{}” has not finished (or was killed and not recovered); shown is what its journal holds.",
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

    /// The signal, when the run has any sample of it.
    pub(super) fn signal(&self, name: &str) -> Option<&Series> {
        self.series
            .iter()
            .find(|series| series.selector == name && !series.samples.is_empty())
    }

    /// All signals that were read and have samples.
    pub(super) fn all_series(&self) -> impl Iterator<Item = &Series> {
        self.series
            .iter()
            .filter(|series| !series.samples.is_empty())
    }

    /// The end of what is known of the run, in seconds of virtual time.
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

/// One signal of a run that is needed for nothing else.
pub(super) fn one_signal(directory: &Path, name: &str) -> Result<Series, ResultsError> {
    Ok(RunDirectory::open(directory)?.series(&[name])?.remove(0))
}

/// An instant in seconds since its scale's zero: for plots only.
pub(super) fn seconds<S: timeloom_time::Scale>(at: timeloom_time::Instant<S>) -> f64 {
    (at - timeloom_time::Instant::ZERO).as_s_f64()
}

//! What the report needs of a run, loaded once; problems become sentences.

use std::collections::BTreeMap;
use std::path::Path;

use super::attack;
use super::spec::{Panel, ReportRun};
use crate::{
    Check, ClockRow, DeviceWrite, EventRow, LabelRow, Manifest, ResultsError, RunDirectory, Series,
    Topology,
};

/// One run in memory.
pub(super) struct RunData {
    pub(super) label: String,
    pub(super) manifest: Option<Manifest>,
    pub(super) checks: Vec<Check>,
    pub(super) clock: Vec<ClockRow>,
    pub(super) labels: Vec<LabelRow>,
    /// Those that tell of attacks, alarms and writes.
    pub(super) events: Vec<EventRow>,
    pub(super) network: Option<NetworkData>,
    series: Vec<Series>,
    /// What could not be read, in whole sentences.
    pub(super) problems: Vec<String>,
}

/// A simulated network and what was recorded of it, over seconds of virtual time.
pub(super) struct NetworkData {
    pub(super) topology: Topology,
    /// By name, without the source: `link.core.load`.
    pub(super) signals: BTreeMap<String, Vec<(f64, f64)>>,
}

impl RunData {
    /// Loads a run and the signals that the panels ask for.
    pub(super) fn load(run: &ReportRun, panels: &[Panel]) -> Self {
        let mut data = Self {
            label: run.label.clone(),
            manifest: None,
            checks: Vec::new(),
            clock: Vec::new(),
            labels: Vec::new(),
            events: Vec::new(),
            network: None,
            series: Vec::new(),
            problems: Vec::new(),
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
            .or_problem("its clock records", directory.clock())
            .unwrap_or_default();
        data.labels = data
            .or_problem("its attack labels", directory.labels())
            .unwrap_or_default();
        data.events = data
            .or_problem("its events", told_events(&directory))
            .unwrap_or_default();
        data.network = data
            .or_problem("its simulated network", NetworkData::load(&directory))
            .flatten();
        let written = data
            .events
            .iter()
            .filter_map(|event| event.text.parse().ok());
        let written = written.map(|write: DeviceWrite| write.signal);
        let drawn = panels.iter().flat_map(|panel| &panel.signals);
        let mut names: Vec<String> = drawn
            .map(|signal| signal.name.clone())
            .chain(written)
            .collect();
        names.sort_unstable();
        names.dedup();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        data.series = data
            .or_problem("its signals", directory.series(&names))
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
        let clocked = self.clock.iter().map(|row| seconds(row.t_virtual));
        planned
            .into_iter()
            .chain(sampled)
            .chain(clocked)
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

/// The events that the report tells, in the order of time.
fn told_events(directory: &RunDirectory) -> Result<Vec<EventRow>, ResultsError> {
    let mut events = Vec::new();
    directory.for_each(|row: EventRow| {
        if attack::KINDS.contains(&&*row.kind) {
            events.push(row);
        }
        Ok(())
    })?;
    events.sort_by_key(|event| event.t_virtual);
    Ok(events)
}

/// One signal of a run that is needed for nothing else.
pub(super) fn one_signal(directory: &Path, name: &str) -> Result<Series, ResultsError> {
    Ok(RunDirectory::open(directory)?.series(&[name])?.remove(0))
}

/// An instant in seconds since its scale's zero: for plots only.
pub(super) fn seconds<S: timeloom_time::Scale>(at: timeloom_time::Instant<S>) -> f64 {
    (at - timeloom_time::Instant::ZERO).as_s_f64()
}

//! Reports: `report.html` from run directories.
//!
//! `results` draws a `ReportSpec` without knowledge of scenarios. This module selects the content,
//! from the scenario that every run directory contains. The command `timeloom report` uses it, and
//! so does each run at its end. A report on an incomplete run is better than none, so only a
//! directory that is not a run at all is refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use timeloom_results::report::{
    Panel, PanelSignal, Proof, ProofRun, Reference, ReportRun, ReportSpec, RunKind, render,
};
use timeloom_results::{ResultsError, RunDirectory, write_page};
use timeloom_scenario::{self as scenario, Attack, Plan};
use timeloom_time::Duration;

/// A run directory, and its label in the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledRun {
    /// Label, such as `solver +50 ms`.
    pub label: String,
    /// The run directory.
    pub directory: PathBuf,
}

/// Content of a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportRequest {
    /// Run that the report is about; its scenario determines the content.
    pub directory: PathBuf,
    /// Label of the run; by default derived from the attacks of its scenario.
    pub label: Option<String>,
    /// Other runs, drawn in the same charts as this one.
    pub with: Vec<LabelledRun>,
    /// Runs under virtual time whose solvers are slower from run to run; the first is the
    /// reference.
    pub proof_on: Vec<LabelledRun>,
    /// Runs in real time whose solvers are slower from run to run.
    pub proof_off: Vec<LabelledRun>,
    /// Signal that is compared in the runs of `proof_on` and `proof_off`; by default the first that
    /// the report draws.
    pub proof_signal: Option<String>,
    /// Tolerance of the comparison, in the signal's unit.
    pub proof_tolerance: f64,
    /// Share (0 … 1) of the time for which the tolerance must hold.
    pub proof_share: f64,
    /// Virtual time from the start that is excluded from the comparison.
    pub proof_from: Duration,
    /// Remarks for the reader.
    pub notes: Vec<String>,
    /// Path of the report; by default `report.html` in `directory`.
    pub output: Option<PathBuf>,
}

/// A report that has been written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenReport {
    /// Path of the report.
    pub path: PathBuf,
    /// Sentences that state what was done or left out.
    pub remarks: Vec<String>,
}

/// Error that prevents a report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Two runs would have the same label in the report.
    #[error("two runs are called `{0}`: give each a label of its own")]
    SameLabel(String),
    /// No run has a signal of this name.
    #[error("neither run has a signal `{name}`; there are {}", known.join(", "))]
    NoSignal {
        /// Requested name.
        name: String,
        /// Names of the signals that exist.
        known: Vec<String>,
    },
    /// A directory is not a run, or the report cannot be written.
    #[error("{0}")]
    Results(ResultsError),
}

impl ReportError {
    /// Returns true if the request is wrong, false if an operation on this machine failed.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::SameLabel(_) | Self::NoSignal { .. } | Self::Results(ResultsError::NoRunHere(_))
        )
    }
}

/// Recovers killed runs, draws the report and writes it.
///
/// # Errors
/// Returns an error if a directory is not a run, if two runs have the same label, or if the output
/// cannot be written. Other missing data is reported in the report itself.
pub fn report(request: &ReportRequest) -> Result<WrittenReport, ReportError> {
    let mut remarks = Vec::new();
    let spec = report_spec(request, &mut remarks)?;
    let html = render(&spec);
    let path = match &request.output {
        Some(path) => write_page(path, &html).map(|()| path.clone()),
        None => RunDirectory::open(&request.directory).and_then(|run| run.write_report(&html)),
    };
    let path = path.map_err(ReportError::Results)?;
    Ok(WrittenReport { path, remarks })
}

/// Writes the report about a single run into its directory, and returns the path.
///
/// # Errors
/// Fails like [`report`].
pub fn write(directory: &Path) -> Result<PathBuf, ReportError> {
    let request = ReportRequest {
        directory: directory.to_owned(),
        ..ReportRequest::default()
    };
    Ok(report(&request)?.path)
}

/// Returns the content that [`report`] draws. Recovers killed runs.
pub fn report_spec(
    request: &ReportRequest,
    remarks: &mut Vec<String>,
) -> Result<ReportSpec, ReportError> {
    let main = Opened::new(&request.directory, remarks)?;
    let label = request.label.clone().unwrap_or_else(|| main.own_label());
    let mut spec = ReportSpec {
        title: main.title(),
        summary: main.plan.as_ref().map(summary).unwrap_or_default(),
        runs: vec![main.report_run(label)],
        panels: main.panels(remarks),
        notes: request.notes.clone(),
        ..ReportSpec::default()
    };
    for run in &request.with {
        if spec.runs.iter().any(|other| other.label == run.label) {
            return Err(ReportError::SameLabel(run.label.clone()));
        }
        let opened = Opened::new(&run.directory, remarks)?;
        spec.runs.push(opened.report_run(run.label.clone()));
    }
    if !request.proof_on.is_empty() || !request.proof_off.is_empty() {
        spec.proof = Some(proof(request, &spec.panels, remarks)?);
    }
    Ok(spec)
}

/// An opened run directory with its scenario.
struct Opened {
    path: PathBuf,
    run: RunDirectory,
    /// Scenario of the run; `None` if the file is missing or unreadable.
    plan: Option<Plan>,
}

impl Opened {
    fn new(path: &Path, remarks: &mut Vec<String>) -> Result<Self, ReportError> {
        let run = recovered(path, remarks)?;
        let read = run.scenario().map_err(|error| error.to_string());
        let plan = read.and_then(|text| {
            let file = path.join("scenario.toml").display().to_string();
            scenario::parse(&text, &file, &[]).map_err(|error| error.to_string())
        });
        if let Err(error) = &plan {
            remarks.push(format!(
                "the scenario of {} cannot be used: {error}",
                path.display()
            ));
        }
        let plan = plan.ok();
        let path = path.to_owned();
        Ok(Self { path, run, plan })
    }

    fn title(&self) -> String {
        match (&self.plan, self.run.manifest()) {
            (Some(plan), _) => plan.name.clone(),
            (None, Ok(manifest)) => manifest.name,
            (None, Err(_)) => self.run.shown().to_string(),
        }
    }

    /// Returns a label that distinguishes this run from others: the attacks of its scenario, or the
    /// name of the run's directory if the scenario has no attacks.
    fn own_label(&self) -> String {
        let Some(plan) = &self.plan else {
            return "this run".to_owned();
        };
        if plan.attacks.is_empty() {
            return self.run.name();
        }
        let enabled = plan.attacks.iter().filter(|attack| attack.enabled);
        let text = |attack: &Attack| match attack.at {
            Some(at) => format!("{} at {at}", attack.id),
            None => format!("{} by hand", attack.id),
        };
        let attacks: Vec<String> = enabled.map(text).collect();
        if attacks.is_empty() {
            "no attack".to_owned()
        } else {
            attacks.join(", ")
        }
    }

    fn report_run(&self, label: String) -> ReportRun {
        let planned = |plan: &Plan| plan.attacks.iter().any(|attack| attack.enabled);
        let labelled = self.run.labels().is_ok_and(|labels| !labels.is_empty());
        let attacked = labelled || self.plan.as_ref().is_some_and(planned);
        ReportRun {
            directory: self.path.clone(),
            label,
            kind: if attacked {
                RunKind::Attack
            } else {
                RunKind::Normal
            },
        }
    }

    /// Returns the panels of the scenario. A scenario without panels gets one for each recorded
    /// unit.
    fn panels(&self, remarks: &mut Vec<String>) -> Vec<Panel> {
        match &self.plan {
            Some(plan) if !plan.panels.is_empty() => {
                let own = plan.panels.iter().map(panel);
                own.chain(self.clock_panels(plan)).collect()
            }
            Some(plan) if plan.simulation.plants.is_empty() => self.clock_panels(plan),
            _ => match self.run.signal_names() {
                Ok(names) => panels_by_unit(names, remarks),
                Err(error) => {
                    remarks.push(format!("the recorded signals cannot be read: {error}"));
                    Vec::new()
                }
            },
        }
    }

    /// Returns panels that show the deviation of hosts' clocks from true time, for those
    /// hosts whose clock the scenario describes but does not draw.
    fn clock_panels(&self, plan: &Plan) -> Vec<Panel> {
        // The kernel's error estimate is recorded only where a daemon sets it.
        let recorded = self.run.signal_names().unwrap_or_default();
        let is_recorded = |name: &str| recorded.iter().any(|(other, _)| *other == *name);
        let drawn = |name: &str| {
            let mut signals = plan.panels.iter().flat_map(|panel| &panel.signals);
            signals.any(|signal| signal.name.to_string() == name)
        };
        let with_clock = plan.system.hosts.iter().filter(|(_, h)| h.clock.is_some());
        let hosts: Vec<&String> = with_clock.map(|(name, _)| name).collect();
        let panel = |title: &str, unit: &str, wanted: &[(&str, &str)]| Panel {
            title: title.to_owned(),
            unit: unit.to_owned(),
            signals: hosts
                .iter()
                .flat_map(|host| {
                    wanted.iter().map(move |(name, legend)| PanelSignal {
                        name: format!("{host}.{name}"),
                        legend: format!("{host}{legend}"),
                    })
                })
                .filter(|signal| is_recorded(&signal.name) && !drawn(&signal.name))
                .take(MOST_CURVES)
                .collect(),
            ..Panel::default()
        };
        let offsets = [
            ("clock.offset", ": true error"),
            ("clock.esterror", ": believed error"),
        ];
        let panels = [
            panel("Clocks of the hosts against true time", "s", &offsets),
            panel(
                "Frequency errors of the hosts' clocks",
                "ppm",
                &[("clock.frequency", "")],
            ),
        ];
        let mut panels = Vec::from(panels);
        let behind = plan.system.hosts.keys().map(|host| PanelSignal {
            name: format!("{host}.clock.behind"),
            legend: host.clone(),
        });
        panels.push(Panel {
            title: "Lag of hosts that were paused or dilated".to_owned(),
            unit: "s".to_owned(),
            signals: behind
                .filter(|signal| is_recorded(&signal.name) && !drawn(&signal.name))
                .take(MOST_CURVES)
                .collect(),
            ..Panel::default()
        });
        panels.retain(|panel| !panel.signals.is_empty());
        panels
    }
}

/// Opens a run directory. A killed run is recovered first; a run in progress appears up to its
/// present state.
pub(crate) fn recovered(
    path: &Path,
    remarks: &mut Vec<String>,
) -> Result<RunDirectory, ReportError> {
    let run = RunDirectory::open(path).map_err(ReportError::Results)?;
    if !run.is_finished() {
        match run.recovered() {
            Ok(found) => remarks.push(format!(
                "{} was killed before its end; {} rows were recovered",
                path.display(),
                found.rows
            )),
            Err(error) => remarks.push(format!(
                "the report shows the journal of {}: {error}",
                path.display()
            )),
        }
    }
    Ok(run)
}

fn summary(plan: &Plan) -> String {
    format!("{}, seed {}.", plan.summary(), plan.seed)
}

fn panel(panel: &scenario::Panel) -> Panel {
    let signals = panel.signals.iter().map(|signal| PanelSignal {
        name: signal.name.to_string(),
        legend: signal.legend.clone(),
    });
    Panel {
        title: panel.title.clone(),
        y_label: panel.y_label.clone(),
        unit: panel.unit.clone(),
        signals: signals.collect(),
        references: panel.references.iter().map(reference).collect(),
    }
}

fn reference(reference: &scenario::Reference) -> Reference {
    match reference {
        scenario::Reference::Line { at, label } => Reference::Line {
            value: *at,
            label: label.clone(),
        },
        scenario::Reference::Band { from, to, label } => Reference::Band {
            from: *from,
            to: *to,
            label: label.clone(),
        },
    }
}

/// Maximum number of panels. More would be unreadable.
const MOST_PANELS: usize = 6;
/// Maximum number of curves in one panel.
const MOST_CURVES: usize = 6;

fn panels_by_unit(
    names: impl IntoIterator<Item = (String, impl AsRef<str>)>,
    remarks: &mut Vec<String>,
) -> Vec<Panel> {
    let mut units: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut total = 0;
    for (name, unit) in names {
        units
            .entry(unit.as_ref().to_owned())
            .or_default()
            .push(name);
        total += 1;
    }
    let panels: Vec<Panel> = units
        .into_iter()
        .take(MOST_PANELS)
        .map(|(unit, names)| Panel {
            title: match unit.as_str() {
                "" => "Signals without a unit".to_owned(),
                unit => format!("Signals in {unit}"),
            },
            unit,
            signals: names
                .into_iter()
                .take(MOST_CURVES)
                .map(|name| PanelSignal {
                    name,
                    legend: String::new(),
                })
                .collect(),
            ..Panel::default()
        })
        .collect();
    let drawn: usize = panels.iter().map(|panel| panel.signals.len()).sum();
    if drawn < total {
        remarks.push(format!(
            "{drawn} of {total} recorded signals are drawn; `[[panel]]` in the scenario chooses others"
        ));
    }
    panels
}

fn proof(
    request: &ReportRequest,
    panels: &[Panel],
    remarks: &mut Vec<String>,
) -> Result<Proof, ReportError> {
    let first = || Some(panels.first()?.signals.first()?.name.clone());
    let signal = request.proof_signal.clone().or_else(first);
    let signal = signal.unwrap_or_default();
    let drawn = panels
        .iter()
        .find(|panel| panel.signals.iter().any(|drawn| drawn.name == signal));
    let mut group = |runs: &[LabelledRun]| -> Result<Vec<ProofRun>, ReportError> {
        let mut group: Vec<ProofRun> = Vec::new();
        for run in runs {
            if group.iter().any(|other| other.label == run.label) {
                return Err(ReportError::SameLabel(run.label.clone()));
            }
            recovered(&run.directory, remarks)?;
            group.push(ProofRun {
                directory: run.directory.clone(),
                label: run.label.clone(),
            });
        }
        Ok(group)
    };
    Ok(Proof {
        y_label: drawn.map(|panel| panel.y_label.clone()).unwrap_or_default(),
        unit: drawn.map(|panel| panel.unit.clone()).unwrap_or_default(),
        tolerance: request.proof_tolerance,
        share: request.proof_share,
        from_s: request.proof_from.as_s_f64(),
        with_virtual_time: group(&request.proof_on)?,
        without_virtual_time: group(&request.proof_off)?,
        signal,
        ..Proof::default()
    })
}

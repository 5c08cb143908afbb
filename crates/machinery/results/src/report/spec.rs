//! Specification of a report.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Alignment;

/// The content of one report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportSpec {
    /// Heading.
    pub title: String,
    /// Paragraph under the heading about the runs and the result. May be empty.
    pub summary: String,
    /// Runs to overlay in every panel.
    pub runs: Vec<ReportRun>,
    /// Panels, two to a row.
    pub panels: Vec<Panel>,
    /// The demonstration that a slow solver does not affect the physics.
    pub proof: Option<Proof>,
    /// Index of the run whose pauses are shown requester by requester.
    pub clock_run: usize,
    /// Paragraphs at the end.
    pub notes: Vec<String>,
}

/// A run to overlay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportRun {
    /// Run directory.
    pub directory: PathBuf,
    /// Label: `no attack`, `DoS at 22.5 s`.
    pub label: String,
    /// Kind, which selects its colour.
    #[serde(default)]
    pub kind: RunKind,
}

/// Kind of a run: the normal case, or under attack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunKind {
    /// Drawn in blue.
    #[default]
    Normal,
    /// Drawn in vermilion.
    Attack,
}

/// A panel: some signals of every run over virtual time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Panel {
    /// Heading: `Voltage at bus 680`.
    pub title: String,
    /// Quantity, without unit: `Voltage`.
    pub y_label: String,
    /// Unit; if empty, that of the recorded signals.
    pub unit: String,
    /// Signals to draw. Runs differ by colour, signals by dashes.
    pub signals: Vec<PanelSignal>,
    /// Reference levels.
    pub references: Vec<Reference>,
}

/// A signal of a panel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PanelSignal {
    /// Name in the run, `v680`, or source and name, `grid.v680`.
    pub name: String,
    /// Text in the legend; a panel with one signal shows none.
    #[serde(default)]
    pub legend: String,
}

/// A level or a range, in the panel's unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reference {
    /// A horizontal line.
    Line {
        /// Position.
        value: f64,
        /// Label: `nominal`.
        label: String,
    },
    /// A shaded range.
    Band {
        /// Lower end.
        from: f64,
        /// Upper end.
        to: f64,
        /// Label in the plot: `±5 %`.
        label: String,
    },
}

/// Two groups of runs that differ in the delay of the solver. Under virtual time the traces must
/// coincide; without it they must not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Proof {
    /// Signal to compare.
    pub signal: String,
    /// Quantity, without unit.
    pub y_label: String,
    /// Unit of the signal; if empty, as recorded.
    pub unit: String,
    /// Largest deviation from the group's first run that counts as coinciding, in the signal's
    /// unit.
    pub tolerance: f64,
    /// Share (0 … 1) of the time for which it must hold. Below 1 if a single late wake-up of a busy
    /// machine should be tolerated.
    pub share: f64,
    /// Virtual seconds at the start that are not compared: programs start up in them, at the speed
    /// of the machine.
    pub from_s: f64,
    /// Interpolation of the signal between samples.
    pub alignment: Alignment,
    /// Runs under virtual time; the first is the reference (solver +0).
    pub with_virtual_time: Vec<ProofRun>,
    /// Runs in real time; the first is the reference.
    pub without_virtual_time: Vec<ProofRun>,
}

impl Default for Proof {
    fn default() -> Self {
        Self {
            signal: String::new(),
            y_label: String::new(),
            unit: String::new(),
            tolerance: 0.0,
            share: 1.0,
            from_s: 0.0,
            alignment: Alignment::default(),
            with_virtual_time: Vec::new(),
            without_virtual_time: Vec::new(),
        }
    }
}

/// A run of a [`Proof`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProofRun {
    /// Run directory.
    pub directory: PathBuf,
    /// Label: `solver +50 ms`.
    pub label: String,
}

//! What a report is to show.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Alignment;

/// The content of one report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportSpec {
    /// The heading.
    pub title: String,
    /// One paragraph under it: what was run and what it shows. May be empty.
    pub summary: String,
    /// The runs to overlay in every panel.
    pub runs: Vec<ReportRun>,
    /// The panels, two to a row.
    pub panels: Vec<Panel>,
    /// The demonstration that the physics does not notice a slow solver.
    pub proof: Option<Proof>,
    /// Index of the run whose pauses are shown requester by requester.
    pub clock_run: usize,
    /// Paragraphs at the end.
    pub notes: Vec<String>,
}

/// One run to overlay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportRun {
    /// Its run directory.
    pub directory: PathBuf,
    /// What to call it: `no attack`, `DoS at 22.5 s`.
    pub label: String,
    /// Chooses its colour.
    #[serde(default)]
    pub kind: RunKind,
}

/// Whether a run is the normal case or one under attack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunKind {
    /// Drawn in blue.
    #[default]
    Normal,
    /// Drawn in vermilion.
    Attack,
}

/// One panel: some signals of every run over virtual time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Panel {
    /// Its heading: `Voltage at bus 680`.
    pub title: String,
    /// The quantity, without unit: `Voltage`.
    pub y_label: String,
    /// The unit; when empty, that of the recorded signals.
    pub unit: String,
    /// What to draw. Runs differ by colour, signals by dashes.
    pub signals: Vec<PanelSignal>,
    /// Levels to compare with.
    pub references: Vec<Reference>,
}

/// One signal of a panel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PanelSignal {
    /// Its name in the run, `v680`, or source and name, `grid.v680`.
    pub name: String,
    /// What to call it in the legend; a panel with one signal shows none.
    #[serde(default)]
    pub legend: String,
}

/// A level or a range, in the panel's unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reference {
    /// A horizontal line.
    Line {
        /// Where.
        value: f64,
        /// What it means: `nominal`.
        label: String,
    },
    /// A shaded range.
    Band {
        /// Lower end.
        from: f64,
        /// Upper end.
        to: f64,
        /// What it means: `±5 %`.
        label: String,
    },
}

/// Two groups of runs that differ in how slow the solver was made. Under
/// virtual time the traces must coincide; without it they must not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Proof {
    /// The signal to compare.
    pub signal: String,
    /// The quantity, without unit.
    pub y_label: String,
    /// The unit of the signal; when empty, as recorded.
    pub unit: String,
    /// The greatest deviation from the group's first run that counts as
    /// coinciding, in the signal's unit.
    pub tolerance: f64,
    /// The share (0 … 1) of the time for which it must hold. Below 1 where one
    /// late wake-up of a busy machine must not decide.
    pub share: f64,
    /// Virtual seconds from the start that are not compared: programs start up
    /// in them, at the speed of the machine.
    pub from_s: f64,
    /// What the signal is worth between samples.
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

/// One run of a [`Proof`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProofRun {
    /// Its run directory.
    pub directory: PathBuf,
    /// What to call it: `solver +50 ms`.
    pub label: String,
}

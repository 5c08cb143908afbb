//! Specification of a report.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Alignment;

/// Content of a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportSpec {
    /// Heading.
    pub title: String,
    /// Paragraph under the heading, about the runs and the result. May be empty.
    pub summary: String,
    /// Runs whose curves are drawn over each other in every panel.
    pub runs: Vec<ReportRun>,
    /// Panels, two to a row.
    pub panels: Vec<Panel>,
    /// Demonstration that a slow solver does not affect the physics; `None` leaves the section out.
    pub proof: Option<Proof>,
    /// Index of the run whose pauses are listed by requester.
    pub clock_run: usize,
    /// Paragraphs at the end.
    pub notes: Vec<String>,
}

/// Run whose curves are drawn in the panels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportRun {
    /// Run directory.
    pub directory: PathBuf,
    /// Label of the run, such as `no attack` or `DoS at 22.5 s`.
    pub label: String,
    /// Kind of the run, which selects its colour.
    #[serde(default)]
    pub kind: RunKind,
}

/// Kind of a run: normal operation, or under attack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunKind {
    /// Drawn in blue.
    #[default]
    Normal,
    /// Drawn in vermilion.
    Attack,
}

/// Panel: a plot of some signals of every run over virtual time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Panel {
    /// Heading, such as `Voltage at bus 680`.
    pub title: String,
    /// Quantity without unit, such as `Voltage`.
    pub y_label: String,
    /// Unit; if empty, the unit of the recorded signals.
    pub unit: String,
    /// Signals to draw. Colours distinguish runs, and dashes distinguish signals.
    pub signals: Vec<PanelSignal>,
    /// Levels and ranges that are drawn for reference.
    pub references: Vec<Reference>,
}

/// Signal of a panel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PanelSignal {
    /// Name of the signal (`v680`), or its source and name (`grid.v680`).
    pub name: String,
    /// Text in the legend. A panel with one signal has no legend.
    #[serde(default)]
    pub legend: String,
}

/// Reference level or range, in the panel's unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reference {
    /// Horizontal line.
    Line {
        /// Value at which the line is drawn.
        value: f64,
        /// Label of the line, such as `nominal`.
        label: String,
    },
    /// Shaded range.
    Band {
        /// Lower end.
        from: f64,
        /// Upper end.
        to: f64,
        /// Label of the range, such as `±5 %`.
        label: String,
    },
}

/// Two groups of runs, in each of which the solver's delay differs from run to run. Under virtual
/// time the curves must coincide; in real time they must not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Proof {
    /// Name of the signal that is compared.
    pub signal: String,
    /// Quantity, without unit.
    pub y_label: String,
    /// Unit of the signal; if empty, the recorded unit.
    pub unit: String,
    /// Maximum deviation from the first run of the group at which curves count as coinciding, in
    /// the signal's unit.
    pub tolerance: f64,
    /// Share (0 … 1) of the common time for which the tolerance must hold. A value below 1
    /// tolerates, for example, a single late wake-up on a busy machine.
    pub share: f64,
    /// Initial virtual seconds that are not compared. Programs start up in that time, and the
    /// machine's speed determines how fast.
    pub from_s: f64,
    /// Interpolation of the signal between its samples.
    pub alignment: Alignment,
    /// Runs under virtual time; the first, without additional solver delay, is the reference.
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

/// Run of a [`Proof`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProofRun {
    /// Run directory.
    pub directory: PathBuf,
    /// Label of the run, such as `solver +50 ms`.
    pub label: String,
}

//! The rows of the four tables. Column names are the outward contract's.

use std::fmt;
use std::sync::Arc;

use timeloom_time::{Duration, Instant, Virtual, Wall};

use crate::table::{Cell, Cells, Kind, Row};

/// One sample of one quantity: a row of `signals.parquet`.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalRow {
    /// When, in the session's virtual time.
    pub t_virtual: Instant<Virtual>,
    /// When it was recorded, by the host's monotonic clock.
    pub t_wall: Instant<Wall>,
    /// The host it was recorded on.
    pub host: Arc<str>,
    /// Where it comes from: a plant's or program's name.
    pub source: Arc<str>,
    /// The quantity: `v680`.
    pub name: Arc<str>,
    /// Its value in `unit`; must be finite.
    pub value: f64,
    /// The unit as a person reads it (`V`, `kW`); empty when it has none.
    pub unit: Arc<str>,
}

/// Something that happened: a row of `events.parquet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    /// When, in the session's virtual time.
    pub t_virtual: Instant<Virtual>,
    /// When it was recorded, by the host's monotonic clock.
    pub t_wall: Instant<Wall>,
    /// The host it happened on.
    pub host: Arc<str>,
    /// The program, plant, link or attack it concerns.
    pub source: Arc<str>,
    /// A short word to filter by: `start`, `exit`, `phase`, `warning`.
    pub kind: Arc<str>,
    /// A sentence for people. Cut at 32 KiB.
    pub text: Arc<str>,
}

/// A change of the virtual clock: a row of `clock.parquet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockRow {
    /// Counts the changes of the session. The rows that several hosts write
    /// about the same change carry the same number, and are counted once.
    pub seq: u64,
    /// What the virtual clock showed.
    pub t_virtual: Instant<Virtual>,
    /// What the host's monotonic clock showed.
    pub t_wall: Instant<Wall>,
    /// The host that writes this row.
    pub host: Arc<str>,
    /// What was done to the clock.
    pub action: ClockAction,
    /// Who asked: the name of a plant, a peer, a person's command.
    pub requester: Arc<str>,
    /// Why, in a few words: `exchange`, `breakpoint`.
    pub reason: Arc<str>,
    /// For a `resume`, how long the requester had held the clock, in wall
    /// time; for a `skip`, how much virtual time was jumped over; else zero.
    pub duration: Duration,
}

/// A time in which an attack was under way: a row of `labels.parquet`.
///
/// Write it when the attack starts, with `end` at [`Instant::FAR_FUTURE`], and
/// again when it ends: of rows that share start, target and attack, the last
/// one written is kept. So a killed run keeps its labels too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRow {
    /// When it began, in virtual time.
    pub start: Instant<Virtual>,
    /// When it ended; [`Instant::FAR_FUTURE`] when it never did.
    pub end: Instant<Virtual>,
    /// MITRE ATT&CK for ICS technique, or several with blanks: `T0830 T0814`.
    pub technique: Arc<str>,
    /// What was attacked.
    pub target: Arc<str>,
    /// The attack's name in the scenario.
    pub attack: Arc<str>,
}

/// What was done to the virtual clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClockAction {
    /// The clock began to run.
    Start,
    /// A requester began to hold the clock.
    Pause,
    /// That requester let go.
    Resume,
    /// The rate changed (dilation).
    Rate,
    /// Virtual time jumped ahead because all were waiting.
    Skip,
    /// The session ended.
    End,
    /// A word of a later version of this crate.
    Other(Arc<str>),
}

impl ClockAction {
    /// The word in the `action` column.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Start => "start",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Rate => "rate",
            Self::Skip => "skip",
            Self::End => "end",
            Self::Other(word) => word,
        }
    }
}

impl From<Arc<str>> for ClockAction {
    fn from(word: Arc<str>) -> Self {
        match &*word {
            "start" => Self::Start,
            "pause" => Self::Pause,
            "resume" => Self::Resume,
            "rate" => Self::Rate,
            "skip" => Self::Skip,
            "end" => Self::End,
            _ => Self::Other(word),
        }
    }
}

impl fmt::Display for ClockAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Row for SignalRow {
    const TABLE: &'static str = "signals";
    const COLUMNS: &'static [(&'static str, Kind)] = &[
        ("t_virtual_ns", Kind::Int),
        ("t_wall_ns", Kind::Int),
        ("host", Kind::Text),
        ("source", Kind::Text),
        ("name", Kind::Text),
        ("value", Kind::Real),
        ("unit", Kind::Text),
    ];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::Int(self.t_virtual.as_ns()),
            Cell::Int(self.t_wall.as_ns()),
            Cell::Text(self.host.clone()),
            Cell::Text(self.source.clone()),
            Cell::Text(self.name.clone()),
            Cell::Real(self.value),
            Cell::Text(self.unit.clone()),
        ]
    }

    fn from_cells(mut cells: Cells) -> Option<Self> {
        Some(Self {
            t_virtual: Instant::from_ns(cells.int()?),
            t_wall: Instant::from_ns(cells.int()?),
            host: cells.text()?,
            source: cells.text()?,
            name: cells.text()?,
            value: cells.real()?,
            unit: cells.text()?,
        })
    }
}

impl Row for EventRow {
    const TABLE: &'static str = "events";
    const COLUMNS: &'static [(&'static str, Kind)] = &[
        ("t_virtual_ns", Kind::Int),
        ("t_wall_ns", Kind::Int),
        ("host", Kind::Text),
        ("source", Kind::Text),
        ("kind", Kind::Text),
        ("text", Kind::Text),
    ];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::Int(self.t_virtual.as_ns()),
            Cell::Int(self.t_wall.as_ns()),
            Cell::Text(self.host.clone()),
            Cell::Text(self.source.clone()),
            Cell::Text(self.kind.clone()),
            Cell::Text(self.text.clone()),
        ]
    }

    fn from_cells(mut cells: Cells) -> Option<Self> {
        Some(Self {
            t_virtual: Instant::from_ns(cells.int()?),
            t_wall: Instant::from_ns(cells.int()?),
            host: cells.text()?,
            source: cells.text()?,
            kind: cells.text()?,
            text: cells.text()?,
        })
    }
}

impl Row for ClockRow {
    const TABLE: &'static str = "clock";
    const COLUMNS: &'static [(&'static str, Kind)] = &[
        ("seq", Kind::Int),
        ("t_virtual_ns", Kind::Int),
        ("t_wall_ns", Kind::Int),
        ("host", Kind::Text),
        ("action", Kind::Text),
        ("requester", Kind::Text),
        ("reason", Kind::Text),
        ("duration_ns", Kind::Int),
    ];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::Int(self.seq as i64),
            Cell::Int(self.t_virtual.as_ns()),
            Cell::Int(self.t_wall.as_ns()),
            Cell::Text(self.host.clone()),
            Cell::Text(self.action.as_str().into()),
            Cell::Text(self.requester.clone()),
            Cell::Text(self.reason.clone()),
            Cell::Int(self.duration.as_ns()),
        ]
    }

    fn from_cells(mut cells: Cells) -> Option<Self> {
        Some(Self {
            seq: cells.int()? as u64,
            t_virtual: Instant::from_ns(cells.int()?),
            t_wall: Instant::from_ns(cells.int()?),
            host: cells.text()?,
            action: cells.text()?.into(),
            requester: cells.text()?,
            reason: cells.text()?,
            duration: Duration::from_ns(cells.int()?),
        })
    }
}

impl Row for LabelRow {
    const TABLE: &'static str = "labels";
    const COLUMNS: &'static [(&'static str, Kind)] = &[
        ("start_ns", Kind::Int),
        ("end_ns", Kind::Int),
        ("technique", Kind::Text),
        ("target", Kind::Text),
        ("attack", Kind::Text),
    ];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::Int(self.start.as_ns()),
            Cell::Int(self.end.as_ns()),
            Cell::Text(self.technique.clone()),
            Cell::Text(self.target.clone()),
            Cell::Text(self.attack.clone()),
        ]
    }

    fn from_cells(mut cells: Cells) -> Option<Self> {
        Some(Self {
            start: Instant::from_ns(cells.int()?),
            end: Instant::from_ns(cells.int()?),
            technique: cells.text()?,
            target: cells.text()?,
            attack: cells.text()?,
        })
    }
}

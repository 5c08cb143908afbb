//! Rows of the four tables. The column names are part of the public contract.

use std::fmt;
use std::sync::Arc;

use timeloom_time::{Duration, Instant, Virtual, Wall};

use crate::table::{Cell, Cells, Column, ColumnKind, Row};

/// Defines the type of a row. The arguments are its name, the fields that identify its source (none
/// if that is the scenario), and its fields. The name of a field's column follows `=`. The columns
/// are in the order of the fields.
macro_rules! table {
    (
        $table:literal;
        of $($of:ident)*;
        $(#[$about:meta])*
        pub struct $row:ident {
            $($(#[$field_about:meta])* pub $field:ident: $type:ty = $column:literal,)+
        }
    ) => {
        $(#[$about])*
        pub struct $row {
            $($(#[$field_about])* pub $field: $type,)+
        }

        impl Row for $row {
            const TABLE: &'static str = $table;
            const COLUMNS: &'static [(&'static str, ColumnKind)] =
                &[$(($column, <$type as Column>::KIND)),+];

            fn cells(&self) -> Vec<Cell> {
                vec![$(self.$field.cell()),+]
            }

            fn of(&self) -> Vec<&Arc<str>> {
                vec![$(&self.$of),*]
            }

            fn from_cells(mut cells: Cells) -> Option<Self> {
                Some(Self { $($field: Column::take(&mut cells)?),+ })
            }
        }
    };
}

table! {
    "signals";
    of host source;
    /// Sample of a quantity, as a row of `signals.parquet`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct SignalRow {
        /// Virtual instant of the sample, in the session's time.
        pub t_virtual: Instant<Virtual> = "t_virtual_ns",
        /// Time of recording, by the host's monotonic clock.
        pub t_wall: Instant<Wall> = "t_wall_ns",
        /// Host on which the sample was recorded.
        pub host: Arc<str> = "host",
        /// Name of the plant or program that produced the sample.
        pub source: Arc<str> = "source",
        /// Name of the quantity, such as `v680`.
        pub name: Arc<str> = "name",
        /// Value in `unit`; must be finite.
        pub value: f64 = "value",
        /// Unit for display, such as `V` or `kW`; empty if there is none.
        pub unit: Arc<str> = "unit",
    }
}

table! {
    "events";
    of host source;
    /// Event, as a row of `events.parquet`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct EventRow {
        /// Virtual instant of the event, in the session's time.
        pub t_virtual: Instant<Virtual> = "t_virtual_ns",
        /// Time of recording, by the host's monotonic clock.
        pub t_wall: Instant<Wall> = "t_wall_ns",
        /// Host to which the event belongs.
        pub host: Arc<str> = "host",
        /// Program, plant, link or attack that the event is about.
        pub source: Arc<str> = "source",
        /// Keyword for filtering, such as `start`, `exit`, `phase` or `warning`.
        pub kind: Arc<str> = "kind",
        /// Sentence for users, truncated at 32 KiB.
        pub text: Arc<str> = "text",
    }
}

table! {
    "clock";
    of host requester;
    /// Change of the virtual clock, as a row of `clock.parquet`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ClockRow {
        /// Number of the change in the session. Rows written by several hosts about the same change
        /// have the same number, and are counted once.
        pub seq: u64 = "seq",
        /// Reading of the virtual clock.
        pub t_virtual: Instant<Virtual> = "t_virtual_ns",
        /// Reading of the host's monotonic clock.
        pub t_wall: Instant<Wall> = "t_wall_ns",
        /// Host that wrote this row.
        pub host: Arc<str> = "host",
        /// Change of the clock.
        pub action: ClockAction = "action",
        /// Requester of the change: the name of a plant or of a peer, or a user's command.
        pub requester: Arc<str> = "requester",
        /// Reason in a few words, such as `exchange` or `breakpoint`.
        pub reason: Arc<str> = "reason",
        /// For a `resume`, the wall time for which the requester had held the clock; for a `skip`,
        /// the skipped virtual time; otherwise zero.
        pub duration: Duration = "duration_ns",
    }
}

table! {
    "labels";
    of;
    /// Interval of an attack, as a row of `labels.parquet`.
    ///
    /// A row is written when the attack starts, with `end` at [`Instant::FAR_FUTURE`], and
    /// again when it ends. Of the rows with the same start, target and attack, the last one counts.
    /// Therefore even a run that is killed keeps the labels of its attacks.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LabelRow {
        /// Virtual instant at which the attack starts.
        pub start: Instant<Virtual> = "start_ns",
        /// Virtual instant at which the attack ends; [`Instant::FAR_FUTURE`] if it did not end.
        pub end: Instant<Virtual> = "end_ns",
        /// MITRE ATT&CK for ICS technique, or several separated by blanks, such as `T0830 T0814`.
        pub technique: Arc<str> = "technique",
        /// Target of the attack, or several names separated by blanks; empty if the scenario names
        /// none.
        pub target: Arc<str> = "target",
        /// Name of the attack in the scenario.
        pub attack: Arc<str> = "attack",
    }
}

impl LabelRow {
    /// Returns the attack's name, with its techniques if it has any.
    pub(crate) fn title(&self) -> String {
        match &*self.technique {
            "" => self.attack.to_string(),
            technique => format!("{} ({technique})", self.attack),
        }
    }
}

/// Change of the virtual clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClockAction {
    /// The clock started.
    Start,
    /// A requester began to hold the clock.
    Pause,
    /// The requester released the clock.
    Resume,
    /// The rate changed (dilation).
    Rate,
    /// Virtual time skipped ahead, because all programs were waiting.
    Skip,
    /// The session ended.
    End,
    /// Keyword that this version of the crate does not know.
    Other(Arc<str>),
}

impl ClockAction {
    /// Returns the keyword that stands for the change in the column `action`.
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

impl Column for ClockAction {
    const KIND: ColumnKind = ColumnKind::Text;

    fn cell(&self) -> Cell {
        Cell::Text(self.as_str().into())
    }

    fn take(cells: &mut Cells) -> Option<Self> {
        cells.text().map(Self::from)
    }
}

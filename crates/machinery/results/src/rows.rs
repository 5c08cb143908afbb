//! The rows of the four tables. Column names are the outward contract's.

use std::fmt;
use std::sync::Arc;

use timeloom_time::{Duration, Instant, Virtual, Wall};

use crate::table::{Cell, Cells, Column, Kind, Row};

/// Defines a row: what it is called, by which fields it is somebody's (none: the
/// scenario's own), its fields, and after each `=` the column
/// that holds it. The columns stand in the order of the fields.
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
            const COLUMNS: &'static [(&'static str, Kind)] =
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
    /// One sample of one quantity: a row of `signals.parquet`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct SignalRow {
        /// When, in the session's virtual time.
        pub t_virtual: Instant<Virtual> = "t_virtual_ns",
        /// When it was recorded, by the host's monotonic clock.
        pub t_wall: Instant<Wall> = "t_wall_ns",
        /// The host it was recorded on.
        pub host: Arc<str> = "host",
        /// Where it comes from: a plant's or program's name.
        pub source: Arc<str> = "source",
        /// The quantity: `v680`.
        pub name: Arc<str> = "name",
        /// Its value in `unit`; must be finite.
        pub value: f64 = "value",
        /// The unit as a person reads it (`V`, `kW`); empty when it has none.
        pub unit: Arc<str> = "unit",
    }
}

table! {
    "events";
    of host source;
    /// Something that happened: a row of `events.parquet`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct EventRow {
        /// When, in the session's virtual time.
        pub t_virtual: Instant<Virtual> = "t_virtual_ns",
        /// When it was recorded, by the host's monotonic clock.
        pub t_wall: Instant<Wall> = "t_wall_ns",
        /// The host it happened on.
        pub host: Arc<str> = "host",
        /// The program, plant, link or attack it concerns.
        pub source: Arc<str> = "source",
        /// A short word to filter by: `start`, `exit`, `phase`, `warning`.
        pub kind: Arc<str> = "kind",
        /// A sentence for people. Cut at 32 KiB.
        pub text: Arc<str> = "text",
    }
}

table! {
    "clock";
    of host requester;
    /// A change of the virtual clock: a row of `clock.parquet`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ClockRow {
        /// Counts the changes of the session. The rows that several hosts write
        /// about the same change carry the same number, and are counted once.
        pub seq: u64 = "seq",
        /// What the virtual clock showed.
        pub t_virtual: Instant<Virtual> = "t_virtual_ns",
        /// What the host's monotonic clock showed.
        pub t_wall: Instant<Wall> = "t_wall_ns",
        /// The host that writes this row.
        pub host: Arc<str> = "host",
        /// What was done to the clock.
        pub action: ClockAction = "action",
        /// Who asked: the name of a plant, a peer, a person's command.
        pub requester: Arc<str> = "requester",
        /// Why, in a few words: `exchange`, `breakpoint`.
        pub reason: Arc<str> = "reason",
        /// For a `resume`, how long the requester had held the clock, in wall
        /// time; for a `skip`, how much virtual time was jumped over; else zero.
        pub duration: Duration = "duration_ns",
    }
}

table! {
    "labels";
    of;
    /// A time in which an attack was under way: a row of `labels.parquet`.
    ///
    /// Write it when the attack starts, with `end` at [`Instant::FAR_FUTURE`], and
    /// again when it ends: of rows that share start, target and attack, the last
    /// one written is kept. So a killed run keeps its labels too.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LabelRow {
        /// When it began, in virtual time.
        pub start: Instant<Virtual> = "start_ns",
        /// When it ended; [`Instant::FAR_FUTURE`] when it never did.
        pub end: Instant<Virtual> = "end_ns",
        /// MITRE ATT&CK for ICS technique, or several with blanks: `T0830 T0814`.
        pub technique: Arc<str> = "technique",
        /// Target of the attack, or several names separated by blanks; empty if the scenario names
        /// none.
        pub target: Arc<str> = "target",
        /// The attack's name in the scenario.
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

impl Column for ClockAction {
    const KIND: Kind = Kind::Text;

    fn cell(&self) -> Cell {
        Cell::Text(self.as_str().into())
    }

    fn take(cells: &mut Cells) -> Option<Self> {
        cells.text().map(Self::from)
    }
}

//! Table `[simulation]`: simulators of the physical world.

use std::collections::BTreeMap;
use std::path::PathBuf;

use timeloom_time::Duration;

use crate::plan::Named;
use crate::read::Fields;
use crate::table::{NotEmpty, table};
use crate::words::{CapabilityName, User};

table! {
/// Simulators of the physical world.
#[noun = "[simulation]"]
pub struct Simulation {
    /// Simulators of physical processes, by name.
    pub plants: Named<Plant> = Named::new(),
}
}

table! {
/// Simulator of a physical process: a child process that computes the state of the physical world
/// for each step of virtual time.
#[noun = "a plant"]
pub struct Plant {
    /// Executable and arguments, which are never passed to a shell.
    #[within(NotEmpty)]
    pub run: Vec<String>,
    /// Environment variables, in addition to the usual ones that plants inherit from Timeloom
    /// (`PATH`, `HOME`, `LANG`, `TZ`, `TERM` and similar).
    pub env: BTreeMap<String, String> = BTreeMap::new(),
    /// Names of further variables that the process inherits from Timeloom. A `*` at the end of a
    /// name matches any suffix.
    pub inherit: Vec<String> = Vec::new(),
    /// Working directory. In a file it is relative to the scenario file; in a plan it is absolute.
    #[read(Fields::directory)]
    pub directory: PathBuf = PathBuf::from("."),
    /// User of the process, which cannot gain privileges by executing other programs and has only
    /// the capabilities listed below. If left out, Timeloom's user.
    pub user: Option<User>,
    /// Capabilities of the process, whatever its user. It has no others. If this and `user` are
    /// left out, it has those of Timeloom.
    pub capabilities: Option<Vec<CapabilityName>>,
    /// Virtual time between two computed states.
    pub step: Duration,
    /// Maximum wall time for one answer. The simulator then counts as hung.
    pub timeout: Duration = Duration::from_s(10),
    /// Configuration that the simulator receives as JSON.
    pub config: serde_json::Map<String, serde_json::Value> = serde_json::Map::new(),
    /// Signals to record.
    #[read(|fields, key| Record::read_with_step(fields, key, step))]
    pub record: Record = Record::default(),
}
}

table! {
/// Signals of a plant that are recorded, and the interval.
#[noun = "`record`"]
pub struct Record {
    /// Names of the signals, as defined by the plant.
    pub signals: Vec<String> = Vec::new(),
    /// Virtual time between two samples: a multiple of the plant's step, which is the default.
    #[read(|fields, key| fields.or(key, Duration::MAX))]
    pub every: Duration = Duration::ZERO,
}
}

impl Record {
    /// Reads the signals that a plant with this step records.
    fn read_with_step(fields: &mut Fields<'_>, key: &'static str, step: Duration) -> Self {
        let record = fields.or(key, Self::default());
        // An explicit zero is a mistake and is reported. Only a missing key means "every step".
        let every = match record.every == Duration::MAX || !fields.has(key) {
            true => step,
            false => record.every,
        };
        Self { every, ..record }
    }
}

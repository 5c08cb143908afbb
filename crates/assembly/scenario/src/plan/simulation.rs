//! Table `[simulation]`: simulators of the physical world.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::Duration;

use crate::plan::Named;
use crate::read::{Fields, Read};
use crate::words::{self, CapabilityName, User};

/// Simulators of the physical world.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Simulation {
    /// Simulators of physical processes, by name.
    #[schemars(default)]
    pub plants: Named<Plant>,
}

/// Simulator of a physical process: a child process that computes the state of the physical world
/// for each step of virtual time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Plant {
    /// Executable and arguments, which are never passed to a shell.
    #[schemars(length(min = 1))]
    pub run: Vec<String>,
    /// Environment variables, in addition to the usual ones that plants inherit from Timeloom
    /// (`PATH`, `HOME`, `LANG`, `TZ`, `TERM` and similar).
    #[schemars(default)]
    pub env: BTreeMap<String, String>,
    /// Names of further variables that the process inherits from Timeloom. A `*` at the end of a
    /// name matches any suffix.
    #[schemars(default)]
    pub inherit: Vec<String>,
    /// Working directory. In a file it is relative to the scenario file; in a plan it is absolute.
    #[schemars(default = "words::here")]
    pub directory: PathBuf,
    /// User of the process, which cannot gain privileges by executing other programs and has only
    /// the capabilities listed below. If left out, Timeloom's user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<User>,
    /// Capabilities of the process, whatever its user. It has no others. If this and `user` are
    /// left out, it has those of Timeloom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<CapabilityName>>,
    /// Virtual time between two computed states.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(with = "words::DurationText")]
    pub step: Duration,
    /// Maximum wall time for one answer. The simulator then counts as hung.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "words::ten_seconds", with = "words::DurationText")]
    pub timeout: Duration,
    /// Configuration that the simulator receives as JSON.
    #[schemars(default)]
    pub config: serde_json::Map<String, serde_json::Value>,
    /// Signals to record.
    #[schemars(default)]
    pub record: Record,
}

/// Signals of a plant that are recorded, and the interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Record {
    /// Names of the signals, as defined by the plant.
    #[schemars(default)]
    pub signals: Vec<String>,
    /// Virtual time between two samples: a multiple of the plant's step, which is the default.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::DurationText")]
    pub every: Duration,
}

impl Read for Simulation {
    const NOUN: &'static str = "[simulation]";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            plants: fields.or_default("plants"),
        }
    }
}

impl Read for Plant {
    const NOUN: &'static str = "a plant";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        let mut plant = Self {
            run: fields.required("run"),
            env: fields.or_default("env"),
            inherit: fields.or_default("inherit"),
            directory: fields.directory("directory"),
            user: fields.optional("user"),
            capabilities: fields.optional("capabilities"),
            step: fields.required("step"),
            timeout: fields.or("timeout", words::ten_seconds()),
            config: fields.or_default("config"),
            record: fields.or_default("record"),
        };
        // An explicit zero is a mistake and is reported. Only a missing key means "every step".
        if plant.record.every == Duration::MAX || !fields.has("record") {
            plant.record.every = plant.step;
        }
        plant
    }
}

impl Read for Record {
    const NOUN: &'static str = "`record`";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            signals: fields.or_default("signals"),
            every: fields.or("every", Duration::MAX),
        }
    }
}

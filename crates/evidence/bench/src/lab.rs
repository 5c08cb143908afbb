//! Experiments about clocks from the papers, repeated on Timeloom's models.
//!
//! - [`dvfs()`] repeats the RVEC paper's Figures 8–13 and Tables 3–5, or runs the user's own trace.
//!   It also shows the cost of each clock on this machine.
//! - [`ntp_steps()`] repeats the paper's Table 2 with a model of the client, and shows measurements
//!   of the real chronyd by [`chronyd_corrections`].
//!
//! Each returns an [`Experiment`](crate::Experiment): rows for programs, a table for
//! people, and a page with charts. `timeloom-clock` contains the models, `timeloom-results` draws,
//! and the rest of this crate measures.

mod dvfs;
mod ntp_chronyd;
mod ntp_steps;

pub use dvfs::dvfs;
pub use ntp_chronyd::{Chronyd, ChronydError, ChronydRow, Client, chronyd_corrections};
pub use ntp_steps::ntp_steps;

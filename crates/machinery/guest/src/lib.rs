//! Puts unmodified programs under a virtual clock: launch, trap, pause.
//!
//! A [`Session`] is one fabric of time: a clock page, the processes that read
//! it, and the supervisor (this process) that owns both. What it needs:
//!
//! - `image`: the replacement vDSO, relocated and put into a sealed memfd;
//! - `filter`: which system calls trap, which ask the supervisor, which pass;
//! - `launch`: fork, filter, exec;
//! - `listener`: answers what the filter asks; at every exec it calls
//! - `inject`: maps image and clock page into the new program;
//! - `register`: the same for a program that runs already;
//! - `clock`: counter → wall → virtual → each host's clocks, published in the
//!   clock page of each host;
//! - `clock_calls`: `adjtimex` and its relatives, which steer a host's clock;
//! - `freeze`: stops and continues the processes;
//! - `kick`: wakes threads whose wait has become too long;
//! - `timers`, `timer_calls`: timers, whose deadlines the supervisor owns;
//! - `waiting`: what threads that do not run wait for;
//! - `time_files`: `/proc/uptime` and `/proc/stat` by the clock of a guest's host;
//! - `skip`: lets time go to the next event while everything waits;
//! - `control`: the socket through which `timeloom pause` and others speak;
//! - `grants`, `granter`, `stepped`: sessions whose time moves by grants from outside.
//!
//! It does not know about scenarios, networks or plants.

mod arch;
mod auxv;
mod bpf;
mod clock;
mod clock_calls;
mod control;
mod coverage;
mod cpu_time;
mod error;
mod filter;
mod freeze;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod granter;
mod grants;
mod image;
mod inject;
mod kick;
mod launch;
mod leftovers;
mod listener;
mod memory;
mod notify;
mod phc;
mod processes;
mod ptrace;
#[cfg(test)]
mod random;
mod register;
mod remote;
mod report;
mod session;
mod skip;
mod stepped;
mod time_files;
mod timer_calls;
mod timers;
mod until;
mod until_hosts;
mod vdso;
mod waiting;

pub use clock::{
    Belief, Change, ChangeKind, Clock, ClockOptions, Host, HostChange, HostOptions, HostReading,
    HostTime, Tsc,
};
pub use control::{
    ControlError, Controlled, HostRequest, HostText, ProcessText, Request, Response, Standing,
    StatusText, connect, list_sessions, runtime_directory, serve,
};
pub use coverage::coverage;
pub use error::GuestError;
pub use freeze::{FreezeKind, cgroup2_mount};
pub use granter::{Stepped, end_grants};
pub use grants::{Grants, Lookout, Tally};
pub use launch::{CommandSpec, Guest, Output};
pub use leftovers::{Leftovers, clean};
pub use report::UnhandledCall;
pub use session::{Session, SessionOptions, Status};
pub use stepped::{NOT_BY_HAND, SteppedSession};
pub use time_files::ProcFiles;
pub use until::run_until;
pub use until_hosts::{HostTarget, run_hosts_until};

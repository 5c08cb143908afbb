//! Runs unmodified programs under a virtual clock: launch, trap, pause.
//!
//! A [`Session`] consists of a clock page, the processes that read it, and the supervisor (this
//! process) that owns both. Its parts:
//!
//! - `linux`: interfaces of Linux that have no safe functions: ptrace, other processes' memory,
//!   filters;
//! - `clock`: the maps counter → wall → virtual → each host's clocks, published in the clock page
//!   of each host;
//! - `filter`: the decision for each system call: trap, ask the supervisor, or pass;
//! - `enter`: fork, filter, exec, and at every exec the image (our code in the process) in place of
//!   the vDSO;
//! - `register`: the same for a running program;
//! - `supervise`: answers the filter's requests, interrupts threads that wait too long, skips time;
//! - `timers`, `phc`, `card`, `time_files`: timers, hardware clocks, network cards of the model, and `/proc/uptime` and `/proc/stat`,
//!   which the supervisor answers by the clock of a guest's host;
//! - `freeze`: stops and continues the processes;
//! - `names`: finding a session from outside; `leftovers`: removing the objects of a dead session;
//! - `control`: the socket used by `timeloom pause` and other commands, and sessions whose time
//!   moves by grants of a client.
//!
//! The crate does not know about scenarios, networks or plants.

mod arch;
mod card;
mod clock;
mod control;
mod enter;
mod error;
mod filter;
mod freeze;
#[doc(hidden)]
pub mod fuzzing;
mod leftovers;
mod linux;
mod names;
mod phc;
mod register;
mod session;
mod supervise;
mod time_files;
mod timers;

pub use clock::{
    CardOptions, CardReading, ChangeKind, Clock, ClockOptions, Compute, ErrorEstimate, FileTimes,
    FrameStamps, Host, HostChange, HostOptions, HostReading, HostTimeState, Mark, NotYet,
    ProcFiles, Reckoning, TrueTime, Tsc,
};
pub use control::{
    Cause, ComponentText, ControlError, Controlled, EnterCommand, EnteredCommand, EventOrigin,
    GrantTotals, GrantedState, GranterCheck, Grants, HoldError, HoldText, HostRequest, HostRights,
    HostTarget, HostText, LinkProperties, NextEvent, ProcessText, Request, RequestedInstant,
    Response, RunUntilError, SessionHold, StatusConnection, StatusText, Stepped, SteppedSession,
    ThreadActivity, ThreadCounts, ThreadText, Welcome, Why, WordError, connect, end_grants, enter,
    hold, parse_factor, parse_instant, parse_span, run_hosts_until, run_until, serve,
};
pub use enter::guest::{Guest, ProgramEnd};
pub use enter::identity::{HostNames, Identity};
pub use enter::root::{Bind, ContainerRoot, RootSpec};
pub use enter::spec::{CommandSpec, Output, Variables};
pub use error::GuestError;
pub use freeze::FreezeKind;
pub use leftovers::{Leftovers, clean};
pub use names::{SessionSocket, list_sessions, runtime_directory, session_sockets};
pub use session::{Process, Session, SessionOptions, SessionStatus};
pub use supervise::real_time::{PACED_ALIKE, PACED_OTHERWISE};
pub use supervise::report::UnhandledCall;
pub use supervise::scheduler::SchedulingRecord;
pub use supervise::shared_order::{EventKey, SharedOrder, Turn};
pub use supervise::supervisor::ArrivalCallback;
pub use timeloom_sys::cgroup::mount as cgroup2_mount;

//! Tests of unmodified programs in a session: differential and failure tests.
//!
//! A test program (`tests/programs`) is a table of cases. Each case prints its result and its
//! duration, by the clock that it sees. The same binary first runs natively, then in a session that
//! is paused and dilated. There it must return the same results, and each case must last the same
//! virtual time: never less, and more only by the scheduling delays of a busy machine.

mod support;

mod clean;
mod clocks;
mod cpu_time;
mod debuggers;
mod early_events;
mod epolls;
mod errors;
mod faults;
mod file_times;
mod grants;
mod hardware_clocks;
mod host_clocks;
mod host_control;
mod languages;
mod late_timers;
mod let_go;
mod live_changes;
mod memory;
mod orphan_timers;
mod own_filters;
mod own_sigsys;
mod popular;
mod processes;
mod refusals;
mod register;
mod rest_by_events;
mod rights;
mod sanitizers;
mod sessions;
mod signals;
mod sockets;
mod stops;
mod stuck;
mod supervisor;
mod time_files;
mod time_namespaces;
#[cfg(target_arch = "x86_64")]
mod tsc;
mod unprivileged;
mod vdso;
mod waits;

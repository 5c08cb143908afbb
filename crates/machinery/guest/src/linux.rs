//! Interfaces of Linux that have no safe functions: other processes, their memory, filters.

pub(crate) mod bpf;
pub(crate) mod call_names;
pub(crate) mod debugger;
pub(crate) mod descriptor;
pub(crate) mod kernel_log;
pub(crate) mod memory;
pub(crate) mod pidfd;
pub(crate) mod processes;
pub(crate) mod ptrace;
pub(crate) mod remote;
pub(crate) mod spare;

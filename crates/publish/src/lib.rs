//! Timelines in shared memory: how a time that knows how good it is gets from
//! its keeper to every reader of the machine.
//!
//! One 4 KiB page per timeline ([`TimelinePage`]). Bytes 0–111 are exactly the
//! kernel's `vmclock_abi` *with its error fields filled*, which no producer is
//! known to do; from byte 128 on our own extension: asymmetric bounds that grow,
//! limits of age, the timeline's id.
//!
//! - [`PageWriter`] owns the page: a sealed memfd, or a file for containers. It
//!   is never truncated under a reader.
//! - [`PageReader`] reads it without a lock, a system call or an allocation; it
//!   is `Send + Sync`. A writer stopped or killed in the middle of a publication
//!   does not hold it up, because the copy in force is never written to
//!   ([`Latch`]).
//! - [`foreign`] speaks other people's formats: vmclock, ClockBound segments,
//!   chrony's SOCK samples, NTP's shared memory.
//!
//! What a page's reader finds out itself: age, a dead daemon, a counter gone
//! backwards, and a disruption that the daemon or a hypervisor has marked
//! ([`PageWriter::disrupt`]). What it cannot see without a system call (a suspend
//! in which the counter went on counting something else, a step that left the
//! counter ahead) is for the daemon to see and to mark.
//!
//! What it is not: a keeper. What the page says is decided in `timeloom-clock`.
#![allow(
    unexpected_cfgs,
    reason = "`--cfg loom` is given by hand to check the latch, as loom's manual says"
)]

mod latch;
mod sync;

pub use latch::Latch;

#[cfg(not(loom))]
mod clockbound_file;
#[cfg(not(loom))]
mod core_cycles;
#[cfg(not(loom))]
mod counter;
#[cfg(not(loom))]
mod encode;
#[cfg(not(loom))]
pub mod foreign;
#[cfg(all(not(loom), target_arch = "aarch64"))]
mod generic_timer;
#[cfg(not(loom))]
mod host_strict;
#[cfg(not(loom))]
mod layout;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
mod ntp_shm_memory;
#[cfg(not(loom))]
mod phc;
#[cfg(not(loom))]
mod reader;
#[cfg(not(loom))]
mod refusal;
#[cfg(not(loom))]
mod system_clock;
#[cfg(all(not(loom), target_arch = "x86_64"))]
mod tsc;
#[cfg(not(loom))]
mod writer;

#[cfg(not(loom))]
pub use clockbound_file::ClockBoundFile;
#[cfg(not(loom))]
pub use core_cycles::{CoreCycles, NoCoreCycles};
#[cfg(not(loom))]
pub use counter::{CoreScale, now_ticks};
#[cfg(not(loom))]
pub use encode::PageSegment;
#[cfg(all(not(loom), target_arch = "aarch64"))]
pub use generic_timer::GenericTimer;
#[cfg(not(loom))]
pub use host_strict::HostStrict;
#[cfg(not(loom))]
pub use layout::{MAGIC, PAGE_SIZE, TimelinePage, VERSION, WORDS};
#[cfg(not(loom))]
pub use ntp_shm_memory::NtpShm;
#[cfg(not(loom))]
pub use phc::{Phc, PhcLook};
#[cfg(not(loom))]
pub use reader::{PageReader, Reading};
#[cfg(not(loom))]
pub use refusal::Refusal;
#[cfg(not(loom))]
pub use system_clock::{SystemClock, Unusable};
#[cfg(all(not(loom), target_arch = "x86_64"))]
pub use tsc::{Tsc, TscError};
#[cfg(not(loom))]
pub use writer::{PageWriter, TimeType, WriterError};

//! Timelines in shared memory: an estimator publishes time with error bounds, and every program of
//! the machine can read it.
//!
//! There is one 4 KiB page per timeline ([`TimelinePage`]). Bytes 0–111 are exactly the kernel's
//! `vmclock_abi` *with its error fields filled*, which no other producer is known to do. From byte
//! 128 on follows our own extension: asymmetric bounds that grow, limits of age, and the timeline's
//! id.
//!
//! - [`PageWriter`] owns the page, which is a sealed memfd or, for containers, a file. A writer
//!   never truncates a page that readers have mapped.
//! - [`PageReader`] reads the page without a lock, a system call or an allocation, and is `Send +
//!   Sync`. A writer that is stopped or killed in the middle of a publication does not block
//!   readers, because the copy in force is never written to ([`Latch`]).
//! - [`RegionWriter`] and [`RegionReader`] do the same for the guest of a virtual machine, whose
//!   counter differs from the host's.
//! - [`foreign`] implements the formats of other projects: vmclock, ClockBound segments, chrony's
//!   SOCK samples and NTP's shared memory.
//!
//! A page's reader itself detects old data, a dead daemon, a counter that went backwards, and a
//! disruption that the daemon or a hypervisor has marked ([`PageWriter::disrupt`]). It cannot
//! detect other events without a system call, such as a suspend during which the counter did not
//! advance, or a jump of the counter into the future. The daemon must detect and mark those.
//!
//! This module does not synchronise clocks. `timeloom-clock` determines the content of a page.

mod clockbound_file;
mod core_cycles;
mod counter;
mod domain;
mod encode;
pub mod foreign;
#[doc(hidden)]
pub mod fuzzing;
#[cfg(target_arch = "aarch64")]
mod generic_timer;
mod given_clock;
mod host_strict;
#[cfg(miri)]
mod interpreted;
mod latch;
mod layout;
mod machine_frequency;
mod memory;
mod ntp_shm_memory;
mod phc;
mod reader;
mod refusal;
mod region;
mod relation;
mod shared_counter;
mod sync;
mod system_clock;
#[cfg(target_arch = "x86_64")]
mod tsc;
mod writer;

pub use clockbound_file::ClockBoundFile;
pub use core_cycles::{CoreCycles, NoCoreCycles};
pub use counter::{CoreScale, PageCounter, now_ticks};
pub use domain::{Domain, host_disruptions};
pub use encode::PageSegment;
#[cfg(target_arch = "aarch64")]
pub use generic_timer::GenericTimer;
pub use given_clock::{GivenClock, clock_page_here};
pub use host_strict::HostStrict;
pub use latch::Latch;
pub use layout::{MAGIC, PAGE_SIZE, TimelinePage, VERSION, WORDS};
pub use machine_frequency::{MachineFrequency, NoFrequency};
pub use ntp_shm_memory::NtpShm;
pub use phc::{Phc, PhcLook};
pub use reader::{PageReader, Reading};
pub use refusal::Refusal;
pub use region::{
    MOST_TIMELINES, REGION_MAGIC, REGION_VERSION, Region, RegionDirectory, RegionEntry,
    RegionReader, RegionWriter, RelationWriter, Slot, SlotWriter,
};
pub use relation::{Bounds, CounterRelation, Translation};
pub use shared_counter::{SharedCounter, SharedCounterError};
pub use system_clock::{SystemClock, SystemClockError};
#[cfg(target_arch = "x86_64")]
pub use tsc::{TscClock, TscError};
pub use writer::{PageWriter, TimeType, WriterError};

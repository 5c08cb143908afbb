//! The clock page: how a clock gets from its writer to its readers.
//!
//! One 4 KiB page of shared memory per host of a session. The supervisor maps
//! it for writing; every guest process has it mapped read-only at
//! [`PAGE_ADDRESS`], right below the image that replaces the vDSO. It holds one
//! [`timeloom_time::ClockMap`] from the cycle counter to virtual time as that
//! host counts it, and the offsets that turn it into the clocks of POSIX.
//!
//! What it is not: a channel back. Readers write nothing here.
//!
//! **Reading** ([`ClockPage::read`]) takes no lock, uses no thread-local
//! storage and ends even when the writer was killed in the middle.
//! **Writing** ([`ClockPage::publish`]) closes a window first and reads the
//! counter inside it. So no reader can have computed a value from the old map
//! that is later than where the new map starts: clocks do not step back. Where
//! several pages must change at the same instant, all are closed before the
//! counter is read once ([`ClockPage::close`], [`ClockPage::open`]).
//!
//! Bytes 0–127 are kept for the kernel's `vmclock_abi`, which a later version
//! fills for readers in virtual machines; ours begins at byte 128.
#![cfg_attr(not(test), no_std)]

mod arch;
mod counter;
mod layout;
mod past;
mod read;
mod sync;
mod write;

pub use counter::{CounterKind, ticks_ordered};
pub use layout::{
    ABI_VERSION, CLOCK_WAS_SET, ClockPage, HOST_OFFSET, IMAGE_ADDRESS, IMAGE_LIMIT, MAGIC, MapCopy,
    PAGE_ADDRESS, PAGE_SIZE, RELEASED,
};
pub use past::Past;
pub use write::PageMap;

// Here and not beside the structures: the model test builds those with atomics of
// another size.
const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<ClockPage>() == PAGE_SIZE);
    assert!(offset_of!(ClockPage, magic) == 128);
    assert!(offset_of!(ClockPage, sequence) == 144);
    assert!(offset_of!(ClockPage, host) == HOST_OFFSET);
    assert!(offset_of!(ClockPage, copies) == 192);
    assert!(size_of::<MapCopy>() == 128);
    assert!(size_of::<Past>() == 1024);
};

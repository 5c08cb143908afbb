//! The clock page: how a clock gets from its writer to its readers.
//!
//! One 4 KiB page of shared memory per host of a session. The supervisor maps
//! it for writing; every guest process has it mapped read-only at
//! [`PAGE_ADDRESS`], right below the image that stands for the vDSO. It holds one
//! [`timeloom_time::ClockMap`] from the cycle counter to the time that the page
//! shows, and the offsets that turn this into the clocks of POSIX.
//!
//! Whose time a page shows is in its type: a host's is a [`ClockPage`] over
//! [`Shown`], the session's own is one over [`timeloom_time::Virtual`].
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
mod scale;
mod sync;
mod write;

pub use counter::{CounterKind, ticks_ordered};
pub use layout::{
    ABI_VERSION, ADDRESS_HIGH_HALF, CLOCK_WAS_SET, ClockPage, HOST_OFFSET, IMAGE_ADDRESS,
    IMAGE_LIMIT, KEPT_RANGE, MAGIC, MapCopy, PAGE_ADDRESS, PAGE_SIZE, RELEASED, VDSO_ADDRESS,
    VDSO_BYTES,
};
pub use past::Past;
pub use scale::Shown;
pub use write::PageMap;

// Here and not beside the structures: the model test builds those with atomics of
// another size.
const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<ClockPage<Shown>>() == PAGE_SIZE);
    assert!(offset_of!(ClockPage<Shown>, magic) == 128);
    assert!(offset_of!(ClockPage<Shown>, sequence) == 144);
    assert!(offset_of!(ClockPage<Shown>, host) == HOST_OFFSET);
    assert!(offset_of!(ClockPage<Shown>, session) == 184);
    assert!(offset_of!(ClockPage<Shown>, copies) == 192);
    assert!(size_of::<MapCopy>() == 128);
    assert!(size_of::<Past<Shown>>() == 1024);
};

//! Interface between the supervisor and the image in each guest process: the clock page, which is
//! shared memory that transfers a clock from its writer to its readers, and [`calls`], the table of
//! the system calls that carry time.
//!
//! Each host of a session has one page of 4 KiB. The supervisor maps it for writing; every guest
//! process of the host has it mapped read-only at [`PAGE_ADDRESS`], directly below the image, which
//! is Timeloom's code that serves as the process's vDSO. The page holds one
//! [`timeloom_time::ClockMap`] from the cycle counter to the time on the page, and the offsets from
//! that time to the POSIX clocks.
//!
//! The type parameter of a page is the scale of its time: a host's page is a [`ClockPage`] over
//! [`PageTime`], the session's own page is a [`ClockPage`] over [`timeloom_time::Virtual`].
//!
//! The page is not a channel to the supervisor: readers write nothing to it.
//!
//! **Reading** ([`ClockPage::read`]) takes no lock, uses no thread-local storage and ends even if
//! the writer was killed during a change. **Writing** ([`ClockPage::publish`]) first closes a
//! window, in which readers wait, and reads the counter inside it. So no reader can have computed a
//! value from the old map that is later than the start of the new map: clocks do not step back. If
//! several pages must change at the same instant, the writer closes all of them before it reads the
//! counter once ([`ClockPage::close`], [`ClockPage::open`]).
//!
//! Bytes 0–127 are reserved for the kernel's `vmclock_abi`, which a later version fills for readers
//! in virtual machines; Timeloom's part begins at byte 128.
//!
//! **Callers**: the supervisor (`timeloom-guest`), the image (`timeloom-shim`), the regions of
//! timelines, and benchmarks. The image is linked with this crate, so the crate allocates nothing
//! and has no code that can panic at run time.
#![cfg_attr(not(test), no_std)]

mod arch;
pub mod calls;
mod counter;
mod layout;
mod past;
mod read;
mod scale;
mod sync;
mod write;

pub use counter::{CounterKind, ticks_ordered};
pub use layout::{
    ABI_VERSION, ADDRESS_HIGH_HALF, CLOCK_WAS_SET, ClockPage, ENDS_AT_ONCE, HOST_OFFSET,
    IMAGE_ADDRESS, IMAGE_LIMIT, KEPT_RANGE, MAGIC, MapCopy, NO_DEADLINE, PAGE_ADDRESS, PAGE_SIZE,
    RELEASED, VDSO_ADDRESS, VDSO_BYTES,
};
pub use past::Past;
pub use scale::PageTime;
pub use write::PageMap;

// These checks are not beside the structures, because the model test builds those with atomics of
// another size.
const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<ClockPage<PageTime>>() == PAGE_SIZE);
    assert!(offset_of!(ClockPage<PageTime>, magic) == 128);
    assert!(offset_of!(ClockPage<PageTime>, sequence) == 144);
    assert!(offset_of!(ClockPage<PageTime>, host) == HOST_OFFSET);
    assert!(offset_of!(ClockPage<PageTime>, session) == 184);
    assert!(offset_of!(ClockPage<PageTime>, copies) == 192);
    assert!(size_of::<MapCopy>() == 128);
    assert!(size_of::<Past<PageTime>>() == 1024);
};

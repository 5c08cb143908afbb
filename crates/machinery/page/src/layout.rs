//! Layout of the page, and its address in a process.

use core::marker::PhantomData;
use core::ops::Range;

use timeloom_time::Scale;

use crate::past::Past;
use crate::sync::{AtomicI64, AtomicU32, AtomicU64};

/// Size of the page in bytes.
pub const PAGE_SIZE: usize = 4096;

/// Address of the vDSO that a program finds in its auxiliary vector, in every guest process.
/// The vDSO belongs to the program, which may unmap or move it; its functions only jump to the
/// image. The clock page follows, then the image.
///
/// Fixed, because the seccomp filter lets system calls from inside the image pass by their
/// address, and the filter is inherited by children.
///
/// One address suits the memory layouts of all sanitizers. Each sanitizer refuses to start with a
/// mapping in its shadow memory, or where it expects no program memory:
///
/// - ThreadSanitizer on x86-64 (GCC 12, Clang 14) admits 0x7e80_0000_0000 and above, beside
///   lower ranges, where programs and its own heap lie; later versions admit 0x7c00_0000_0000
///   and above. On 64-bit ARM with 48-bit addresses it admits 0xffff_0000_0000 and above, and
///   so does MemorySanitizer.
/// - MemorySanitizer on x86-64 admits 0x7000_0000_0000 and above; its heap ends below
///   0x7400_0000_0000.
/// - AddressSanitizer's shadow ends at 0x1000_7fff_8000, its heap at 0x6400_0000_0000. The race
///   detector of Go has its shadow below 0x6200_0000_0000.
///
/// Right after an exec the range is free. On x86-64 Linux places the loader and its own vDSO at
/// most 2^28 pages (`vm.mmap_rnd_bits`, the default), the stack's limit and 16 GiB below 2^47:
/// above 0x7efb_0000_0000 with a stack limit of up to a gigabyte, and 492 GiB above this range.
/// Without a limit they lie from 0x2aaa_aaaa_a000 upwards. With 32 bits, the maximum setting, they
/// may be anywhere in 16 TiB, and overlap this range at about a hundred of 2^32 places: such an
/// exec fails with a message. Later mappings avoid the range.
pub const VDSO_ADDRESS: u64 = if cfg!(target_arch = "aarch64") {
    0xffff_0000_0000
} else {
    0x7e80_0000_0000
};

/// Size of that vDSO in bytes: the same as the kernel's.
pub const VDSO_BYTES: u64 = 2 * PAGE_SIZE as u64;

/// Address of the clock page.
pub const PAGE_ADDRESS: u64 = VDSO_ADDRESS + VDSO_BYTES;

/// Address of the image: the functions to which the vDSO leads, and the signal handlers.
pub const IMAGE_ADDRESS: u64 = PAGE_ADDRESS + PAGE_SIZE as u64;

/// Maximum size of the image in bytes; the filter allows exactly this range.
pub const IMAGE_LIMIT: u64 = 0x2_0000;

/// Range that no program may unmap, move, replace or protect: the clock page and the image.
pub const KEPT_RANGE: Range<u64> = PAGE_ADDRESS..IMAGE_ADDRESS + IMAGE_LIMIT;

/// High half of every address of the vDSO, the page and the image. Filters compare halves.
pub const ADDRESS_HIGH_HALF: u32 = (VDSO_ADDRESS >> 32) as u32;

const _: () = assert!(
    (KEPT_RANGE.end >> 32) as u32 == ADDRESS_HIGH_HALF,
    "one half is compared"
);

/// Value read from a timerfd whose clock was set, in place of the number of expirations. The value
/// is only unlikely as such a number, so the reader asks the supervisor.
pub const CLOCK_WAS_SET: u64 = 0x0ca9_ce11;

/// First word of Timeloom's part of the page: "TLCP", little-endian.
pub const MAGIC: u32 = u32::from_le_bytes(*b"TLCP");

/// Incremented whenever the layout changes; image and supervisor must agree.
pub const ABI_VERSION: u32 = 9;

/// Offset of [`ClockPage::host`] in the page.
pub const HOST_OFFSET: usize = 152;

/// Value in place of a [`crate::CounterKind`], on the page of a program that was released from its
/// session: its clocks are the machine's again.
pub const RELEASED: u32 = 3;

/// The clock page, which shows the time `S`. All fields are atomics, because the writer may be
/// writing during a read.
#[repr(C, align(4096))]
pub struct ClockPage<S: Scale> {
    /// Reserved for the kernel's `struct vmclock_abi` (112 bytes) and its padding. Of its fields
    /// only [`Self::disruptions`] is in use.
    pub vmclock: [AtomicU64; 16],
    /// [`MAGIC`].
    pub magic: AtomicU32,
    /// [`ABI_VERSION`].
    pub version: AtomicU32,
    /// A [`crate::CounterKind`], or [`RELEASED`].
    pub counter: AtomicU32,
    /// Index of the copy in force: 0 or 1.
    pub active: AtomicU32,
    /// Even: `copies[active]` is in force. Odd: the writer is about to change the clock, and
    /// readers wait.
    pub sequence: AtomicU32,
    /// Incremented with every published map.
    pub epoch: AtomicU32,
    /// Host of this clock, by the supervisor's number.
    pub host: AtomicU32,
    /// 1 if the clock's rate may change without a kick to waiting threads: its oscillator wanders,
    /// or a daemon adjusts it. Waits then re-read the clock in between.
    pub steered: AtomicU32,
    /// Value of an emulated time-stamp counter at the zero of CLOCK_MONOTONIC_RAW, modulo 2^64.
    /// Neither changes after the start.
    pub tsc0: AtomicU64,
    /// Ticks of that counter per nanosecond of CLOCK_MONOTONIC_RAW in 8.56 fixed point; 0 if
    /// programs read the machine's own counter.
    pub tsc_per_ns_8_56: AtomicU64,
    /// On a page that is [`RELEASED`]: the machine's CLOCK_MONOTONIC minus the time on the page,
    /// which still applies to the deadlines of waits that began in the session.
    pub released_offset_ns: AtomicI64,
    /// Session of the page: a random number for each. 0 on a page that is [`RELEASED`].
    pub session: AtomicU64,
    /// The map in force and its predecessor.
    pub copies: [MapCopy; 2],
    /// If computing takes no virtual time: the nanoseconds that nevertheless passed while programs
    /// computed, plus one. 0 if computing takes time.
    pub computed: AtomicU64,
    /// Time on the page at which the next timer signal is due that was not sent yet; `i64::MAX`:
    /// none. The value may be an instant at which no signal is due any more, but is never too late.
    pub next_signal_ns: AtomicI64,
    /// The machine's CLOCK_REALTIME at the start of the session, as its kernel dates files, in
    /// sessions that show virtual dates of files; 0 in others. Later dates may be the kernel's.
    pub dates_from_ns: AtomicI64,
    /// Past times on the page, line by line.
    pub past: Past<S>,
    /// Scale of the time; occupies no byte of the page.
    pub scale: PhantomData<fn() -> S>,
}

impl<S: Scale> ClockPage<S> {
    /// Number of times that the host began or ceased to run at another rate than its session,
    /// because the host alone was held or slowed. Odd: it does so now, or is about to stop. At the
    /// place of `disruption_marker` in `vmclock_abi`, which has the same meaning.
    #[inline(always)]
    pub fn disruptions(&self) -> &AtomicU64 {
        &self.vmclock[2]
    }
}

/// A map from the counter to the time on the page, in the form for readers.
#[repr(C, align(64))]
pub struct MapCopy {
    /// Counter at the start of the line, in ticks.
    pub counter0: AtomicU64,
    /// Time on the page at the start of the line, in nanoseconds since the session began.
    pub shown0_ns: AtomicI64,
    /// Nanoseconds shown per tick in 8.56 fixed point; 0 when paused. 8 integer bits allow a 10 MHz
    /// counter at a dilation of 0.4; 56 fractional bits err by less than 0.1 ns per second at 4
    /// GHz.
    pub rate_8_56: AtomicU64,
    /// Length of the line, in nanoseconds after `shown0_ns`: at its end the clock stops until the
    /// next map is published. `i64::MAX`: unlimited.
    pub most_ns: AtomicI64,
    /// CLOCK_REALTIME = time on the page + this.
    pub realtime_offset_ns: AtomicI64,
    /// CLOCK_MONOTONIC = time on the page + this.
    pub monotonic_offset_ns: AtomicI64,
    /// CLOCK_BOOTTIME = time on the page + this.
    pub boottime_offset_ns: AtomicI64,
    /// CLOCK_TAI = time on the page + this.
    pub tai_offset_ns: AtomicI64,
    /// CLOCK_MONOTONIC_RAW at `counter0`.
    pub raw0_ns: AtomicI64,
    /// Nanoseconds of CLOCK_MONOTONIC_RAW per tick, as `rate_8_56`.
    pub raw_rate_8_56: AtomicU64,
    /// Length of its line after `raw0_ns`, as `most_ns`.
    pub raw_most_ns: AtomicI64,
    /// Wall nanoseconds per nanosecond shown in 32.32 fixed point, rounded up. Converts a wait to a
    /// kernel timeout. While paused, the value after the pause, so that a wait that begins during
    /// the pause has an end.
    pub wall_per_shown_32_32: AtomicU64,
}

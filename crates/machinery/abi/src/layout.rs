//! Layout of the page, and its address in a process.

use core::marker::PhantomData;
use core::ops::Range;

use timeloom_time::Scale;

use crate::past::Past;
use crate::sync::{AtomicI64, AtomicU32, AtomicU64};

/// Size of the page in bytes.
pub const PAGE_SIZE: usize = 4096;

/// Address, in every guest process, of the vDSO that a program finds in its auxiliary vector. The
/// vDSO belongs to the program, which may unmap or move it; its functions only jump to the image
/// (Timeloom's code in the process). The clock page follows the vDSO, then the image.
///
/// The address is fixed, because the seccomp filter lets system calls from inside the image pass by
/// their address, and child processes inherit the filter.
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
/// Right after an exec the range is free. On x86-64 Linux places the loader and its own vDSO below
/// 2^47: at most 2^28 pages (`vm.mmap_rnd_bits`, the default), the stack's limit and 16 GiB below
/// it. With a stack limit of up to a gigabyte, they lie above 0x7efb_0000_0000, which is 492 GiB
/// above this range. With an unlimited stack they lie from 0x2aaa_aaaa_a000 upwards. If
/// `vm.mmap_rnd_bits` is 32, the maximum, they may lie anywhere in 16 TiB, and overlap this range
/// at about a hundred of 2^32 places: such an exec fails with a message. Later mappings avoid the
/// range.
pub const VDSO_ADDRESS: u64 = if cfg!(target_arch = "aarch64") {
    0xffff_0000_0000
} else {
    0x7e80_0000_0000
};

/// Size in bytes of the vDSO at [`VDSO_ADDRESS`]: the same as that of the kernel's vDSO.
pub const VDSO_BYTES: u64 = 2 * PAGE_SIZE as u64;

/// Address of the clock page.
pub const PAGE_ADDRESS: u64 = VDSO_ADDRESS + VDSO_BYTES;

/// Address of the image: the functions to which the vDSO jumps, and the signal handlers.
pub const IMAGE_ADDRESS: u64 = PAGE_ADDRESS + PAGE_SIZE as u64;

/// Maximum size of the image in bytes. The seccomp filter lets calls from exactly this range pass.
pub const IMAGE_LIMIT: u64 = 0x2_0000;

/// Range that no program may unmap, move, replace or protect: the clock page and the image.
pub const KEPT_RANGE: Range<u64> = PAGE_ADDRESS..IMAGE_ADDRESS + IMAGE_LIMIT;

/// High 32 bits of every address of the vDSO, the page and the image. Seccomp filters compare the
/// two halves of an address separately.
pub const ADDRESS_HIGH_HALF: u32 = (VDSO_ADDRESS >> 32) as u32;

const _: () = assert!(
    (KEPT_RANGE.end >> 32) as u32 == ADDRESS_HIGH_HALF,
    "one half is compared"
);

/// Value that a read of a timerfd returns, in place of the number of expirations, if its clock was
/// set. A timer may have expired exactly that often, though this is unlikely, so the reader asks
/// the supervisor.
pub const CLOCK_WAS_SET: u64 = 0x0ca9_ce11;

/// Value of [`ClockPage::magic`]: "TLCP", little-endian.
pub const MAGIC: u32 = u32::from_le_bytes(*b"TLCP");

/// Version of the page's layout. Incremented whenever the layout changes; the image and the
/// supervisor must agree.
pub const ABI_VERSION: u32 = 10;

/// Offset of [`ClockPage::host`] in the page, in bytes.
pub const HOST_OFFSET: usize = 152;

/// Deadline of a waiting thread whose wait has no deadline. While a thread waits, its deadline in
/// nanoseconds of page time is at the top of its stack.
pub const NO_DEADLINE: i64 = i64::MAX;

/// Deadline of a waiting thread whose deadline has passed: the kernel is about to end the wait,
/// whose timeout is zero. Until its timer has done so, the thread sleeps and yet is not idle.
pub const ENDS_AT_ONCE: i64 = i64::MIN;

/// Value of [`ClockPage::counter`], in place of a [`crate::CounterKind`], in a program that was
/// released from its session. Its clocks are the machine's again.
pub const RELEASED: u32 = 3;

/// The clock page, which shows the time of scale `S`. All fields are atomics, because the writer
/// may change them during a read.
#[repr(C, align(4096))]
pub struct ClockPage<S: Scale> {
    /// Reserved for the kernel's `struct vmclock_abi` (112 bytes) and its padding. Only the field
    /// that [`Self::disruptions`] returns is in use.
    pub vmclock: [AtomicU64; 16],
    /// Always [`MAGIC`].
    pub magic: AtomicU32,
    /// Always [`ABI_VERSION`].
    pub version: AtomicU32,
    /// Counter of the page: a [`crate::CounterKind`], or [`RELEASED`].
    pub counter: AtomicU32,
    /// Index in `copies` of the map in force: 0 or 1.
    pub active: AtomicU32,
    /// Even: `copies[active]` is in force. Odd: the writer is about to change the clock, and
    /// readers wait.
    pub sequence: AtomicU32,
    /// Number of published maps, modulo 2^32.
    pub epoch: AtomicU32,
    /// Number of the host that has this clock, as the supervisor numbers hosts.
    pub host: AtomicU32,
    /// 1 if the clock's rate may change without an interrupt to waiting threads, because its
    /// oscillator wanders or a daemon adjusts the clock. Waiting threads then re-read the clock
    /// during a wait.
    pub steered: AtomicU32,
    /// Value, modulo 2^64, that an emulated time-stamp counter has at the zero of
    /// CLOCK_MONOTONIC_RAW. Neither this field nor `tsc_per_ns_8_56` changes after the start.
    pub tsc0: AtomicU64,
    /// Ticks of the emulated time-stamp counter per nanosecond of CLOCK_MONOTONIC_RAW, in 8.56
    /// fixed point. 0 if programs read the machine's own counter.
    pub tsc_per_ns_8_56: AtomicU64,
    /// On a [`RELEASED`] page: the machine's CLOCK_MONOTONIC minus the time on the page, in
    /// nanoseconds. Waits that began in the session have their deadlines in page time.
    pub released_offset_ns: AtomicI64,
    /// Random number that identifies the session of the page. 0 on a [`RELEASED`] page.
    pub session: AtomicU64,
    /// The map in force and its predecessor. `active` is the index of the former.
    pub copies: [MapCopy; 2],
    /// In sessions in which computing takes no virtual time: one plus the nanoseconds that
    /// nevertheless passed while programs computed. 0 in all other sessions.
    pub computed: AtomicU64,
    /// Page time at which the next unsent timer signal is due; `i64::MAX` if there is none. The
    /// value may be an instant at which no signal is due any more, but is never too late.
    pub next_signal_ns: AtomicI64,
    /// In sessions that show virtual dates of files: the machine's CLOCK_REALTIME at the start of
    /// the session, as the kernel dates files, in nanoseconds since 1970. The kernel may have set
    /// any date after it. 0 in all other sessions.
    pub dates_from_ns: AtomicI64,
    /// 1 if the host has a network card of the model, whose clock stamps frames. Does not change
    /// while the host has programs.
    pub card: AtomicU64,
    /// Recent past of the page's clock: one line between any two of its changes.
    pub past: Past<S>,
    /// Scale of the time; occupies no byte of the page.
    pub scale: PhantomData<fn() -> S>,
}

impl<S: Scale> ClockPage<S> {
    /// Returns the number of times that the host began or ceased to run at another rate than its
    /// session, because the host alone was held or slowed. If the number is odd, the host does so
    /// now, or is about to stop. The field is at the place of `disruption_marker` in `vmclock_abi`,
    /// which has the same meaning.
    #[inline(always)]
    pub fn disruptions(&self) -> &AtomicU64 {
        &self.vmclock[2]
    }
}

/// A map from the counter to the time on the page, in the form that readers use. The map is linear:
/// a *line*.
#[repr(C, align(64))]
pub struct MapCopy {
    /// Counter at the start of the line, in ticks.
    pub counter0: AtomicU64,
    /// Time on the page at the start of the line, in nanoseconds since the session began.
    pub shown0_ns: AtomicI64,
    /// Nanoseconds of page time per tick, in 8.56 fixed point; 0 while paused. 8 integer bits allow
    /// a 10 MHz counter at a dilation of 0.4; 56 fractional bits err by less than 0.1 ns per second
    /// at 4 GHz.
    pub rate_8_56: AtomicU64,
    /// Length of the line, in nanoseconds after `shown0_ns`: at its end the clock stops until the
    /// next map is published. `i64::MAX`: unlimited.
    pub most_ns: AtomicI64,
    /// CLOCK_REALTIME minus the time on the page, in nanoseconds.
    pub realtime_offset_ns: AtomicI64,
    /// CLOCK_MONOTONIC minus the time on the page, in nanoseconds.
    pub monotonic_offset_ns: AtomicI64,
    /// CLOCK_BOOTTIME minus the time on the page, in nanoseconds.
    pub boottime_offset_ns: AtomicI64,
    /// CLOCK_TAI minus the time on the page, in nanoseconds.
    pub tai_offset_ns: AtomicI64,
    /// CLOCK_MONOTONIC_RAW at `counter0`, in nanoseconds.
    pub raw0_ns: AtomicI64,
    /// Nanoseconds of CLOCK_MONOTONIC_RAW per tick, in the format of `rate_8_56`.
    pub raw_rate_8_56: AtomicU64,
    /// Length of the line of CLOCK_MONOTONIC_RAW, in nanoseconds after `raw0_ns`; otherwise like
    /// `most_ns`.
    pub raw_most_ns: AtomicI64,
    /// Wall nanoseconds per nanosecond of page time, in 32.32 fixed point, rounded up. Converts the
    /// length of a wait to a kernel timeout. While paused, this is the value after the pause, so
    /// that a wait that begins during the pause has an end.
    pub wall_per_shown_32_32: AtomicU64,
}

//! Packet timestamps, which the kernel returns in ancillary messages.
//!
//! The kernel stamps a packet with the machine's CLOCK_REALTIME on arrival or departure, and a
//! program compares the stamp with the virtual clock that it reads. After each `recvmsg` the image
//! therefore converts the stamps in the control buffer to the virtual CLOCK_REALTIME at the instant
//! of the stamp.
//!
//! Stamps by a real network card's own clock stay unchanged. A card of the model stamps frames on
//! hosts that have one (`card.rs`).

use crate::abi::{MessageHeader, NS_PER_S, Timespec};
use crate::card::{self, Message, Patience};
use timeloom_time::Instant;

use crate::clock::{machine_realtime_ns, monotonic_ns, now_ns, page, realtime_ns_at};
use crate::sys::{nr, syscall};

/// Handles `ioctl(fd, command, stamp)` that returns the time of a socket's last packet. Since
/// `ioctl` is one call, this also receives the commands of hardware clocks.
pub(crate) fn ioctl(args: [usize; 6]) -> isize {
    let unit_ns = match args[1] as u32 {
        SIOCGSTAMP | SIOCGSTAMP_NEW => 1_000,
        SIOCGSTAMPNS | SIOCGSTAMPNS_NEW => 1,
        _ => return crate::phc::ioctl(args),
    };
    // SAFETY: the program's own call; the kernel checks the pointer.
    let result = unsafe { syscall(nr::IOCTL, args) };
    if result == 0 {
        // SAFETY: the kernel has just written there.
        unsafe { translate_one(args[2] as *mut Timespec, unit_ns) };
    }
    result
}

/// Converts a reading of the machine's CLOCK_REALTIME to the virtual CLOCK_REALTIME at that
/// instant, both in nanoseconds. The result is never later than the present virtual time.
pub(crate) fn shown_ns(machine_ns: i64) -> i64 {
    let ahead_ns = realtime_ahead_ns(|| {
        let before_ns = monotonic_ns() as i64;
        let realtime_ns = machine_realtime_ns();
        [before_ns, realtime_ns, monotonic_ns() as i64]
    });
    let wall = Instant::from_ns(machine_ns.wrapping_sub(ahead_ns));
    let realtime_ns = realtime_ns_at(page().past.at(wall));
    // The readings above are not simultaneous, so the result is limited to the present time.
    let now_ns = now_ns(0).unwrap_or(realtime_ns);
    if realtime_ns < now_ns {
        realtime_ns
    } else {
        now_ns
    }
}

/// Returns the machine's CLOCK_REALTIME minus its CLOCK_MONOTONIC, in nanoseconds. `read_ns` reads
/// one of them between two readings of the other. The thread may have been stopped between these
/// readings, so they are repeated until they are close together; the closest are used.
fn realtime_ahead_ns(read_ns: impl Fn() -> [i64; 3]) -> i64 {
    let (mut closest_ns, mut ahead_ns) = (u64::MAX, 0);
    for _ in 0..TRIES {
        let [before_ns, realtime_ns, after_ns] = read_ns();
        let apart_ns = after_ns.wrapping_sub(before_ns) as u64;
        if apart_ns < closest_ns {
            closest_ns = apart_ns;
            let middle_ns = before_ns.wrapping_add((apart_ns / 2) as i64);
            ahead_ns = realtime_ns.wrapping_sub(middle_ns);
        }
        if closest_ns <= CLOSE_NS {
            break;
        }
    }
    ahead_ns
}

const TRIES: u32 = 10;
/// Maximum distance in nanoseconds of readings that are accepted without another try. Undisturbed,
/// the three system calls take a few hundred nanoseconds.
const CLOSE_NS: u64 = 2_000;

/// Completes and converts the stamps in the ancillary messages of a successful `recvmsg`. On a host
/// with a card this may wait, in virtual time.
///
/// # Safety
/// The kernel must have just filled the header at this address, with success.
pub(crate) unsafe fn translate(header: usize, received: Message) {
    // SAFETY: guaranteed by the caller.
    let header = unsafe { (header as *const MessageHeader).read_unaligned() };
    if page().has_card() {
        let mut patience = Patience::new();
        // The wait is made here, since the stack is deeper where the messages are read.
        // SAFETY: the kernel has written these messages, and received a message into the header.
        while unsafe { !complete(&header, received, patience.is_over()) } {
            patience.sleep();
        }
    }
    // SAFETY: as above.
    unsafe { convert(&header) };
}

/// Converts the stamps by the machine's clock. It is no part of its caller, whose stack would
/// otherwise be deeper during the wait.
///
/// # Safety
/// The same as for [`translate`].
#[inline(never)]
unsafe fn convert(header: &MessageHeader) {
    let one = |kind: i32, at: usize, _: usize| {
        let unit_ns = match kind {
            SO_TIMESTAMP | SO_TIMESTAMP_NEW => 1_000,
            // The first of three stamps is the kernel's; the others are a card's.
            SO_TIMESTAMPNS | SO_TIMESTAMPNS_NEW | SO_TIMESTAMPING | SO_TIMESTAMPING_NEW => 1,
            _ => return true,
        };
        // SAFETY: the message holds at least these 16 bytes.
        unsafe { translate_one(at as *mut Timespec, unit_ns) };
        true
    };
    // SAFETY: guaranteed by the caller.
    unsafe { for_each(header, one) };
}

/// Completes stamps of three by a card's. Returns false if a stamp cannot be told yet; nothing has
/// been changed then. It is no part of its caller for the same reason as [`convert`].
///
/// # Safety
/// The same as for [`translate`].
#[inline(never)]
unsafe fn complete(header: &MessageHeader, received: Message, is_last: bool) -> bool {
    let one = |kind: i32, at: usize, length: usize| match kind {
        SO_TIMESTAMPING | SO_TIMESTAMPING_NEW if length >= STAMPS_BYTES => {
            // SAFETY: the message holds at least these bytes.
            unsafe { card::complete(at as *mut [Timespec; 3], header, received, is_last) }
        }
        _ => true,
    };
    // SAFETY: guaranteed by the caller.
    unsafe { for_each(header, one) }
}

/// Calls `act` with kind, address and length of the data of each message of the socket level that
/// has room for a stamp, until `act` returns false. Returns false in that case.
///
/// # Safety
/// The kernel must have just written the messages.
unsafe fn for_each(header: &MessageHeader, mut act: impl FnMut(i32, usize, usize) -> bool) -> bool {
    let end = header.control.wrapping_add(header.control_length);
    let mut at = header.control;
    while at != 0 && end.wrapping_sub(at) as isize >= HEADER_BYTES as isize {
        // SAFETY: the address is within the bytes written by the kernel.
        let message = unsafe { (at as *const ControlHeader).read_unaligned() };
        let length = message.length;
        if length < HEADER_BYTES || length > end.wrapping_sub(at) {
            break;
        }
        let is_stamp = message.level == SOL_SOCKET && length >= HEADER_BYTES + 16;
        if is_stamp && !act(message.kind, at + HEADER_BYTES, length - HEADER_BYTES) {
            return false;
        }
        at = at.wrapping_add((length + 7) & !7);
    }
    true
}

/// Converts one stamp of the machine's CLOCK_REALTIME. `unit_ns` is the unit of its second field,
/// in nanoseconds.
///
/// # Safety
/// `stamp` must be readable and writable.
unsafe fn translate_one(stamp: *mut Timespec, unit_ns: i64) {
    // SAFETY: guaranteed by the caller.
    let given = unsafe { stamp.read_unaligned() };
    if given.s == 0 && given.ns == 0 {
        return; // "not stamped"
    }
    let stamp_ns = given
        .s
        .wrapping_mul(NS_PER_S)
        .wrapping_add(given.ns.wrapping_mul(unit_ns));
    let shown = Timespec::from_ns(shown_ns(stamp_ns));
    // SAFETY: as above.
    unsafe {
        stamp.write_unaligned(Timespec {
            s: shown.s,
            ns: shown.ns / unit_ns,
        });
    }
}

/// Header of an ancillary message: `struct cmsghdr`.
#[derive(Clone, Copy)]
#[repr(C)]
struct ControlHeader {
    length: usize,
    level: i32,
    kind: i32,
}

const HEADER_BYTES: usize = size_of::<ControlHeader>();
const STAMPS_BYTES: usize = size_of::<[Timespec; 3]>();
const SOL_SOCKET: i32 = 1;
const SIOCGSTAMP: u32 = 0x8906;
const SIOCGSTAMPNS: u32 = 0x8907;
const SIOCGSTAMP_NEW: u32 = 0x8010_8906;
const SIOCGSTAMPNS_NEW: u32 = 0x8010_8907;
const SO_TIMESTAMP: i32 = 29;
const SO_TIMESTAMPNS: i32 = 35;
const SO_TIMESTAMPING: i32 = 37;
const SO_TIMESTAMP_NEW: i32 = 63;
const SO_TIMESTAMPNS_NEW: i32 = 64;
const SO_TIMESTAMPING_NEW: i32 = 65;

//! Network card of the model: its clock, which programs open as `/dev/ptp0`, and its stamps.
//!
//! The card belongs to the model of the network. The supervisor has its clock, and knows the instant
//! of the model at which each frame passed the card. The kernel knows none of this: its interface
//! has no clock and gives no hardware stamps. The image therefore lets the kernel stamp every frame
//! of a socket for which hardware stamps are requested, and asks the supervisor for the card's stamp
//! of each frame that the program receives.
//!
//! These functions are called only on hosts with such a card.

use timeloom_abi::calls::ImageCall;

use crate::abi::{MessageHeader, Timespec};
use crate::sleep::sleep_until;
use crate::sys::{ask, errno, nr, readable, syscall};
use crate::wait::Deadline;

/// Handles `open(path, flags, mode)`, `openat(directory, path, flags, mode)` and
/// `openat2(directory, path, how, size)`.
pub(crate) fn open(call: usize, args: [usize; 6]) -> isize {
    let is_relative = call == nr::OPENAT || call == nr::OPENAT2;
    let (path, flags) = match is_relative {
        true => (args[1], args[2]),
        false => (args[0], args[1]),
    };
    if is_card(path) {
        let flags = match call == nr::OPENAT2 {
            false => flags as u32 as u64,
            true if !readable(flags, 8) => return errno::EFAULT,
            // SAFETY: the kernel has just read the beginning of the `struct open_how`.
            true => unsafe { (flags as *const u64).read_unaligned() },
        };
        return ask(ImageCall::OpenCard { flags });
    }
    // SAFETY: the program's own call; the kernel checks the pointers.
    unsafe { syscall(call, args) }
}

/// Returns true if the path is that of the card's clock.
fn is_card(path: usize) -> bool {
    if !readable(path, PATH.len()) {
        return false;
    }
    // SAFETY: the kernel has just read both ends of these bytes.
    let given = unsafe { (path as *const [u8; PATH.len()]).read_unaligned() };
    given == *PATH
}

/// Handles `clock_gettime(id, out)` of a clock that the kernel does not know.
pub(crate) fn clock_gettime(clock: u32, time: *mut Timespec) -> isize {
    let time = time as usize;
    ask(ImageCall::CardTime { clock, time })
}

/// Handles an `ioctl` of the card or of its clock. Returns `None` if it is for something else.
pub(crate) fn ioctl(args: [usize; 6]) -> Option<isize> {
    let result = ask(ImageCall::CardIoctl {
        descriptor: args[0] as i32,
        command: args[1] as u32,
        argument: args[2],
    });
    (result != errno::ENOTTY).then_some(result)
}

/// Sets SO_TIMESTAMPING of a socket. With hardware stamps, the kernel must also give its own, by
/// which the supervisor finds the frame.
pub(crate) fn set_stamping(args: [usize; 6]) -> isize {
    let [fd, level, option, value, length, _] = args;
    let is_whole = (4..=8).contains(&length) && readable(value, 8);
    let mut words = [0u32; 2];
    if is_whole {
        // SAFETY: the kernel has just read these bytes.
        words = unsafe { (value as *const [u32; 2]).read_unaligned() };
    }
    let given = words[0];
    if !is_whole || given & HARDWARE == 0 {
        // SAFETY: the program's own call; the kernel checks the pointer.
        return unsafe { syscall(nr::SETSOCKOPT, args) };
    }
    // The flag of the kernel's own stamps follows that of hardware stamps.
    let mut flags = given | (given & TX_HARDWARE) << 1 | (given & RX_HARDWARE) << 1;
    if given & RAW_HARDWARE != 0 {
        flags |= SOFTWARE;
        if given & SOFTWARE == 0 {
            flags |= ONLY_HARDWARE;
        }
    }
    words[0] = flags;
    let args = [fd, level, option, words.as_ptr() as usize, length, 0];
    // SAFETY: the structure is on the stack.
    unsafe { syscall(nr::SETSOCKOPT, args) }
}

/// Received message, of which the image completes the stamps.
#[derive(Clone, Copy)]
pub(crate) struct Message {
    pub(crate) fd: usize,
    pub(crate) flags: usize,
    /// Number of bytes of data that were received.
    pub(crate) length: usize,
}

/// Completes the three stamps at this address, of which the kernel has written the first: the third
/// becomes the card's. Returns false, without a change, if a sent frame has not left yet, unless
/// `is_last`.
///
/// # Safety
/// The kernel must have just written the stamps, and received a message into `header`.
pub(crate) unsafe fn complete(
    stamps: *mut [Timespec; 3],
    header: &MessageHeader,
    message: Message,
    is_last: bool,
) -> bool {
    let flags = stamping(message.fd);
    if flags & RAW_HARDWARE == 0 {
        return true;
    }
    // SAFETY: guaranteed by the caller.
    let mut given = unsafe { stamps.read_unaligned() };
    let mut length = 0;
    let mut data = 0;
    if header.part_count > 0 {
        // SAFETY: the kernel has just read the parts.
        let part = unsafe { (header.parts as *const [usize; 2]).read_unaligned() };
        data = part[0];
        length = part[1].min(message.length);
    }
    let is_sent = message.flags & MSG_ERRQUEUE != 0;
    // Several messages about one frame cannot be told apart here, and one of them would get the
    // stamp of another.
    let is_ambiguous = is_sent && flags & (TX_SCHED | TX_ACK) != 0;
    let shown_ns = match is_ambiguous {
        true => 0,
        false => ask(ImageCall::CardStamp {
            kernel_ns: given[0].to_ns().unwrap_or(0),
            data,
            length,
            is_sent,
        }),
    };
    if shown_ns == errno::EAGAIN && !is_last {
        return false;
    }
    if shown_ns > 0 {
        given[2] = Timespec::from_ns(shown_ns as i64);
    }
    if flags & ONLY_HARDWARE != 0 {
        given[0] = Timespec { s: 0, ns: 0 };
    }
    // SAFETY: as above.
    unsafe { stamps.write_unaligned(given) };
    true
}

/// Wait, in virtual time, for the departure of a sent frame.
pub(crate) struct Patience {
    step_ns: i64,
    waited_ns: i64,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self {
            step_ns: FIRST_STEP_NS,
            waited_ns: 0,
        }
    }

    /// Returns true if the frame is not waited for any longer.
    pub(crate) fn is_over(&self) -> bool {
        self.waited_ns >= LONGEST_WAIT_NS
    }

    /// Sleeps before the next question. A handler that runs meanwhile does not end the wait: the
    /// message was received.
    pub(crate) fn sleep(&mut self) {
        sleep_until(Deadline::after_ns(self.step_ns));
        self.waited_ns += self.step_ns;
        self.step_ns = (self.step_ns + self.step_ns).min(LONGEST_STEP_NS);
    }
}

/// Returns the flags of SO_TIMESTAMPING of a socket.
fn stamping(fd: usize) -> u32 {
    let (mut flags, mut length) = (0u32, 4u32);
    let args = [
        fd,
        SOL_SOCKET,
        SO_TIMESTAMPING,
        &raw mut flags as usize,
        &raw mut length as usize,
        0,
    ];
    // SAFETY: the call writes four bytes into `flags`.
    match unsafe { syscall(nr::GETSOCKOPT, args) } {
        0 => flags,
        _ => 0,
    }
}

/// First and longest virtual time between two questions for the stamp of a sent frame.
const FIRST_STEP_NS: i64 = 1_000;
const LONGEST_STEP_NS: i64 = 1_000_000;
/// Virtual time after which a sent frame has no stamp. A frame that never reaches the card, as one
/// to the host itself, would otherwise be waited for without end.
const LONGEST_WAIT_NS: i64 = 1_000_000_000;
/// Path of the card's clock, with the zero at its end.
const PATH: &[u8; 10] = b"/dev/ptp0\0";
const SOL_SOCKET: usize = 1;
const SO_TIMESTAMPING: usize = 37;
const MSG_ERRQUEUE: usize = 0x2000;
// Flags of SO_TIMESTAMPING (linux/net_tstamp.h).
const TX_HARDWARE: u32 = 1;
const RX_HARDWARE: u32 = 1 << 2;
const SOFTWARE: u32 = 1 << 4;
/// SOF_TIMESTAMPING_SYS_HARDWARE, which kernels ignore. The image sets it if the program wants no
/// stamps of the kernel.
const ONLY_HARDWARE: u32 = 1 << 5;
const RAW_HARDWARE: u32 = 1 << 6;
const TX_SCHED: u32 = 1 << 8;
const TX_ACK: u32 = 1 << 9;
const HARDWARE: u32 = TX_HARDWARE | RX_HARDWARE | RAW_HARDWARE;

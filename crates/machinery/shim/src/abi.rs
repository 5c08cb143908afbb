//! The kernel's structures, with those fields that the image uses.

/// Nanoseconds in a second.
pub(crate) const NS_PER_S: i64 = 1_000_000_000;

/// `struct timespec` of a 64-bit process.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Timespec {
    pub(crate) s: i64,
    pub(crate) ns: i64,
}

impl Timespec {
    /// Converts nanoseconds, which must not be negative.
    pub(crate) fn from_ns(ns: i64) -> Self {
        Self::from_unsigned_ns(if ns < 0 { 0 } else { ns as u64 })
    }

    /// Converts unsigned nanoseconds.
    #[inline(always)]
    pub(crate) fn from_unsigned_ns(ns: u64) -> Self {
        Self {
            s: (ns / NS_PER_S as u64) as i64,
            ns: (ns % NS_PER_S as u64) as i64,
        }
    }

    /// Converts to nanoseconds; saturates. Returns `None` for values that the kernel rejects.
    pub(crate) fn to_ns(self) -> Option<i64> {
        if self.s < 0 || self.ns < 0 || self.ns >= NS_PER_S {
            return None;
        }
        Some(self.s.saturating_mul(NS_PER_S).saturating_add(self.ns))
    }

    /// Reads a `struct timespec` of the program. Returns `None` if the memory is not readable.
    pub(crate) fn load(address: usize) -> Option<Self> {
        if !crate::sys::readable(address, 16) {
            return None;
        }
        // SAFETY: the kernel has just read both ends of it; a program that unmaps it concurrently
        // from another thread causes its own fault.
        Some(unsafe { (address as *const Self).read_unaligned() })
    }
}

/// Header of a message of `sendmsg` and `recvmsg`: `struct msghdr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct MessageHeader {
    name: usize,
    name_length: usize,
    /// Address of the `struct iovec`s; their number follows.
    pub(crate) parts: usize,
    pub(crate) part_count: usize,
    /// Address of the ancillary messages; their total length in bytes follows.
    pub(crate) control: usize,
    pub(crate) control_length: usize,
    flags: usize,
}

const _: () = assert!(size_of::<MessageHeader>() == 56);

impl MessageHeader {
    /// Returns a header for these parts, without a name and ancillary messages.
    pub(crate) fn of_parts(parts: usize, part_count: usize) -> Self {
        Self {
            name: 0,
            name_length: 0,
            parts,
            part_count,
            control: 0,
            control_length: 0,
            flags: 0,
        }
    }
}

/// Descriptor with its events, for `ppoll`: `struct pollfd`.
#[repr(C)]
pub(crate) struct PollFd {
    pub(crate) fd: i32,
    pub(crate) events: i16,
    pub(crate) revents: i16,
}

/// Information about a SIGSYS: the beginning of its `siginfo_t`.
#[repr(C)]
pub(crate) struct SignalInfo {
    pub(crate) signal: i32,
    pub(crate) errno: i32,
    pub(crate) code: i32,
    padding: i32,
    /// Address of the trapping instruction. In a signal that a process sent, process and user of
    /// the sender.
    pub(crate) call_address: usize,
    /// Number of the trapped system call.
    pub(crate) call: i32,
    architecture: u32,
}

/// `si_code` of a SIGSYS raised by a seccomp filter.
pub(crate) const SYS_SECCOMP: i32 = 1;

/// `si_code` of a signal sent by `kill`.
pub(crate) const SI_USER: i32 = 0;

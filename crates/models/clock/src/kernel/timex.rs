//! Types and constants of adjtimex(2).

/// `struct timex` as used by a kernel without PPS. Every field has the kernel's unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timex {
    /// Fields that the call changes: bits of [`modes`].
    pub modes: u32,
    /// Phase offset that remains to be slewed, in ns with [`status::NANO`] and in µs without. For
    /// the modes of adjtime(3): the remaining slew, in µs.
    pub offset: i64,
    /// Frequency offset in ppm, with 16 fractional bits.
    pub freq: i64,
    /// Maximum error, in µs.
    pub maxerror: i64,
    /// Estimated error, in µs.
    pub esterror: i64,
    /// Bits of [`status`].
    pub status: i32,
    /// Time constant of the phase-locked loop; with [`modes::TAI`], TAI minus UTC in seconds.
    pub constant: i64,
    /// Precision of the clock in µs; read only.
    pub precision: i64,
    /// Greatest frequency offset, in the unit of `freq`; read only.
    pub tolerance: i64,
    /// Seconds of CLOCK_REALTIME, or of the step with [`modes::SETOFFSET`].
    pub time_s: i64,
    /// Fraction of that second: in ns with [`status::NANO`] ([`modes::NANO`] for a step), in µs
    /// without.
    pub time_part: i64,
    /// Length of a hundredth of a second, in µs; changes the clock's rate.
    pub tick: i64,
    /// TAI minus UTC, in seconds; read only.
    pub tai: i32,
}

/// Bits of [`Timex::modes`].
pub mod modes {
    #![allow(missing_docs, reason = "the names are those of adjtimex(2)")]
    pub const OFFSET: u32 = 0x0001;
    pub const FREQUENCY: u32 = 0x0002;
    pub const MAXERROR: u32 = 0x0004;
    pub const ESTERROR: u32 = 0x0008;
    pub const STATUS: u32 = 0x0010;
    pub const TIMECONST: u32 = 0x0020;
    pub const TAI: u32 = 0x0080;
    pub const SETOFFSET: u32 = 0x0100;
    pub const MICRO: u32 = 0x1000;
    pub const NANO: u32 = 0x2000;
    pub const TICK: u32 = 0x4000;
    /// Single-shot slew of adjtime(3); only in combination with [`OFFSET`].
    pub const ADJTIME: u32 = 0x8000;
    /// With [`ADJTIME`]: the call only reads the remaining slew.
    pub const OFFSET_READONLY: u32 = 0x2000;
}

/// Bits of [`Timex::status`].
pub mod status {
    #![allow(missing_docs, reason = "the names are those of adjtimex(2)")]
    pub const PLL: i32 = 0x0001;
    pub const FLL: i32 = 0x0008;
    pub const INS: i32 = 0x0010;
    pub const DEL: i32 = 0x0020;
    pub const UNSYNC: i32 = 0x0040;
    pub const FREQHOLD: i32 = 0x0080;
    pub const CLOCKERR: i32 = 0x1000;
    pub const NANO: i32 = 0x2000;
    /// Set by the kernel while the frequency-locked loop is in use.
    pub const MODE: i32 = 0x4000;
    /// Bits that a call cannot change.
    pub const READ_ONLY: i32 = 0xff00;
}

/// Return values of the system calls: the state of the leap second, or "not synchronised".
pub mod state {
    #![allow(missing_docs, reason = "the names are those of adjtimex(2)")]
    pub const OK: i32 = 0;
    pub const INS: i32 = 1;
    pub const DEL: i32 = 2;
    pub const OOP: i32 = 3;
    pub const WAIT: i32 = 4;
    pub const ERROR: i32 = 5;
}

/// Error of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errno {
    /// EINVAL: an argument is invalid.
    Invalid,
    /// EPERM: the caller is not privileged.
    NotPermitted,
}

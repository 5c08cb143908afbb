//! Types and constants of adjtimex(2).

/// `struct timex`, as used by a kernel without PPS. Every number is in the kernel's unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timex {
    /// Fields to change: bits of [`modes`].
    pub modes: u32,
    /// Phase still to be slewed, in ns with [`status::NANO`], else µs. For the single-shot modes:
    /// the remaining slew, in µs.
    pub offset: i64,
    /// Frequency offset in ppm, 16 bits of fraction.
    pub freq: i64,
    /// Error bound in µs.
    pub maxerror: i64,
    /// Estimated error in µs.
    pub esterror: i64,
    /// Bits of [`status`].
    pub status: i32,
    /// Time constant of the loop; TAI minus UTC for [`modes::TAI`].
    pub constant: i64,
    /// Precision in µs; read only.
    pub precision: i64,
    /// Largest frequency offset, as `freq`; read only.
    pub tolerance: i64,
    /// CLOCK_REALTIME, or the step for [`modes::SETOFFSET`]: seconds.
    pub time_s: i64,
    /// Fraction of that second, in ns with [`status::NANO`] ([`modes::NANO`] for the step), else
    /// µs.
    pub time_part: i64,
    /// Length of a hundredth of a second in µs.
    pub tick: i64,
    /// TAI minus UTC in seconds; read only.
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
    /// The slew of adjtime(3); not without [`OFFSET`].
    pub const ADJTIME: u32 = 0x8000;
    /// With [`ADJTIME`]: only reads the remaining slew.
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
    /// Set while the frequency-locked loop is active.
    pub const MODE: i32 = 0x4000;
    /// Bits that only the kernel sets.
    pub const READ_ONLY: i32 = 0xff00;
}

/// Return values of the calls: the state of the leap second, or that the clock is not synchronised.
pub mod state {
    #![allow(missing_docs, reason = "the names are those of adjtimex(2)")]
    pub const OK: i32 = 0;
    pub const INS: i32 = 1;
    pub const DEL: i32 = 2;
    pub const OOP: i32 = 3;
    pub const WAIT: i32 = 4;
    pub const ERROR: i32 = 5;
}

/// Reason for the kernel's refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errno {
    /// EINVAL.
    Invalid,
    /// EPERM.
    NotPermitted,
}

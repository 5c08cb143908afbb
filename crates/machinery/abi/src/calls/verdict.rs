//! Protocol by which the image learns the verdicts of a program's own seccomp filters.
//!
//! A filter decides by the call's number, its arguments and the address of the instruction. The
//! image makes calls from three known instructions, its *sites*. The image rewrites each filter
//! that the program installs (`shim/src/confined`). The rewritten filter treats calls from a site
//! as in the table below, and lets every other call of the image pass. If several filters apply,
//! the kernel takes the strictest action (a trap before an errno). The answers below keep that
//! order, so several rewritten filters together give the same verdict as the original ones.
//!
//! | site | the program's filter ends it | traps, or fails it | allows it |
//! |---|---|---|---|
//! | [`FORESEE`] | trap with [`ENDS`] | errno [`PROCEED`] | our filters: go on |
//! | [`JUDGE`] | the end | the same | our filters: go on |
//! | [`PROGRAM`] | as a call of the program | as a call of the program | passes |

/// Offset in the image of the system call instruction of the first site. The linker script
/// (`guest/image/image.lds`) places the three sites there.
pub const SITES: u32 = 0;

/// Distance between two sites, in bytes.
const STEP: u32 = 8;

/// Length of a system call instruction, in bytes. A filter sees the address after the instruction.
const INSTRUCTION: u32 = if cfg!(target_arch = "aarch64") { 4 } else { 2 };

/// Offset of the site that asks whether the program's filters would end it for a call. The call is
/// never made.
pub const FORESEE: u32 = SITES + INSTRUCTION;
/// Offset of the site that asks for the filters' verdict on a call. A call that they allow is not
/// made from this site.
pub const JUDGE: u32 = FORESEE + STEP;
/// Offset of the site for calls that natively the kernel's vDSO would make for the program.
pub const PROGRAM: u32 = JUDGE + STEP;

/// `si_errno` of a trap by a rewritten filter. The image must then ask for the verdict of the
/// program's filters.
pub const JUDGED: u16 = 0x746d;
/// `si_errno` of a trap in seccomp strict mode. The image then ends the program by SIGKILL.
pub const STRICT: u16 = 0x746e;
/// `si_errno` of a trap at [`FORESEE`]: the program's filters would end it for this call.
pub const ENDS: u16 = 0x746f;

/// Error number at [`FORESEE`] and [`JUDGE`] for an allowed call; no kernel returns this number. If
/// a filter of the session is newer than the program's filters, the result is ENOSYS instead: that
/// filter passes the call to a listener that does not exist, and of two errnos the newer filter's
/// counts.
pub const PROCEED: u16 = 2989;
/// Error number at [`JUDGE`] if the program's filter answers ENOSYS.
pub const UNAVAILABLE: u16 = 2990;
/// Error number at [`JUDGE`] if the program's filter itself answers [`PROCEED`].
pub const NOT_PROCEED: u16 = 2991;

/// Descriptor number that is always invalid. When the image closes it, a rewritten filter answers
/// ECANCELED, which proves that the process has such a filter.
pub const PROBE: u32 = 0xa4c9_1e55;

//! Protocol by which the image learns the verdicts of a program's own seccomp filters.
//!
//! A filter decides by number, arguments and the address of the instruction. The image makes calls
//! from three known instructions, its *sites*. A filter that the image has rewritten
//! (`shim/src/confined`) treats calls from a site as in the table, and lets every other call of the
//! image pass. The kernel's precedence of actions (a trap before an errno) also holds for these
//! answers, so several filters together answer as they decide together.
//!
//! | site | the program's filter ends it | traps, or fails it | allows it |
//! |---|---|---|---|
//! | [`FORESEE`] | trap with [`ENDS`] | errno [`PROCEED`] | our filters: go on |
//! | [`JUDGE`] | the end | the same | our filters: go on |
//! | [`PROGRAM`] | as a call of the program | as a call of the program | passes |

/// Offset in the image of the call instructions of the three sites. The linker script
/// (`guest/image/image.lds`) places them there.
pub const SITES: u32 = 0;

/// Bytes from one site to the next.
const STEP: u32 = 8;

/// Bytes of a system call instruction. A filter sees the address after it.
const INSTRUCTION: u32 = if cfg!(target_arch = "aarch64") { 4 } else { 2 };

/// Offset of the site that asks whether a call would end the program. The call is never made.
pub const FORESEE: u32 = SITES + INSTRUCTION;
/// Offset of the site that asks for the verdict on a call. An allowed call is not made.
pub const JUDGE: u32 = FORESEE + STEP;
/// Offset of the site for calls that the kernel's vDSO would make for the program.
pub const PROGRAM: u32 = JUDGE + STEP;

/// `si_errno` of a trap by a rewritten filter: the image must ask for the verdicts of the program's
/// filters.
pub const JUDGED: u16 = 0x746d;
/// `si_errno` of a trap in strict mode: the program ends by SIGKILL.
pub const STRICT: u16 = 0x746e;
/// `si_errno` of a trap at [`FORESEE`]: the call would end the program.
pub const ENDS: u16 = 0x746f;

/// Error number at [`FORESEE`] and [`JUDGE`] that no kernel returns: the call is allowed. (A filter
/// of the session that is newer than the program's answers ENOSYS instead, as a question without a
/// listener, since of two errnos the newer filter's counts.)
pub const PROCEED: u16 = 2989;
/// Error number at [`JUDGE`] if the program's filter answers ENOSYS.
pub const UNAVAILABLE: u16 = 2990;
/// Error number at [`JUDGE`] if the program's filter itself answers [`PROCEED`].
pub const NOT_PROCEED: u16 = 2991;

/// Descriptor number that is always invalid. When the image closes it, a rewritten filter answers
/// ECANCELED.
pub const PROBE: u32 = 0xa4c9_1e55;

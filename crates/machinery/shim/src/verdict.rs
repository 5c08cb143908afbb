//! Verdicts of a program's own seccomp filters on a call that has trapped to the image.
//!
//! If several filters apply, the kernel performs only the strictest action. So a trap by the
//! session's filter may hide a restriction by a filter of the program. The image then asks for the
//! verdict of the program's filters: it makes the call at an instruction from which the session's
//! filter lets nothing through (`timeloom_abi::calls::verdict`).

use timeloom_abi::IMAGE_ADDRESS;
use timeloom_abi::calls::ImageCall;
use timeloom_abi::calls::verdict::{ENDS, FORESEE, JUDGE, PROCEED, UNAVAILABLE};

use crate::abi::SignalInfo;
use crate::arch::{foresee, judge};
use crate::sys::{self, errno};

/// Verdict of a program's own filters on a call.
pub(crate) enum Verdict {
    /// The image handles the call.
    Allowed,
    /// The call returns this value without being made.
    Returns(isize),
    /// The program's handler of SIGSYS receives the call, with this value as `si_errno`.
    Traps(i32),
}

/// Asks the program's filters about a call. Does not return if one of them ends the process or the
/// thread for the call; the supervisor reports that first.
pub(crate) fn of(call: usize, args: [usize; 6]) -> Verdict {
    // SAFETY: no filter lets a call from that site pass, so the kernel accesses no argument.
    if unsafe { foresee(call, args) } == nested(ENDS as i32) {
        sys::ask(ImageCall::Ended { call: call as i32 });
    }
    // SAFETY: the program's own call, on its own behalf, if it is made at all.
    match unsafe { judge(call, args) } {
        errno::ENOSYS => Verdict::Allowed,
        result if result == -(PROCEED as isize) => Verdict::Allowed,
        result if result == -(UNAVAILABLE as isize) => Verdict::Returns(errno::ENOSYS),
        result if (nested(0xffff)..=nested(0)).contains(&result) => {
            Verdict::Traps((nested(0) - result) as i32)
        }
        result => Verdict::Returns(result),
    }
}

/// Returns the filter's verdict if a question of the image has caused the trap; otherwise `None`.
pub(crate) fn answer(info: &SignalInfo) -> Option<isize> {
    let offset = (info.call_address as u64).wrapping_sub(IMAGE_ADDRESS);
    let asks = offset == u64::from(FORESEE) || offset == u64::from(JUDGE);
    asks.then(|| nested(info.errno))
}

/// Encodes a verdict as a value outside the range of the kernel's results.
const fn nested(data: i32) -> isize {
    -0x2000_0000 - data as isize
}

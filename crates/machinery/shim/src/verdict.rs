//! What a program's own seccomp filters decide about a call that has come to the image.
//!
//! Of several filters the kernel takes the strictest action only. Where one of the program's
//! has something to say, and ours traps the call as well, the image asks: it makes the call
//! at an instruction from which ours lets nothing through (`timeloom_calls::verdict`).

use timeloom_calls::ImageCall;
use timeloom_calls::verdict::{ENDS, FORESEE, JUDGE, PROCEED, UNAVAILABLE};
use timeloom_page::IMAGE_ADDRESS;

use crate::abi::SignalInfo;
use crate::arch::{foresee, judge};
use crate::sys::{self, errno};

/// What becomes of a call.
pub(crate) enum Verdict {
    /// It is for the image.
    Allowed,
    /// It returns this, and is not made.
    Returns(isize),
    /// The program's handler of SIGSYS gets it, with this as `si_errno`.
    Traps(i32),
}

/// Asks the program's filters about a call. Does not return if one of them ends the process
/// or the thread for it; the supervisor reports that before.
pub(crate) fn of(call: usize, args: [usize; 6]) -> Verdict {
    // SAFETY: no filter lets a call from there pass: the kernel touches no argument.
    if unsafe { foresee(call, args) } == nested(ENDS as i32) {
        sys::ask(ImageCall::Ended { call: call as i32 });
    }
    // SAFETY: the program's own call, on its own behalf, if at all.
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

/// The result of a call at which the image asks, if the trap was there: what the filter says,
/// for the image that stands in that call.
pub(crate) fn answer(info: &SignalInfo) -> Option<isize> {
    let offset = (info.call_address as u64).wrapping_sub(IMAGE_ADDRESS);
    let asks = offset == u64::from(FORESEE) || offset == u64::from(JUDGE);
    asks.then(|| nested(info.errno))
}

/// Outside the range of what the kernel returns.
const fn nested(data: i32) -> isize {
    -0x2000_0000 - data as isize
}

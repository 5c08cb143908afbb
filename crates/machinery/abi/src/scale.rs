//! Time scale of a host's page.

use timeloom_time::Scale;

/// Time that the page of a host shows to its programs: the advance of the host's CLOCK_MONOTONIC
/// since the session began, in nanoseconds.
///
/// This is neither the session's virtual time nor that time multiplied by a constant: the host's
/// oscillator errs, and a daemon may adjust the host's clock. Deadlines of a host's programs are on
/// this scale, which is never set. The session's own page, which no program reads, shows the
/// session's virtual time instead. The compiler rejects code that mixes the two scales:
///
/// ```compile_fail
/// use timeloom_abi::PageTime;
/// use timeloom_time::{Instant, Virtual};
/// let late = Instant::<Virtual>::ZERO - Instant::<PageTime>::ZERO;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageTime {}

impl Scale for PageTime {
    const NAME: &'static str = "shown";
}

//! The time scale that this crate adds.

use timeloom_time::Scale;

/// Time that the page of a host shows to its programs: the advance of the host's CLOCK_MONOTONIC
/// since the session began, in nanoseconds.
///
/// It is neither the session's time nor the host's share of it: the host's oscillator errs, and a
/// daemon may adjust its clock. Deadlines of a host's programs are on this scale; it is never set.
/// The session's own page, which no program reads, shows the session's time instead. The two scales
/// do not mix:
///
/// ```compile_fail
/// use timeloom_page::Shown;
/// use timeloom_time::{Instant, Virtual};
/// let late = Instant::<Virtual>::ZERO - Instant::<Shown>::ZERO;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {}

impl Scale for Shown {
    const NAME: &'static str = "shown";
}

//! The scale that this crate adds to the vocabulary.

use timeloom_time::Scale;

/// What the page of a host shows its programs: how far the host's CLOCK_MONOTONIC
/// has come since the session began, in nanoseconds.
///
/// It is neither the session's time nor what the host has lived through of it: the
/// host's crystal errs, and a daemon may steer its clock. Deadlines of a host's
/// programs are on this scale; nothing ever sets it. The session's own page, which
/// no program reads, shows the session's time instead. The two do not mix:
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

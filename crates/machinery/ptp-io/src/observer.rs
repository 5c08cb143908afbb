//! Whoever wants to know what a clock does: evidence, summaries, tests.

use timeloom_ptp::Report;

use crate::Counters;
use crate::keys::Loaded;

/// Looks on from the event loop; must not wait. Methods do nothing by default.
pub trait Observer: Send {
    /// The clock reports something.
    fn report(&mut self, _report: &Report) {}
    /// Other keys are in force.
    fn rekeyed(&mut self, _keys: &Loaded) {}
    /// Something for people: a file not taken, a clock that was set.
    fn notice(&mut self, _text: &str) {}
    /// The program ends.
    fn ended(&mut self, _counters: &Counters) {}
}

/// Nobody looks.
impl Observer for () {}

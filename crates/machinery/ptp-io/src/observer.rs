//! Whoever wants to know what a clock does: evidence, summaries, tests.

use timeloom_ptp::{Packet, Report, Stamp};

use crate::Counters;
use crate::keys::Loaded;

/// Looks on from the event loop; must not wait. Methods do nothing by default.
pub trait Observer: Send {
    /// A turn of the loop begins: something is due.
    fn woken(&mut self) {}
    /// A message came in by `port`, before the clock sees it. General messages have a stamp
    /// only where they were asked for ([`Options::stamp_general`](crate::Options)).
    fn received(&mut self, _port: u16, _packet: &Packet, _stamp: Option<Stamp>) {}
    /// A message was handed to the kernel.
    fn sent(&mut self, _port: u16, _packet: &Packet) {}
    /// When a message left by `port`, before the clock knows it; `frame` ends with the message.
    fn departed(&mut self, _port: u16, _frame: &[u8], _stamp: Stamp) {}
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

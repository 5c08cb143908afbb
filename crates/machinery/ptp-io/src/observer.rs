//! Interface for observers of a clock: evidence, summaries, tests.

use timeloom_ptp::{Packet, Report, Stamp};

use crate::Counters;
use crate::keys::Loaded;

/// Observer that is called from the event loop and must not block. Methods do nothing by default.
pub trait Observer: Send {
    /// An iteration of the loop begins: something is due.
    fn woken(&mut self) {}
    /// A message was received on `port`, before the clock sees it. General messages have a stamp
    /// only if requested ([`Options::stamp_general`](crate::Options)).
    fn received(&mut self, _port: u16, _packet: &Packet, _stamp: Option<Stamp>) {}
    /// A message was passed to the kernel.
    fn sent(&mut self, _port: u16, _packet: &Packet) {}
    /// Departure time of a message on `port`, before the clock sees it; `frame` ends with the
    /// message.
    fn departed(&mut self, _port: u16, _frame: &[u8], _stamp: Stamp) {}
    /// The clock has made a report.
    fn report(&mut self, _report: &Report) {}
    /// Other keys are in force.
    fn rekeyed(&mut self, _keys: &Loaded) {}
    /// A notice for the operator: a refused file, a clock that was set.
    fn notice(&mut self, _text: &str) {}
    /// The program ends.
    fn ended(&mut self, _counters: &Counters) {}
}

/// Observer that does nothing.
impl Observer for () {}

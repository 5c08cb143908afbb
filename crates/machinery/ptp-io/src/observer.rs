//! Interface for observers of a clock: evidence, summaries, tests.

use timeloom_ptp::{Packet, Report, Stamp};

use crate::Counters;
use crate::keys::LoadedKeys;

/// Observer of a clock. The event loop calls its methods, which must not block. By default they do
/// nothing.
pub trait Observer: Send {
    /// Reports that an iteration of the event loop begins, because something is due.
    fn woken(&mut self) {}
    /// Reports a message received on `port`, before the clock processes it. A general message has a
    /// timestamp only if [`ProgramOptions::stamp_general`](crate::ProgramOptions) is set.
    fn received(&mut self, _port: u16, _packet: &Packet, _stamp: Option<Stamp>) {}
    /// Reports that a message for `port` was passed to the kernel.
    fn sent(&mut self, _port: u16, _packet: &Packet) {}
    /// Reports the departure timestamp of a message on `port`, before the clock processes it. The
    /// message is the tail of `frame`.
    fn departed(&mut self, _port: u16, _frame: &[u8], _stamp: Stamp) {}
    /// Passes a report of the clock.
    fn report(&mut self, _report: &Report) {}
    /// Reports that other keys are in force.
    fn rekeyed(&mut self, _keys: &LoadedKeys) {}
    /// Passes a notice for the operator, for example that a file was refused or a clock was set.
    fn notice(&mut self, _text: &str) {}
    /// Reports that the program ends, with its final counters.
    fn ended(&mut self, _counters: &Counters) {}
}

/// Observer that does nothing.
impl Observer for () {}

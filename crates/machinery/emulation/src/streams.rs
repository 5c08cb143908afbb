//! Streams between machines of which one acts at a time.

use timeloom_time::{Instant, Virtual};

/// Reliable and ordered streams between machines that act in turns. What a machine sends arrives
/// when the next turn of its receiver begins.
pub trait TurnStreams: Send + Sync {
    /// Returns true while this machine has the turn.
    fn has_turn(&self) -> bool;

    /// Sends bytes to a machine. They take effect there at `arrival`.
    fn send(&self, to: usize, arrival: Instant<Virtual>, bytes: &[u8]);

    /// Returns the next bytes that have arrived from a machine; `None` if there are no more.
    fn receive(&self, from: usize) -> Option<Vec<u8>>;

    /// Returns true if bytes have arrived from a machine that were not received yet.
    fn has_arrived(&self, from: usize) -> bool;
}

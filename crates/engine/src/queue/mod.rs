//! Queues of events: four of them, one chosen by measurement.
//!
//! FIGURES

mod calendar;
mod heap;
mod ladder;
mod wheel;

use timeloom_time::{Instant, Virtual};

use crate::Event;

pub use calendar::Calendar;
pub use heap::Heap4;
pub use ladder::Ladder;
pub use wheel::Wheel;

/// A queue that gives events back in the order of [`Event`].
///
/// Every queue must give the same sequence for the same input; the test
/// `tests/order.rs` holds them against one another.
pub trait EventQueue: Default {
    /// Adds an event. It may lie before events already taken out.
    fn push(&mut self, event: Event);

    /// Takes out the first event if it is due at `limit` or earlier.
    fn pop_due(&mut self, limit: Instant<Virtual>) -> Option<Event>;

    /// When the first event is due.
    fn first_at(&self) -> Option<Instant<Virtual>>;

    /// How many events wait.
    fn len(&self) -> usize;

    /// Whether none waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes out the first event.
    fn pop(&mut self) -> Option<Event> {
        self.pop_due(Instant::FAR_FUTURE)
    }
}

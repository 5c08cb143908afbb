//! The queue of events: a timing [`Wheel`], chosen by measurement.
//!
//! Three other queues were measured for comparison and are in `benches/queues`: a 4-ary heap
//! ([`Heap4`], which is also a part of the wheel), Brown's calendar queue, and a ladder queue. Any
//! [`EventQueue`] can replace the wheel.
//!
//! `cargo bench -p timeloom-engine` checks that all four queues return events in the same order,
//! and measures ns of CPU time per hold (take the first event out, put it back later). The first
//! table gives medians of 5 interleaved rounds on a virtual machine with 2 cores (AMD EPYC) that
//! was busy with other work; columns are distributions of the delay and numbers of events. *exp*:
//! exponential delays, one event per 300 ns. *net*: 50 % about 1.2 µs, 47 % about 1 ms, 3 % 200 ms.
//!
//! | queue    | exp 1e3 | exp 1e4 | exp 1e5 | exp 1e6 | net 1e3 | net 1e4 | net 1e5 | net 1e6 |
//! |----------|---------|---------|---------|---------|---------|---------|---------|---------|
//! | heap4    |      64 |      87 |     122 |     235 |      45 |      72 |     112 |     190 |
//! | calendar |      36 |      44 |     119 |     223 |     890 |     667 |      88 |     132 |
//! | ladder   |      20 |      28 |      75 |     134 |      28 |      28 |      36 |      34 |
//! | wheel    |      23 |      51 |     140 |     292 |      32 |      32 |      32 |      62 |
//!
//! By the hold model alone, the ladder would be the choice. A network model differs from it: a link
//! keeps only its first packet in the queue, so there are few events, and most are scheduled for
//! the near future. In the network model the wheel is faster than the ladder by a fifth and more.
//! It also answers [`EventQueue::first_at`], which pacing calls all the time, without a search. The
//! second table gives millions of packet hops per CPU second, with 128 hosts on a dumbbell, as
//! medians of 3 (`cargo run --release -p timeloom-net --example dumbbell -- --flows 16,64 --queue
//! NAME`):
//!
//! | queue    | 16 flows | 64 flows |
//! |----------|----------|----------|
//! | heap4    |     11.3 |     10.7 |
//! | calendar |      9.9 |     12.7 |
//! | ladder   |     12.9 |     14.7 |
//! | wheel    |     15.8 |     18.6 |

mod heap;
mod wheel;

use timeloom_time::{Instant, Virtual};

use crate::Event;

pub use heap::Heap4;
pub use wheel::Wheel;

/// Queue that returns events in the order of [`Event`].
///
/// Every queue must return the same sequence for the same input: `tests/order.rs` and the benchmark
/// compare them.
pub trait EventQueue: Default {
    /// Adds an event. It may be earlier than events that have been taken out already.
    fn push(&mut self, event: Event);

    /// Takes out the first event if it is due at `limit` or earlier; `None` otherwise.
    fn pop_due(&mut self, limit: Instant<Virtual>) -> Option<Event>;

    /// Returns the instant of the first event; `None` if the queue is empty.
    fn first_at(&self) -> Option<Instant<Virtual>>;

    /// Returns the number of events in the queue.
    fn len(&self) -> usize;

    /// Returns true if the queue has no events.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes out the first event, whatever its instant; `None` if the queue is empty.
    fn pop(&mut self) -> Option<Event> {
        self.pop_due(Instant::FAR_FUTURE)
    }
}

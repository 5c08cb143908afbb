//! The engine allocates nothing per event in the steady state.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use timeloom_engine::queue::Wheel;
use timeloom_engine::{Agenda, Engine, Event, Model, NodeId, Random};
use timeloom_time::{Duration, Instant};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Allocator that counts per thread, because the test harness allocates in its own threads.
struct Counting;

// SAFETY: every call is forwarded to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's guarantee about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: `at` came from the system's allocator with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Model that puts each event back after a delay, distributed as in a network.
struct Hold(Random);

impl Model for Hold {
    fn handle(&mut self, event: Event, agenda: &mut Agenda) {
        let wait = match self.0.below(100) {
            0..50 => self.0.below(2_000),
            50..97 => 900_000 + self.0.below(200_000),
            _ => 200_000_000,
        };
        let at = agenda.now() + Duration::from_ns(wait as i64);
        agenda.schedule(at, event.node, event.token);
    }
}

#[test]
fn a_million_events_allocate_nothing() {
    let mut engine: Engine<Hold, Wheel> = Engine::new(Hold(Random::new(1, 0)));
    for node in 0..1_000 {
        engine.inject(engine.now(), NodeId(node), 0);
    }
    engine.run_until(Instant::FAR_FUTURE, 1_000_000);
    let before = COUNT.with(Cell::get);
    engine.run_until(Instant::FAR_FUTURE, 1_000_000);
    // A vector may still grow once, if the largest number of events occurs late.
    let grown = COUNT.with(Cell::get) - before;
    assert!(grown <= 2, "{grown} allocations in a million events");
}

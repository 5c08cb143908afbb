//! Work of the supervisor while programs run: it answers their calls, interrupts their waits, finds
//! their deadlines, and skips time.

pub(crate) mod activity;
pub(crate) mod asker;
pub(crate) mod clock_calls;
pub(crate) mod computing;
pub(crate) mod cpu_time;
pub(crate) mod debugged;
pub(crate) mod inspection;
pub(crate) mod interrupt;
pub(crate) mod listener;
pub(crate) mod next_event;
pub(crate) mod notify;
pub(crate) mod own_threads;
pub(crate) mod question;
pub(crate) mod real_time;
pub(crate) mod report;
pub(crate) mod scheduler;
pub(crate) mod shared_order;
pub(crate) mod skip;
pub(crate) mod snapshot;
pub(crate) mod supervisor;
pub(crate) mod thread_state;
pub(crate) mod timer_calls;

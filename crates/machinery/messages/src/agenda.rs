//! Messages that wait for their time, earliest first, in a thread of their own.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use timeloom_clock::Timeline as Scale;
use timeloom_time::{Duration, Instant};
use timeloom_timeline_client::{Stamp, Timeline};

use crate::channel::{Message, Told};

/// The longest wait without a look at the timeline: it may be lost, or step.
const LOOK_AGAIN: Duration = Duration::from_ms(500);
/// While the timeline has no interval nothing is certain, and it is looked at so often.
const NO_TIME: Duration = Duration::from_ms(100);

/// Ended, without what is still due, when it is dropped.
pub(crate) struct Agenda {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    due: Mutex<Due>,
    changed: Condvar,
}

#[derive(Default)]
struct Due {
    messages: BinaryHeap<Reverse<Entry>>,
    count: u64,
    is_over: bool,
}

/// Of messages with one time the first comes first.
struct Entry {
    act_at: Instant<Scale>,
    number: u64,
    message: Message,
}

impl Agenda {
    pub(crate) fn start(timeline: Arc<Timeline>, told: Told) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        let run = move || {
            while let Some((mut message, acted)) = own.next(&timeline) {
                message.acted = acted;
                told(&message);
            }
        };
        let thread = std::thread::Builder::new()
            .name("message-agenda".to_owned())
            .spawn(run)?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    pub(crate) fn add(&self, act_at: Instant<Scale>, message: Message) {
        let mut due = self.shared.lock();
        due.count += 1;
        let number = due.count;
        due.messages.push(Reverse(Entry {
            act_at,
            number,
            message,
        }));
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Due> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next message, certainly not before its time, with the reading that says so.
    fn next(&self, timeline: &Timeline) -> Option<(Message, Stamp)> {
        let mut due = self.lock();
        while !due.is_over {
            let Some(Reverse(first)) = due.messages.peek() else {
                due = (self.changed.wait(due)).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let now = timeline.read().ok();
            let earliest = now.and_then(|it| it.interval()).map(|it| it.earliest());
            let left = earliest.map_or(NO_TIME, |earliest| first.act_at - earliest);
            if left <= Duration::ZERO
                && let Some(now) = now
                && let Some(Reverse(entry)) = due.messages.pop()
            {
                return Some((entry.message, now));
            }
            let wait_ns = left.min(LOOK_AGAIN).as_ns() as u64;
            let length = std::time::Duration::from_nanos(wait_ns);
            let waited = self.changed.wait_timeout(due, length);
            due = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }
}

impl Drop for Agenda {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // It has not panicked unless its callback has, which says so itself.
            let _ = thread.join();
        }
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.act_at, self.number).cmp(&(other.act_at, other.number))
    }
}

//! One after the other, in the order of arrival.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A queue in front of something that serves one at a time. Unlike a mutex it
/// lets nobody overtake, so that equal requests are served in a written order
/// and none starves.
#[derive(Default)]
pub(crate) struct Turns {
    queue: Mutex<Queue>,
    moved: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<u64>,
    next: u64,
}

/// Being served. Dropping it lets the next one in.
pub(crate) struct Turn<'a>(&'a Turns);

impl Turns {
    /// Queues up and returns when it is one's turn.
    pub(crate) fn take(&self) -> Turn<'_> {
        let mut queue = self.lock();
        let me = queue.next;
        queue.next += 1;
        queue.waiting.push_back(me);
        while queue.waiting.front() != Some(&me) {
            queue = self
                .moved
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Turn(self)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting.pop_front();
        self.0.moved.notify_all();
    }
}

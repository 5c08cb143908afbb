//! Lock that serves callers in order of arrival.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;

/// First-in, first-out lock. Unlike with a mutex, no caller can overtake another: equal requests
/// are served in a defined order, and none starves.
#[derive(Default)]
pub(crate) struct TicketLock {
    queue: Mutex<Queue>,
    moved: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<u64>,
    next: u64,
}

/// Ownership of the lock. Dropping it passes the lock to the next caller.
pub(crate) struct TicketGuard<'a>(&'a TicketLock);

impl TicketLock {
    /// Joins the queue, and blocks until the caller owns the lock.
    pub(crate) fn take(&self) -> TicketGuard<'_> {
        let mut queue = self.lock();
        let me = queue.next;
        queue.next += 1;
        queue.waiting.push_back(me);
        while queue.waiting.front() != Some(&me) {
            self.moved.wait(&mut queue);
        }
        TicketGuard(self)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }
}

impl Drop for TicketGuard<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting.pop_front();
        self.0.moved.notify_all();
    }
}

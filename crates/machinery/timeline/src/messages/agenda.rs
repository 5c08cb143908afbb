//! Queue of messages that wait for the instant at which they are due, with a thread that delivers
//! them.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::{Stamp, Timeline};
use timeloom_clock::TimelineTime;
use timeloom_time::{Duration, Instant};

use crate::messages::channel::{Callback, ReceivedMessage};

/// Longest wait between two checks of the timeline, which may lose its interval or step.
const LOOK_AGAIN: Duration = Duration::from_ms(500);
/// Time between checks while the timeline gives no error interval, so that no instant is certain.
const NO_TIME: Duration = Duration::from_ms(100);
/// Maximum memory for waiting messages, measured by [`cost`]. Senders may send any number of
/// messages for any instant. If the limit is exceeded, the message that is due last is dropped.
pub(crate) const MOST_WAITING_BYTES: usize = 16 << 20;

/// Queue of waiting messages with its thread. Dropping the value ends the thread; messages that are
/// still waiting are dropped.
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
    /// Messages by the instant at which they are due, and then by the order of arrival.
    messages: BTreeMap<(Instant<TimelineTime>, u64), ReceivedMessage>,
    count: u64,
    bytes: usize,
    is_over: bool,
}

impl Agenda {
    pub(crate) fn start(timeline: Arc<Timeline>, told: Callback) -> std::io::Result<Self> {
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

    /// Adds a message. Returns the number of messages that were dropped because of the memory
    /// limit.
    pub(crate) fn add(&self, act_at: Instant<TimelineTime>, message: ReceivedMessage) -> u64 {
        let gone = self.shared.lock().add(act_at, message);
        self.shared.changed.notify_all();
        gone
    }
}

impl Due {
    fn add(&mut self, act_at: Instant<TimelineTime>, message: ReceivedMessage) -> u64 {
        self.count += 1;
        self.bytes += cost(&message);
        self.messages.insert((act_at, self.count), message);
        let mut gone = 0;
        while self.bytes > MOST_WAITING_BYTES
            && let Some((_, message)) = self.messages.pop_last()
        {
            self.bytes -= cost(&message);
            gone += 1;
        }
        gone
    }

    fn take_first(&mut self) -> Option<ReceivedMessage> {
        let (_, message) = self.messages.pop_first()?;
        self.bytes -= cost(&message);
        Some(message)
    }
}

/// Returns the approximate memory in bytes that a waiting message takes.
fn cost(message: &ReceivedMessage) -> usize {
    2 * size_of::<ReceivedMessage>() + message.key.len() + message.payload.len()
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Due> {
        self.due.lock()
    }

    /// Waits until the next message is certainly due. Returns the message, and the reading of the
    /// timeline that proves this.
    fn next(&self, timeline: &Timeline) -> Option<(ReceivedMessage, Stamp)> {
        let mut due = self.lock();
        while !due.is_over {
            let Some(((act_at, _), _)) = due.messages.first_key_value() else {
                self.changed.wait(&mut due);
                continue;
            };
            let now = timeline.read().ok();
            let earliest = now.and_then(|it| it.interval()).map(|it| it.earliest());
            let left = earliest.map_or(NO_TIME, |earliest| *act_at - earliest);
            if left <= Duration::ZERO
                && let Some(now) = now
                && let Some(message) = due.take_first()
            {
                return Some((message, now));
            }
            let wait_ns = left.min(LOOK_AGAIN).as_ns() as u64;
            let length = std::time::Duration::from_nanos(wait_ns);
            self.changed.wait_for(&mut due, length);
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
            // The thread panics only if its callback does, and the panic's message has been printed
            // then.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Status, TimelineId};

    use super::*;

    fn message(payload: Vec<u8>) -> ReceivedMessage {
        let stamp = Stamp::void(TimelineId(1), Status::Ok);
        ReceivedMessage {
            key: "valve".to_owned(),
            payload,
            sent: stamp,
            arrived: stamp,
            act_at: None,
            acted: stamp,
        }
    }

    #[test]
    fn a_flood_for_a_far_day_takes_no_more_memory_and_nothing_that_is_due_before() {
        let mut due = Due::default();
        let soon = Instant::from_ns(5);
        assert_eq!(due.add(soon, message(b"first".to_vec())), 0);
        assert_eq!(due.add(soon, message(b"second".to_vec())), 0);
        let (mut gone, flood) = (0, 1_000);
        for number in 0..flood {
            gone += due.add(
                Instant::from_ns(i64::MAX - number),
                message(vec![0; 60_000]),
            );
            assert!(due.bytes <= MOST_WAITING_BYTES);
        }
        assert!(gone > 0, "{gone} of {flood} gave way");
        assert_eq!(due.messages.len() as u64 + gone, flood as u64 + 2);
        let held: usize = due.messages.values().map(cost).sum();
        assert_eq!(held, due.bytes, "nothing is counted that is not there");
        for wanted in ["first", "second"] {
            let first = due.take_first().expect("it still waits");
            assert_eq!(first.payload, wanted.as_bytes());
        }
    }
}

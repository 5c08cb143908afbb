//! Thread that computes parts of signatures in advance.
//!
//! The thread shares only the stock of prepared values with the event loop, which takes values from
//! the stock without blocking. The thread's scheduling policy is SCHED_IDLE: it runs when a
//! processor is otherwise idle, and any other thread preempts it. The event loop requests more
//! values at the end of an iteration, after received messages have been forwarded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use timeloom_ptp::security::SecretKey;
use timeloom_sys::schedule::{SchedulingPolicy, set_policy};

use crate::{KernelRandom, PtpError};

/// Handle of the preparing thread.
#[derive(Debug)]
pub struct Preparer {
    wanted: Option<Sender<Arc<SecretKey>>>,
    is_busy: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Preparer {
    /// Starts the thread.
    ///
    /// # Errors
    /// Fails if the kernel refuses a thread or random numbers.
    pub fn start() -> Result<Self, PtpError> {
        let random = KernelRandom::open()?;
        let (wanted, queue) = channel();
        let is_busy = Arc::new(AtomicBool::new(false));
        let busy = is_busy.clone();
        let thread = Builder::new()
            .name("ptp-prepare".to_owned())
            .spawn(move || work(&queue, random, &busy))
            .map_err(PtpError::doing("start a thread"))?;
        Ok(Self {
            wanted: Some(wanted),
            is_busy,
            thread: Some(thread),
        })
    }

    /// Requests more prepared values for `secret`, unless the stock is large enough or the thread
    /// is busy.
    pub fn top_up(&self, secret: &Arc<SecretKey>) {
        if !secret.wants_preparing() || self.is_busy.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(wanted) = &self.wanted {
            wanted
                .send(secret.clone())
                .expect("the thread lives as long as this");
        }
    }
}

fn work(queue: &Receiver<Arc<SecretKey>>, mut random: KernelRandom, busy: &AtomicBool) {
    // Lowering a thread's own priority is always permitted.
    let _ = set_policy(SchedulingPolicy::Last);
    while let Ok(secret) = queue.recv() {
        secret.prepare(&mut random);
        busy.store(false, Ordering::Release);
    }
}

impl Drop for Preparer {
    fn drop(&mut self) {
        drop(self.wanted.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use timeloom_ptp::security::{MemoryLedger, SyncName};
    use timeloom_wire::tlv::Suite;
    use timeloom_wire::{Header, MessageType, PortIdentity};

    use super::*;

    fn secret(suite: Suite) -> Arc<SecretKey> {
        Arc::new(SecretKey::from_random(suite, &[3; 32]))
    }

    #[test]
    fn requested_signatures_are_prepared_and_requested_again_after_use() {
        let (preparer, secret) = (Preparer::start().unwrap(), secret(Suite::Ed25519));
        let public = secret.public();
        // Nothing was prepared for this key. The prepared key below also signs without preparation
        // at times, namely while the thread adds to its stock.
        let unprepared = self::secret(Suite::Ed25519).sign(b"a text");
        let mut seen = std::collections::HashSet::new();
        for turn in 0..3 {
            assert!(secret.wants_preparing());
            // On a busy machine, a thread of idle priority may wait long for a processor.
            let patience = Instant::now() + Duration::from_secs(120);
            while secret.wants_preparing() {
                assert!(Instant::now() < patience, "nothing is prepared");
                preparer.top_up(&secret);
                std::thread::sleep(Duration::from_millis(1));
            }
            while secret.is_prepared() {
                let signature = secret.sign(b"a text");
                assert!(public.verify(b"a text", &signature));
                assert!(signature == unprepared || seen.insert(signature));
            }
            assert!(seen.len() > turn, "some were prepared");
            // With an empty stock the key signs as well, as in RFC 8032.
            assert!(public.verify(b"a text", &secret.sign(b"a text")));
        }
    }

    #[test]
    fn the_syncs_that_come_next_get_prepared() {
        let (preparer, secret) = (Preparer::start().unwrap(), secret(Suite::BlsOnce));
        secret.keep(Box::<MemoryLedger>::default());
        let source = PortIdentity::default();
        let header = Header::new(MessageType::Sync, source, 0);
        let moment = |n| SyncName::new(&header, 1, n);
        for n in [100, 116, 132] {
            secret.expect(&moment(n), std::iter::once(2));
            let patience = Instant::now() + Duration::from_secs(120);
            while !(n + 1..n + 25).all(|n| secret.is_prepared_for(&moment(n), 2)) {
                assert!(Instant::now() < patience, "nothing is prepared");
                preparer.top_up(&secret);
                std::thread::sleep(Duration::from_millis(1));
                // Values are prepared only after the thread's lock was found free once.
                secret.expect(&moment(n), std::iter::once(2));
            }
            assert!(!secret.is_prepared_for(&moment(n + 1), 1));
        }
    }

    #[test]
    fn a_suite_without_preparation_wakes_no_thread() {
        let (preparer, secret) = (Preparer::start().unwrap(), secret(Suite::Bls));
        preparer.top_up(&secret);
        assert!(!preparer.is_busy.load(Ordering::Acquire));
    }
}

//! True time for whoever asks in memory that it shares with this program: a guest that is
//! asked over its port would have the answer a millisecond later.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::thread::JoinHandle;

use crate::cores;
use crate::error::BenchError;
use crate::shared::{Atomics, Shared};

/// First word of a mailbox: "TLBM", little-endian, and a version.
pub(super) const MAGIC: u64 = 0x0001_4d42_4c54;

/// One party's mailbox: the first page of a PCI device's memory, for a guest.
#[repr(C)]
pub(super) struct Mailbox {
    pub(super) magic: AtomicU64,
    /// Raised by whoever asks.
    asked: AtomicU64,
    /// The question that was answered last.
    answered: AtomicU64,
    /// CLOCK_REALTIME of the host as TAI, read between question and answer.
    tai_ns: AtomicI64,
}

// SAFETY: all of it is atomics, of which zero is a value.
unsafe impl Atomics for Mailbox {}

impl Mailbox {
    /// A moment between the call and the return, by the host's clock.
    pub(super) fn ask(&self) -> i64 {
        let number = self.asked.load(Relaxed) + 1;
        self.asked.store(number, Release);
        while self.answered.load(Acquire) != number {
            core::hint::spin_loop();
        }
        self.tai_ns.load(Relaxed)
    }
}

/// Answers in all mailboxes, busily, until it is dropped.
pub(super) struct Answering {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Answering {
    /// On the first processor of ours: those that are measured have the others.
    pub(super) fn begin(mailboxes: &[Arc<Shared<Mailbox>>]) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let (end, mailboxes) = (ended.clone(), mailboxes.to_vec());
        let answer = move || {
            cores::pin(cores::allowed().first().copied().unwrap_or(0));
            while !end.load(Relaxed) {
                for mailbox in &mailboxes {
                    let mailbox = mailbox.get();
                    let asked = mailbox.asked.load(Acquire);
                    if asked != mailbox.answered.load(Relaxed) {
                        mailbox.tai_ns.store(tai_ns(), Relaxed);
                        mailbox.answered.store(asked, Release);
                    }
                }
            }
        };
        Self {
            ended,
            thread: Some(std::thread::spawn(answer)),
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A new mailbox in a file.
pub(super) fn create(path: &Path) -> Result<Arc<Shared<Mailbox>>, BenchError> {
    let made = Shared::create(path).map_err(BenchError::system("sharing memory"))?;
    let mailbox: &Mailbox = made.get();
    mailbox.magic.store(MAGIC, Release);
    Ok(Arc::new(made))
}

/// CLOCK_REALTIME as TAI.
fn tai_ns() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as i64) + i64::from(TAI_OFFSET_S) * 1_000_000_000
}

/// What the bench's timelines say, too.
pub(super) const TAI_OFFSET_S: i16 = 37;

//! True time for other processes, through shared memory. Over its port, a guest would receive the
//! answer a millisecond later.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::thread::JoinHandle;

use crate::cores;
use crate::error::BenchError;
use crate::shared::{Atomics, Shared};

/// First word of a mailbox: "TLBM" in little-endian order, and a version.
pub(super) const MAGIC: u64 = 0x0001_4d42_4c54;

/// Mailbox of one client. For a guest, it is the first page of a PCI device's memory.
#[repr(C)]
pub(super) struct Mailbox {
    pub(super) magic: AtomicU64,
    /// Number of requests, which the client increments.
    asked: AtomicU64,
    /// Number of the last request that was answered.
    answered: AtomicU64,
    /// CLOCK_REALTIME of the host, as TAI, read between that request and its answer.
    tai_ns: AtomicI64,
}

// SAFETY: consists of atomics only, for which zero is a valid value.
unsafe impl Atomics for Mailbox {}

impl Mailbox {
    /// Returns a reading of the host's clock that was taken between the call and the return.
    pub(super) fn ask(&self) -> i64 {
        let number = self.asked.load(Relaxed) + 1;
        self.asked.store(number, Release);
        while self.answered.load(Acquire) != number {
            core::hint::spin_loop();
        }
        self.tai_ns.load(Relaxed)
    }
}

/// Thread that polls all mailboxes and answers requests, until this is dropped.
pub(super) struct Answering {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Answering {
    /// Starts the thread on the first processor that the process may use; measured threads use the
    /// others.
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

/// Creates a mailbox in a file.
pub(super) fn create(path: &Path) -> Result<Arc<Shared<Mailbox>>, BenchError> {
    let made = Shared::create(path).map_err(BenchError::system("sharing memory"))?;
    let mailbox: &Mailbox = made.get();
    mailbox.magic.store(MAGIC, Release);
    Ok(Arc::new(made))
}

/// Returns CLOCK_REALTIME converted to TAI, in ns.
fn tai_ns() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as i64) + i64::from(TAI_OFFSET_S) * 1_000_000_000
}

/// TAI minus UTC in seconds, as also configured in the timelines of the benchmark.
pub(super) const TAI_OFFSET_S: i16 = 37;

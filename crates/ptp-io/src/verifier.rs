//! A thread for signatures, so that none stands between a message and its
//! stamp. It runs at a lower priority than the event loop.

use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use timeloom_ptp::security::{Verdict, VerifyJob};

use crate::{PtpError, Wake};

/// A job with its outcome.
pub(crate) type Done = (Box<VerifyJob>, Verdict);

#[derive(Debug)]
pub(crate) struct Verifier {
    jobs: Option<SyncSender<Box<VerifyJob>>>,
    done: Receiver<Done>,
    thread: Option<JoinHandle<()>>,
}

/// More than a slave lets wait; what does not fit is not verified, and so not used.
const QUEUE: usize = 32;
const NICE: libc::c_int = 5;

impl Verifier {
    pub(crate) fn start(wake: Wake) -> Result<Self, PtpError> {
        let (jobs, queue) = sync_channel(QUEUE);
        let (finished, done) = channel();
        let thread = Builder::new()
            .name("ptp-verify".to_owned())
            .spawn(move || work(&queue, &finished, &wake))
            .map_err(PtpError::doing("start a thread"))?;
        Ok(Self {
            jobs: Some(jobs),
            done,
            thread: Some(thread),
        })
    }

    /// Hands over a job; `false` when there are too many.
    pub(crate) fn submit(&self, job: Box<VerifyJob>) -> bool {
        let Some(jobs) = &self.jobs else { return false };
        !matches!(
            jobs.try_send(job),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_))
        )
    }

    /// The next outcome, if there is one.
    pub(crate) fn finished(&self) -> Option<Done> {
        self.done.try_recv().ok()
    }
}

fn work(queue: &Receiver<Box<VerifyJob>>, finished: &Sender<Done>, wake: &Wake) {
    // SAFETY: no pointers. On Linux, 0 means the calling thread alone.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
    while let Ok(job) = queue.recv() {
        let verdict = job.run();
        if finished.send((job, verdict)).is_err() {
            return;
        }
        wake.nudge();
    }
}

impl Drop for Verifier {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

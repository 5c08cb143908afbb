//! Thread that verifies and makes signatures, so that this work delays no message or timestamp. It
//! runs at a lower priority than the event loop and processes jobs in order. The queue itself is
//! unbounded, but the state machines limit the number of signatures per second.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use rustix::process::setpriority_process;
use timeloom_ptp::security::{SignJob, SigningResult, Verdict, VerifyJob};

use crate::{PtpError, Wake};

/// Job for the signature thread.
#[derive(Debug)]
pub(crate) enum Job {
    Verify(Box<VerifyJob>),
    Sign(Box<SignJob>),
}

/// Result of a job.
#[derive(Debug)]
pub(crate) enum Done {
    Verified(Verdict),
    Signed(SigningResult),
}

#[derive(Debug)]
pub(crate) struct Verifier {
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    thread: Option<JoinHandle<()>>,
}

const NICE: i32 = 5;

impl Verifier {
    pub(crate) fn start(wake: Wake) -> Result<Self, PtpError> {
        let (jobs, queue) = channel();
        let (finished, done) = channel();
        let thread = Builder::new()
            .name("ptp-signatures".to_owned())
            .spawn(move || work(&queue, &finished, &wake))
            .map_err(PtpError::doing("start a thread"))?;
        Ok(Self {
            jobs: Some(jobs),
            done,
            thread: Some(thread),
        })
    }

    pub(crate) fn submit(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            jobs.send(job).expect("the thread lives as long as this");
        }
    }

    /// Returns the result of a finished job; `None` if no job has finished since.
    pub(crate) fn finished(&self) -> Option<Done> {
        self.done.try_recv().ok()
    }
}

fn work(queue: &Receiver<Job>, finished: &Sender<Done>, wake: &Wake) {
    // On Linux this affects the calling thread alone. Lowering a thread's own priority is always
    // permitted.
    let _ = setpriority_process(None, NICE);
    while let Ok(job) = queue.recv() {
        let done = match job {
            Job::Verify(job) => Done::Verified(job.run()),
            Job::Sign(job) => Done::Signed(job.run()),
        };
        if finished.send(done).is_err() {
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

//! Reason why a run ended. If several are reported, the first one counts.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use timeloom_guest::Clock;
use timeloom_results::RunFailure;
use timeloom_time::{Instant, Virtual};

/// Reason why a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The planned virtual duration has passed.
    Reached,
    /// A part of the run failed.
    Failed(RunFailure),
    /// The user or the caller stopped the run.
    Interrupted,
}

/// Reports reasons for the end of a run; may be cloned into every thread.
#[derive(Clone)]
pub(crate) struct Reporter {
    causes: Sender<End>,
    /// Clock that dates failures. The reference is weak, because the clock owns sinks that report.
    clock: Weak<Clock>,
}

/// Receives the first reason for the end of a run.
pub(crate) struct Verdict {
    reporter: Reporter,
    causes: Receiver<End>,
}

impl Reporter {
    /// Reports a failure at the current instant. Has no effect after the end of the run.
    pub(crate) fn failed(&self, culprit: &str, what: impl Into<String>) {
        let now = self.clock.upgrade().map(|clock| clock.now());
        self.failed_at(now.unwrap_or(Instant::ZERO), culprit, what);
    }

    /// Reports a failure at the virtual instant `at`.
    pub(crate) fn failed_at(&self, at: Instant<Virtual>, culprit: &str, what: impl Into<String>) {
        let _ = self.causes.send(End::Failed(RunFailure {
            culprit: culprit.to_owned(),
            what: what.into(),
            at,
            log: Vec::new(),
        }));
    }

    pub(crate) fn reached(&self) {
        let _ = self.causes.send(End::Reached);
    }
}

impl Verdict {
    /// Creates both ends. `clock` dates the failures.
    pub(crate) fn new(clock: &Arc<Clock>) -> Self {
        let (sender, causes) = channel();
        Self {
            reporter: Reporter {
                causes: sender,
                clock: Arc::downgrade(clock),
            },
            causes,
        }
    }

    pub(crate) fn reporter(&self) -> Reporter {
        self.reporter.clone()
    }

    /// Returns the first failure among the reasons that [`Self::wait`] has not returned yet.
    pub(crate) fn failure(&self) -> Option<End> {
        let failed = |end: &End| matches!(end, End::Failed(_));
        self.causes.try_iter().find(failed)
    }

    /// Waits for the first reason, for at most `limit` of wall time.
    pub(crate) fn wait(&self, limit: Duration) -> Option<End> {
        match self.causes.recv_timeout(limit) {
            Ok(end) => Some(end),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("we hold a sender ourselves"),
        }
    }
}

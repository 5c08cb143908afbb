//! Pause wire of a run: the parts that stop while the wire is held, and the receivers of its
//! records.

use std::sync::Arc;

use timeloom_bus::{Bus, FreeRunning, LongPause, Testbed};
use timeloom_guest::Session;
use timeloom_scenario::{Mode, Plan};
use timeloom_time::Duration;

use crate::node::Membership;
use crate::record::{ClockSink, RunRecorder};
use crate::testbed::PausedTestbed;
use crate::verdict::Reporter;

/// Builds the bus of the session. In real-time mode a pause stops nothing; in all other modes it
/// stops clock and processes.
pub(crate) fn build(
    plan: &Plan,
    session: &Arc<Session>,
    run_recorder: &RunRecorder,
    reporter: Reporter,
    warn: &Arc<dyn Fn(String) + Send + Sync>,
    membership: &dyn Membership,
) -> Bus {
    let testbed: Arc<dyn Testbed> = match plan.time.mode {
        Mode::Virtual | Mode::Skip | Mode::Stepped => Arc::new(PausedTestbed(Arc::clone(session))),
        Mode::Real => {
            let clock = Arc::clone(session.clock());
            Arc::new(FreeRunning::new(move || clock.now()))
        }
    };
    let warn = Arc::clone(warn);
    membership
        .wire(Bus::builder(testbed))
        .records(ClockSink(run_recorder.clone()))
        .watch(LONG_STAND, move |stand: LongPause| {
            let holders: Vec<String> = stand
                .holders
                .iter()
                .map(|holder| format!("{} ({})", holder.requester, holder.reason))
                .collect();
            warn(format!(
                "the testbed has been paused for {}; held by {}",
                stand.stood_for,
                holders.join(", ")
            ));
        })
        .on_failure(move |error| reporter.failed("pause bus", error.to_string()))
        .build()
}

/// Wall time after which the user is told which participants hold a pause.
const LONG_STAND: Duration = Duration::from_s(20);

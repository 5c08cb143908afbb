//! End of a run: clock and programs stop for good, and the results are completed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use timeloom_guest::{
    Compute, Host, PACED_ALIKE, PACED_OTHERWISE, Reckoning, SchedulingRecord, UnhandledCall,
    end_grants,
};
use timeloom_results::{
    Caveat, CheckResult, ClockAction, CutRows, GrantsMade, Manifest, Recorder, Remedy,
    RunDirectory, RunFailure,
};
use timeloom_scenario::Plan;
use timeloom_time::{Duration, Instant, Virtual};

use super::Run;
use crate::error::RunError;
use crate::hosts::Hosts;
use crate::judgement::{close, judge};
use crate::placed::tell;
use crate::simulated::AskedOfTcp;
use crate::summary::{Progress, Summary};
use crate::timelines;
use crate::verdict::{End, Reporter};

/// Run whose clock has stopped for good.
pub(super) struct StoppedRun {
    /// Instant at which the clock has stopped.
    pub(super) at: Instant<Virtual>,
    end: End,
    /// Hold that keeps the session paused for good.
    hold: Option<timeloom_bus::Hold>,
    /// Reasons why the results cannot be trusted.
    doubts: Vec<Caveat>,
}

impl Run<'_> {
    /// Stops clock and programs for good, and determines how the run ended from all failures until
    /// then. A program may fail at its last instant, and a plant may fail to compute the remaining
    /// time.
    pub(super) fn stop_for_good(
        &self,
        planned_end: Instant<Virtual>,
        mut end: End,
        over: &AtomicBool,
        reporter: &Reporter,
    ) -> StoppedRun {
        let hold = self.bus.hold("timeloom", "the end of the run").ok();
        // In real-time mode the bus stops nothing, so the session is paused here.
        let at = match self.session.pause() {
            Ok(at) => at,
            Err(error) => {
                reporter.failed("session", error.to_string());
                self.session.clock().now()
            }
        };
        self.membership.leave();
        // From here on the supervisor ends the programs, and their exits are no events of the run.
        // Earlier exits are.
        let given_up = std::time::Instant::now() + SETTLED_WITHIN;
        while self.session.has_unsettled_end() && std::time::Instant::now() < given_up {
            std::thread::sleep(SETTLED_EVERY);
        }
        over.store(true, Ordering::SeqCst);
        if end == End::Reached {
            end = self.verdict.failure().unwrap_or(End::Reached);
        }
        self.run_recorder.clock_edge(ClockAction::End);
        // The kernel's timers are read first, because the exit of a program closes its connections.
        let processes = self.session.processes().unwrap_or_default();
        let doubts = self
            .kernel_timers
            .doubts(&processes, self.session.detects_held_frames());
        end_grants(&*self.control_endpoint, end == End::Reached);
        self.session.kill_all();
        for (name, plant) in &self.plants {
            // In a run that has already failed, this report has no effect.
            if let Err(error) = plant.finish(at.min(planned_end)) {
                let at = error.at.unwrap_or(at);
                self.run_recorder
                    .event_at(at, name, "trouble", &error.to_string());
                if end == End::Reached {
                    end = End::Failed(RunFailure {
                        culprit: name.clone(),
                        what: error.to_string(),
                        at: at.min(planned_end),
                        log: Vec::new(),
                    });
                }
            }
        }
        StoppedRun {
            at,
            end,
            hold,
            doubts,
        }
    }

    pub(super) fn finalize(
        self,
        ended: StoppedRun,
        reckoning: &Reckoning,
        progress: Progress,
        mut manifest: Manifest,
    ) -> Result<Summary, RunError> {
        let StoppedRun {
            at: _,
            mut end,
            hold,
            doubts,
        } = ended;
        for doubt in &doubts {
            self.run_recorder.own_event("timeloom", "untrusted", doubt);
        }
        manifest.untrusted.extend(doubts);
        let over = Instant::ZERO + progress.virtual_time;
        self.attacks.finish(self.plan, over, &self.run_recorder);
        self.run_recorder
            .host_times(Instant::ZERO + progress.virtual_time);
        self.control_endpoint.release();
        drop(self.devices);
        if let Some(network) = self.network {
            let calls = self.session.unhandled_calls();
            let asked = AskedOfTcp {
                limits: callers(&calls, |it| LIMITS.contains(&it.call)),
                keep_alive: keep_alive_times(&self.hosts),
                cubic: callers(&calls, |it| it.outcome == PACED_ALIKE),
                default: self.kernel_timers.replaced_default().map(str::to_owned),
                chosen: congestion_requests(&self.hosts),
            };
            manifest
                .untrusted
                .extend(network.stop(&asked, &self.run_recorder));
        }
        let doubt = self.session.clock().distrusted();
        manifest
            .untrusted
            .extend(doubt.map(|reason| Caveat::new(reason, OTHER_COUNTER)));
        let doubt = self.session.clock().doubt_of_file_dates();
        manifest
            .untrusted
            .extend(doubt.map(|reason| Caveat::new(reason, MACHINE_DATES)));
        if let Some(tunnels) = self.tunnels {
            manifest
                .untrusted
                .extend(tell(&tunnels.stop(), &self.run_recorder));
        }
        for (name, capture) in self.captures {
            let statistics = capture.stop();
            if statistics.dropped_by_kernel > 0 {
                let reason = format!(
                    "The capture of {name} lacks {} of {} frames, which the kernel dropped.",
                    statistics.dropped_by_kernel,
                    statistics.dropped_by_kernel + statistics.delivered
                );
                manifest
                    .degraded_modes
                    .push(Caveat::new(reason, LESS_TRAFFIC));
            }
        }
        for plant in self.plants.values() {
            let _ = plant.stop();
        }
        let unhandled = self.session.unhandled_calls();
        for call in &unhandled {
            let text = format!("{} × {}: {}", call.count, call.call, call.outcome);
            self.run_recorder
                .own_event(&call.program, "not virtualised", &text);
        }
        if self.plan.time.skips() {
            manifest.untrusted.extend(paced_otherwise(&unhandled));
        }
        if self.plan.time.compute == Compute::None {
            let (text, doubt) = told(&self.session.order());
            self.run_recorder.own_event("timeloom", "order", &text);
            manifest.degraded_modes.extend(doubt);
        }
        manifest.pauses = reckoning.pauses;
        manifest.grants = self.control_endpoint.grants().map(|grants| {
            let tally = grants.tally();
            GrantsMade {
                count: tally.grants,
                ran: tally.ran,
                waited: tally.waited,
            }
        });
        timelines::finalize(self.directory, &self.keepers);
        drop(hold);
        drop((
            self.control_endpoint,
            self.plants,
            self.fabric,
            self.bus,
            self.session,
        ));
        manifest.cut_logs = self.logs.cut();
        manifest.cut_rows = self.recorder.cut();
        manifest
            .untrusted
            .extend(manifest.cut_rows.iter().map(told_cut));
        let checks = match complete(self.plan, self.directory, &self.recorder) {
            Ok(checks) => checks,
            // Incomplete results make the run fail, unless it has already failed for another
            // reason.
            Err(error) => {
                if end == End::Reached {
                    end = End::Failed(RunFailure {
                        culprit: "results".to_owned(),
                        what: error.to_string(),
                        at: Instant::ZERO + progress.virtual_time,
                        log: Vec::new(),
                    });
                }
                Vec::new()
            }
        };
        if let End::Failed(failure) = &mut end {
            // The log of a plant has the prefix `plant-` in its name.
            let plant = format!("plant-{}", failure.culprit);
            for name in [&failure.culprit, &plant] {
                failure
                    .log
                    .extend(self.directory.last_lines(name, LAST_LINES));
            }
        }
        let summary = Summary {
            end,
            checks,
            progress,
            unhandled,
            untrusted: manifest.untrusted.clone(),
        };
        close(self.directory, manifest, summary)
    }
}

/// Returns the number of requests for a congestion control, by host.
fn congestion_requests(hosts: &Hosts) -> BTreeMap<String, u64> {
    let named = |host: &Arc<Host>| (host.name().to_owned(), host.congestion_requests());
    hosts.values().map(named).collect()
}

/// Returns the shortest idle time after which a program wants keep-alive probes, by host.
fn keep_alive_times(hosts: &Hosts) -> BTreeMap<String, Duration> {
    let named = |host: &Arc<Host>| Some((host.name().to_owned(), host.keep_alive_after()?));
    hosts.values().filter_map(named).collect()
}

/// Returns the names of the programs that made the calls for which `are_meant` returns true.
fn callers(calls: &[UnhandledCall], are_meant: impl Fn(&UnhandledCall) -> bool) -> Vec<String> {
    let calls = calls.iter().filter(|call| are_meant(call));
    let names: BTreeSet<String> = calls.map(|call| call.program.clone()).collect();
    names.into_iter().collect()
}

/// Returns a caveat if programs requested a congestion control that paces packets by time, but
/// continued with one that does not.
fn paced_otherwise(calls: &[UnhandledCall]) -> Option<Caveat> {
    let names = callers(calls, |call| call.outcome == PACED_OTHERWISE);
    (!names.is_empty()).then(|| {
        let reason = format!(
            "Connections of {} have Reno where they asked for a congestion control that measures \
             time, over which this run skips, so the results are not to be trusted.",
            names.join(", ")
        );
        Caveat::new(reason, Remedy::NO_SKIPPING)
    })
}

/// Names, in the table of calls, of those that limit how long the kernel waits for
/// acknowledgements.
const LIMITS: [&str; 2] = ["setsockopt(TCP_USER_TIMEOUT)", "setsockopt(TCP_SYNCNT)"];

fn told_cut(cut: &CutRows) -> Caveat {
    let since = Duration::from_ns(cut.since.as_ns());
    let reason = format!(
        "The rows of {} reached their limit (results.source_limit) at {since}: {} after that are left out.",
        cut.source, cut.left_out_rows
    );
    Caveat::new(reason, FEWER_ROWS)
}

/// Completes the result files, as far as there is space on the disk, and evaluates the plan's
/// checks.
fn complete(
    plan: &Plan,
    directory: &RunDirectory,
    recorder: &Recorder,
) -> Result<Vec<CheckResult>, RunError> {
    directory.use_room_aside()?;
    recorder.finish()?;
    let checks = judge(plan, directory)?;
    directory.write_checks(&checks)?;
    Ok(checks)
}

/// Returns the message about the order of events in a run whose computation takes no time. The
/// caveat gives the reason if the run is known not to be reproducible.
fn told(order: &SchedulingRecord) -> (String, Option<Caveat>) {
    let text = format!(
        "{} turns; after {} of them more than one thread ran, in the kernel's order; {} steps while a thread computed",
        order.turns, order.shared, order.steps
    );
    let names: Vec<&str> = order.spinning.iter().map(String::as_str).collect();
    let doubt = (order.steps > 0).then(|| {
        let reason = format!(
            "Time was moved by {} steps for programs that computed or polled for long at one instant ({}); the run may not reproduce.",
            order.steps,
            names.join(", ")
        );
        Caveat::new(reason, WAIT_FOR_EVENTS)
    });
    (text, doubt)
}

const MACHINE_DATES: Remedy = Remedy::new(
    "Make the run shorter, or leave `files = \"virtual\"` out where dates of files do not matter.",
);
const OTHER_COUNTER: Remedy = Remedy::new(
    "Run again: a session that begins now reads the kernel's choice of clock. If the counter goes \
     wrong again, keep it from being used (boot with clocksource=kvm-clock or hpet), or use another \
     machine.",
);

const LESS_TRAFFIC: Remedy = Remedy::new(
    "Capture fewer links, let time pass more slowly (a larger `time.dilation`), or use a machine \
     with more free processors.",
);

const FEWER_ROWS: Remedy = Remedy::new(
    "Raise `results.source_limit`, or record less of this source (fewer signals, a longer `every`).",
);

const WAIT_FOR_EVENTS: Remedy = Remedy::new(
    "Let these programs wait (poll, select, a blocking read, a sleep) where they spin; \
     `timeloom run --verify` shows whether the run reproduces all the same.",
);

/// Number of lines of a failed program's log that the message shows.
const LAST_LINES: usize = 12;

/// Wall time for which the end of a run waits for reports about programs that exited earlier.
const SETTLED_WITHIN: StdDuration = StdDuration::from_secs(10);

/// Polling interval of that wait, in wall time.
const SETTLED_EVERY: StdDuration = StdDuration::from_millis(1);

//! The end of a run: clock and programs stop for good, and the results are made whole.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use timeloom_guest::{Order, Reckoning, end_grants};
use timeloom_results::{
    Check, ClockAction, CutRows, Failure, GrantsMade, Manifest, Recorder, RunDirectory,
};
use timeloom_scenario::{Compute, Plan};
use timeloom_time::{Duration, Instant, Virtual};

use super::{Progress, Run, Summary};
use crate::error::RunError;
use crate::judgement::{close, judge};
use crate::placed::tell;
use crate::timelines;
use crate::verdict::{End, Reporter};

impl Run<'_> {
    /// Returns how the run ended now that all is known that happened before (a program
    /// failed at its last instant, a plant could not compute the rest of it), and the
    /// share in the pause that keeps the bus from ever resuming.
    pub(super) fn stop_for_good(
        &self,
        planned_end: Instant<Virtual>,
        mut end: End,
        over: &AtomicBool,
        reporter: &Reporter,
    ) -> (End, Option<timeloom_bus::Hold>) {
        let hold = self.bus.hold("timeloom", "the end of the run").ok();
        // In real mode the bus stops nothing.
        let at = match self.session.pause() {
            Ok(at) => at,
            Err(error) => {
                reporter.failed("session", error.to_string());
                self.session.clock().now()
            }
        };
        // Whoever ends from here on was ended by us; who did before, did so in the run.
        let given_up = std::time::Instant::now() + SETTLED_WITHIN;
        while self.session.has_unsettled_end() && std::time::Instant::now() < given_up {
            std::thread::sleep(SETTLED_EVERY);
        }
        over.store(true, Ordering::SeqCst);
        if end == End::Reached {
            end = self.verdict.failure().unwrap_or(End::Reached);
        }
        self.scribe.clock_edge(ClockAction::End);
        end_grants(&*self.keyboard, end == End::Reached);
        self.session.kill_all();
        for (name, plant) in &self.plants {
            // In a run that has failed already this changes nothing.
            if let Err(error) = plant.finish(at.min(planned_end)) {
                self.scribe
                    .event("local", name, "trouble", &error.to_string());
                if end == End::Reached {
                    end = End::Failed(Failure {
                        culprit: name.clone(),
                        what: error.to_string(),
                        at: at.min(planned_end),
                        log: Vec::new(),
                    });
                }
            }
        }
        (end, hold)
    }

    pub(super) fn put_away(
        self,
        mut end: End,
        hold: Option<timeloom_bus::Hold>,
        reckoning: &Reckoning,
        progress: Progress,
        mut manifest: Manifest,
    ) -> Result<Summary, RunError> {
        let attacks = self.plan.attacks.iter().filter(|attack| attack.enabled);
        for attack in attacks {
            self.scribe
                .label(attack, Instant::ZERO + progress.virtual_time);
        }
        self.scribe
            .host_times(Instant::ZERO + progress.virtual_time);
        self.keyboard.release();
        drop(self.devices);
        if let Some(network) = self.network {
            manifest.untrusted.extend(network.stop(&self.scribe));
        }
        let doubt = self.session.clock().distrusted();
        manifest.untrusted.extend(doubt.map(str::to_owned));
        let doubt = self.session.clock().doubt_of_file_dates();
        manifest.untrusted.extend(doubt.map(str::to_owned));
        if let Some(tunnels) = self.tunnels {
            manifest
                .untrusted
                .extend(tell(&tunnels.stop(), &self.scribe));
        }
        for (name, capture) in self.captures {
            let statistics = capture.stop();
            if statistics.dropped_by_kernel > 0 {
                manifest.degraded_modes.push(format!(
                    "The capture of {name} lacks {} of {} frames, which the kernel dropped.",
                    statistics.dropped_by_kernel,
                    statistics.dropped_by_kernel + statistics.delivered
                ));
            }
        }
        for plant in self.plants.values() {
            let _ = plant.stop();
        }
        let unhandled = self.session.unhandled_calls();
        for call in &unhandled {
            let text = format!("{} × {}: {}", call.count, call.call, call.outcome);
            self.scribe
                .event("local", &call.program, "not virtualised", &text);
        }
        if self.plan.time.compute == Compute::None {
            let (text, doubt) = told(&self.session.order());
            self.scribe.event("local", "timeloom", "order", &text);
            manifest.degraded_modes.extend(doubt);
        }
        manifest.pauses = reckoning.pauses;
        manifest.grants = self.keyboard.grants().map(|grants| {
            let tally = grants.tally();
            GrantsMade {
                count: tally.grants,
                ran: tally.ran,
                waited: tally.waited,
            }
        });
        timelines::put_away(&self.keepers);
        drop(hold);
        drop((
            self.keyboard,
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
            // It says how the run ended all the same.
            Err(error) => {
                if end == End::Reached {
                    end = End::Failed(Failure {
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
            // A plant's log is named as one.
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

fn told_cut(cut: &CutRows) -> String {
    let since = Duration::from_ns(cut.since.as_ns());
    format!(
        "The rows of {} reached their limit (results.source_limit) at {since}: {} after that are left out.",
        cut.source, cut.left_out_rows
    )
}

/// Makes the results whole, as far as the disk lets it, and holds them against the plan.
fn complete(
    plan: &Plan,
    directory: &RunDirectory,
    recorder: &Recorder,
) -> Result<Vec<Check>, RunError> {
    directory.use_room_aside()?;
    recorder.finish()?;
    let checks = judge(plan, directory)?;
    directory.write_checks(&checks)?;
    Ok(checks)
}

/// What is to be said of the order of a run whose computing takes no time, and why it
/// does not reproduce, if that is known.
fn told(order: &Order) -> (String, Option<String>) {
    let text = format!(
        "{} turns; after {} of them more than one thread ran, in the kernel's order; {} steps while a thread computed",
        order.turns, order.shared, order.steps
    );
    let names: Vec<&str> = order.spinning.iter().map(String::as_str).collect();
    let doubt = (order.steps > 0).then(|| {
        format!(
            "Time was moved by {} steps for programs that computed or polled for long at one instant ({}); the run may not reproduce.",
            order.steps,
            names.join(", ")
        )
    });
    (text, doubt)
}

/// How much of the log of who failed is told.
const LAST_LINES: usize = 12;

/// How long the end of a run waits for what is known of programs that ended before.
const SETTLED_WITHIN: StdDuration = StdDuration::from_secs(10);

/// How often it looks.
const SETTLED_EVERY: StdDuration = StdDuration::from_millis(1);

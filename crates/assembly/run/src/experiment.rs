//! Phases of a run, in order.

mod ending;
mod preparing;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration as StdDuration;

use timeloom_bus::Bus;
use timeloom_emulation::Tunnels;
use timeloom_fabric::Fabric;
use timeloom_guest::{Compute, GranterCheck, Session};
use timeloom_results::{Manifest, Recorder, RunDirectory};
use timeloom_scenario::{OpenFlow, Plan, Program};
use timeloom_sys::environment;
use timeloom_time::{Duration, Instant, Virtual};

use crate::attacks::RunAttacks;
use crate::containers::Containers;
use crate::error::RunError;
use crate::kernel_timers::KernelTimers;
use crate::links::RunLinks;
use crate::names::Identities;
use crate::node::Membership;
use crate::opening::{note_failure, open};
use crate::options::RunOptions;
use crate::outputs::Logs;
use crate::periods::Periods;
use crate::programs::{Busy, Stage, in_thread};
use crate::quiescence::Quiescence;
use crate::record::RunRecorder;
use crate::simulated::Network;
use crate::summary::{Progress, Summary};
use crate::testbed::ControlEndpoint;
use crate::verdict::{End, Verdict};
use crate::{hosts, python, timelines};

/// Executes the share of a node, which is the whole plan if the run has no other nodes.
pub(crate) fn run_here(
    plan: &Plan,
    options: RunOptions,
    membership: &dyn Membership,
) -> Result<Summary, RunError> {
    let (directory, mut manifest) = open(plan, &options)?;
    manifest.environment = usual_environment();
    manifest.inherited = inherited(plan);
    directory.write_manifest(&manifest)?;
    // From here on, the manifest records how the run ended, even if a later step fails.
    let interrupted = Arc::clone(&options.interrupted);
    let provided;
    let begun = match python::provide(plan, &directory, &options.interrupted) {
        Ok(plan) => {
            provided = plan;
            Run::prepare(&provided, membership, &options, &directory, &mut manifest)
        }
        Err(error) => Err(error),
    };
    match begun {
        Ok(run) => run.go(options, manifest),
        Err(error @ RunError::Mistakes(_)) => {
            // No program has run yet, so this error is treated like one that `check` finds.
            if let Err(left) = directory.discard() {
                (options.warn)(format!("the run directory could not be removed: {left}"));
            }
            Err(error)
        }
        Err(error) => {
            note_failure(&directory, manifest, &error, &interrupted);
            Err(error)
        }
    }
}

/// Returns the variables of this process that programs and plants inherit by default, and the
/// search path of Python.
fn usual_environment() -> BTreeMap<String, String> {
    let text = |it: OsString| it.to_string_lossy().into_owned();
    let path = std::env::var_os(python::VARIABLE);
    let path = path.map(|path| (python::VARIABLE.into(), path));
    let all = environment::usual(None).chain(path);
    all.map(|(name, value)| (text(name), text(value))).collect()
}

/// Returns the names of the variables of this process that programs and plants of the plan inherit
/// by `inherit`. Their values may be secrets.
fn inherited(plan: &Plan) -> Vec<String> {
    let of_programs = plan.programs().map(|(_, program)| &program.inherit);
    let of_plants = plan.simulation.plants.values().map(|plant| &plant.inherit);
    let wanted: Vec<String> = of_programs.chain(of_plants).flatten().cloned().collect();
    let names = std::env::vars_os().map(|(name, _)| name);
    let names = names.filter(|name| environment::is_wanted(name, &wanted));
    let names: BTreeSet<_> = names.map(|it| it.to_string_lossy().into_owned()).collect();
    names.into_iter().collect()
}

/// A run whose clock is stopped at zero and whose environment is complete.
///
/// Fields are dropped in this order: clients before their servers, and the session last.
struct Run<'a> {
    plan: &'a Plan,
    membership: &'a dyn Membership,
    directory: &'a RunDirectory,
    logs: Logs<'a>,
    devices: Vec<timeloom_plant::modbus::ModbusDevice>,
    network: Option<Network>,
    captures: BTreeMap<String, timeloom_fabric::PacketCapture>,
    tunnels: Option<Tunnels>,
    plants: std::collections::BTreeMap<String, Arc<timeloom_plant::PausedPlant>>,
    fabric: Fabric,
    control_endpoint: Arc<ControlEndpoint>,
    run_recorder: RunRecorder,
    recorder: Arc<Recorder>,
    verdict: Verdict,
    bus: Bus,
    hosts: hosts::Hosts,
    keepers: Vec<timelines::TimelineDaemon>,
    /// Emulators of virtual machines, each with its host.
    machines: Vec<(String, Program)>,
    /// Roots in which programs of containers run.
    containers: Containers,
    /// Host names and name service files of the hosts.
    identities: Identities,
    kernel_timers: KernelTimers,
    links: Arc<RunLinks>,
    attacks: Arc<RunAttacks>,
    session: Arc<Session>,
}

impl<'a> Run<'a> {
    fn go(self, mut options: RunOptions, manifest: Manifest) -> Result<Summary, RunError> {
        let over = AtomicBool::new(false);
        let reporter = self.verdict.reporter();
        let quiescence = Quiescence::new()?;
        let components = self.control_endpoint.components();
        components.have_quiescence(quiescence.clone());
        let planned_end = Instant::<Virtual>::ZERO + self.plan.time.duration;
        let stage = Stage {
            session: &self.session,
            fabric: &self.fabric,
            hosts: &self.hosts,
            plan: self.plan,
            whole: self.membership.whole(self.plan),
            containers: &self.containers,
            identities: &self.identities,
            keepers: &self.keepers,
            logs: &self.logs,
            run_recorder: &self.run_recorder,
            reporter: &reporter,
            over: &over,
            attacks: &self.attacks,
            ready: self.membership.ready(),
            quiescence: &quiescence,
            busy: Busy::default(),
            planned_end,
        };
        let mut progress = Progress {
            virtual_time: Duration::ZERO,
            planned: self.plan.time.duration,
            wall: Duration::ZERO,
            paused: Duration::ZERO,
        };
        let (ended, reckoning) = std::thread::scope(|scope| {
            self.schedule(scope, &stage);
            let clock = self.session.clock();
            let (began, paused_before) = (clock.wall(), clock.paused_total());
            self.membership.get_ready(&self.run_recorder, components);
            if self.plan.time.skips() {
                if let Some(ahead) = self.network.as_ref().and_then(Network::ahead) {
                    self.session.let_go_ahead(ahead);
                }
                if let Some(order) = self.membership.order() {
                    self.session.share_order(order);
                }
                let quiescence = quiescence.clone();
                let idle = self.network.as_ref().map(Network::quiet);
                self.session.skip_while_waiting(move || {
                    let idle = idle.as_ref();
                    quiescence.is_free() && idle.is_none_or(|idle| idle.load(Ordering::SeqCst))
                });
            }
            let go = || {
                self.membership
                    .begin(&self.session, &self.run_recorder, &options.interrupted)
            };
            let met = self
                .membership
                .meet(&self.session, &self.run_recorder, &options.interrupted);
            let period = self.plan.time.period.filter(|period| {
                // The end of the run stops the clocks anyway.
                Instant::<Virtual>::ZERO + *period < planned_end
            });
            if let Err(error) =
                met.and_then(|()| self.control_endpoint.begin(period, self.membership, go))
                && !options.interrupted.load(Ordering::SeqCst)
            {
                reporter.failed("session", error.to_string());
            }
            let over_ref = &over;
            if let Some(length) = period {
                let (bus, plants, of_periods) = (&self.bus, &self.plants, reporter.clone());
                in_thread(scope, &reporter, "timeloom", move || {
                    let periods = Periods {
                        length,
                        end: planned_end,
                        clock,
                        bus,
                        plants,
                        reporter: &of_periods,
                    };
                    periods.run(|| over_ref.load(Ordering::SeqCst));
                });
            }
            let reached = reporter.clone();
            in_thread(scope, &reporter, "timeloom", move || {
                let over = || over_ref.load(Ordering::SeqCst);
                if clock.wait_until_in_the_background(planned_end, over) {
                    reached.reached();
                }
            });
            let (plan, run_recorder) = (self.plan, self.run_recorder.clone());
            let (all, keepers) = (&self.hosts, &self.keepers);
            let run = self.directory;
            in_thread(scope, &reporter, "timeloom", move || {
                let over = || over_ref.load(Ordering::SeqCst);
                hosts::record(plan, clock, all, &run_recorder, over);
            });
            let (plan, run_recorder) = (self.plan, self.run_recorder.clone());
            in_thread(scope, &reporter, "timeloom", move || {
                let over = || over_ref.load(Ordering::SeqCst);
                timelines::record(plan, clock, all, (run, keepers), &run_recorder, over);
            });
            let (plan, links, failing) = (self.plan, &self.links, reporter.clone());
            if !plan.events.is_empty() {
                in_thread(scope, &reporter, "timeloom", move || {
                    links.follow(plan, &failing, || over_ref.load(Ordering::SeqCst));
                });
            }
            self.serve_attacks(scope, &stage);
            let end = loop {
                let heard = self.verdict.wait(StdDuration::from_millis(200));
                progress.virtual_time = (clock.now() - Instant::ZERO).min(progress.planned);
                progress.wall = clock.wall() - began;
                progress.paused = clock.paused_total() - paused_before;
                (options.progress)(&progress);
                match self.control_endpoint.grants().map(|grants| grants.look()) {
                    Some(GranterCheck::Alone(text)) => (options.warn)(text),
                    Some(GranterCheck::GaveUp(text)) => reporter.failed("granter", text),
                    Some(GranterCheck::Fine) | None => {}
                }
                if let Some((culprit, why)) = self.membership.halted() {
                    reporter.failed(culprit, why);
                }
                if let Some(trouble) = self.fabric.trouble() {
                    reporter.failed(OpenFlow::HOST, trouble);
                }
                if let Some(end) = heard {
                    break end;
                }
                if options.interrupted.load(Ordering::SeqCst) {
                    break End::Interrupted;
                }
            };
            // The clock stops for good before any part is removed, so that no program observes the
            // removal.
            let mut reckoning = clock.reckon();
            let ended = self.stop_for_good(planned_end, end, &over, &reporter);
            // Time has passed until the stop.
            reckoning.virtual_time = ended.at.min(planned_end) - Instant::ZERO;
            clock.wake();
            stage.end_stragglers();
            (ended, reckoning)
        });
        progress.virtual_time = reckoning.virtual_time;
        progress.wall = reckoning.wall;
        progress.paused = reckoning.paused;
        self.finalize(ended, &reckoning, progress, manifest)
    }

    /// Starts and stops attacks during the run: by schedule, and as clients request.
    fn serve_attacks<'s>(&'s self, scope: &'s std::thread::Scope<'s, '_>, stage: &'s Stage<'s>) {
        let attacks = &self.attacks;
        let has_events = self.plan.events.iter().any(|event| event.attack.is_some());
        if has_events {
            in_thread(scope, stage.reporter, "timeloom", move || {
                attacks.follow(scope, stage);
            });
        }
        if let Some(requests) = attacks.requests() {
            in_thread(scope, stage.reporter, "timeloom", move || {
                attacks.serve(scope, stage, &requests);
            });
        }
    }

    /// Records the enabled attacks and starts the programs that are due at virtual zero and have no
    /// conditions; the clock is still stopped. Schedules all other programs.
    fn schedule<'s>(&'s self, scope: &'s std::thread::Scope<'s, '_>, stage: &'s Stage<'s>) {
        self.attacks.label(self.plan, &self.run_recorder);
        let keepers = self.keepers.iter();
        let keepers = keepers.map(|keeper| (keeper.host.as_str(), &keeper.program));
        let machines = self.machines.iter();
        let machines = machines.map(|(host, program)| (host.as_str(), program));
        let mut due = Vec::new();
        let all = keepers.chain(machines).chain(self.containers.programs());
        let all = all.chain(self.plan.programs());
        for (host, program) in all.filter(|(_, it)| !self.attacks.is_by_hand(&it.name)) {
            if program.start == Duration::ZERO && program.after.is_empty() {
                due.push((host, program));
            } else {
                stage.start_later(scope, host, program, Instant::ZERO + program.start);
            }
        }
        // Up to `MANY` programs start one after another, in the order of the file. A start mostly
        // waits for the kernel and for the program's own first steps, so more programs are started
        // concurrently.
        let is_ordered = due.len() <= MANY || self.plan.time.compute == Compute::None;
        let next = AtomicUsize::new(0);
        let start = || {
            while let Some(&(host, program)) = due.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = stage.start_now(scope, host, program) {
                    stage.reporter.failed(&program.name, error.to_string());
                }
            }
        };
        std::thread::scope(|beside| {
            for _ in 1..if is_ordered { 1 } else { AT_ONCE } {
                // If the extra thread cannot be created, the start only takes longer.
                let _ = std::thread::Builder::new().spawn_scoped(beside, start);
            }
            start();
        });
    }
}

/// Number of programs above which programs are started concurrently.
const MANY: usize = 16;

/// Number of threads that start programs concurrently.
const AT_ONCE: usize = 8;

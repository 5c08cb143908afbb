//! The life of a run, in order.

mod ending;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration as StdDuration;

use timeloom_bus::Bus;
use timeloom_fabric::{Fabric, FabricError};
use timeloom_guest::{
    ClockOptions, FreezeKind, Grants, HoldError, Lookout, ProcFiles, Session, SessionOptions,
    UnhandledCall, serve,
};
use timeloom_portal::Tunnels;
use timeloom_results::{Check, ClockAction, Manifest, Outcome, Recorder, RunDirectory};
use timeloom_scenario::{Compute, Mode, OpenFlow, Plan, Proc, Program};
use timeloom_time::{Duration, Instant, Utc, Virtual};

use crate::attention::Attention;
use crate::error::RunError;
use crate::outputs::Logs;
use crate::placed::{Together, conduct};
use crate::programs::{Busy, ReadyBoard, Stage, in_thread};
use crate::record::{LOCAL, Scribe};
use crate::simulated::{Network, Surroundings};
use crate::testbed::{Door, Keyboard};
use crate::verdict::{End, Reporter, Verdict};
use crate::{
    devices, hosts, inputs, machines, network, outputs, pause_bus, plants, python, timelines,
};

/// What a run needs to know besides its plan.
pub struct Options {
    /// The run directory to make.
    pub directory: PathBuf,
    /// Whether an earlier run in that directory is lost, instead of being a mistake.
    pub replace: bool,
    /// The program `timeloom`, which keeps the scenario's timelines.
    pub timeloom: PathBuf,
    /// Name of the session for `timeloom query` and others.
    pub session: String,
    /// Set from outside (Ctrl-C, SIGTERM) to end the run.
    pub interrupted: Arc<AtomicBool>,
    /// Called about twice a second.
    pub progress: Box<dyn FnMut(&Progress)>,
    /// Called with messages for the user.
    pub warn: Arc<dyn Fn(String) + Send + Sync>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Virtual time so far.
    pub virtual_time: Duration,
    /// Virtual time planned.
    pub planned: Duration,
    /// Wall time since the clock was let go.
    pub wall: Duration,
    /// Of that, with the clock standing.
    pub paused: Duration,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Summary {
    /// How it ended.
    pub end: End,
    /// What the scenario demanded, and got.
    pub checks: Vec<Check>,
    /// How far it got, and how long that took.
    pub progress: Progress,
    /// Calls that programs made and that are not virtualised.
    pub unhandled: Vec<UnhandledCall>,
    /// Why neither what holds nor what fails is to be trusted, in whole sentences.
    pub untrusted: Vec<String>,
}

impl Summary {
    /// Whether the run reached its end, is to be trusted, and every check that applies
    /// holds.
    pub fn passed(&self) -> bool {
        self.end == End::Reached
            && self.untrusted.is_empty()
            && self
                .checks
                .iter()
                .all(|check| check.passed || !check.applies)
    }
}

/// Runs a plan to its end and leaves a complete run directory.
///
/// # Errors
/// When it could not begin. A failure after that is in the summary and in the
/// results, with all that was recorded until then.
pub fn run(plan: &Plan, options: Options) -> Result<Summary, RunError> {
    match plan.placement.is_spread() {
        true => conduct(plan, options),
        false => run_here(plan, options, None),
    }
}

/// As [`run`], on this machine, perhaps as one of several.
pub(crate) fn run_here(
    plan: &Plan,
    options: Options,
    together: Option<&Together>,
) -> Result<Summary, RunError> {
    let directory = match options.replace {
        true => RunDirectory::replace(&options.directory)?,
        false => RunDirectory::create(&options.directory)?,
    };
    directory.set_room_aside()?;
    let scenario = plan.to_toml();
    directory.write_scenario(&scenario)?;
    let mut manifest = Manifest::begin(&plan.name, plan.seed, civil_now(), scenario.as_bytes());
    manifest.time_mode = plan.time.mode.to_string();
    directory.write_manifest(&manifest)?;
    let plan = &python::provide(plan, &options.directory)?;
    let begun = Run::prepare(plan, together, &options, &directory, &mut manifest);
    match begun {
        Ok(run) => run.go(options, manifest),
        Err(error) => {
            manifest.outcome = Outcome::Failed;
            manifest.culprit = Some(error.to_string());
            manifest.ended = Some(civil_now());
            // Why it could not begin is to be said before what else went wrong.
            let _ = directory.use_room_aside();
            let _ = directory.write_manifest(&manifest);
            Err(error)
        }
    }
}

/// A run whose clock stands at zero with everything around it in place.
///
/// The order of the fields is the order in which they are dropped: what asks
/// before what answers, the session last.
struct Run<'a> {
    plan: &'a Plan,
    together: Option<&'a Together>,
    directory: &'a RunDirectory,
    logs: Logs<'a>,
    devices: Vec<timeloom_plant::modbus::ModbusDevice>,
    network: Option<Network>,
    captures: BTreeMap<String, timeloom_fabric::Capture>,
    tunnels: Option<Tunnels>,
    plants: std::collections::BTreeMap<String, Arc<timeloom_plant::Exchange>>,
    fabric: Fabric,
    keyboard: Arc<Keyboard>,
    scribe: Scribe,
    recorder: Arc<Recorder>,
    verdict: Verdict,
    bus: Bus,
    hosts: hosts::Hosts,
    keepers: Vec<timelines::TimelineDaemon>,
    /// The emulators of virtual machines, with their hosts.
    machines: Vec<(String, Program)>,
    session: Arc<Session>,
}

impl<'a> Run<'a> {
    fn prepare(
        plan: &'a Plan,
        together: Option<&'a Together>,
        options: &Options,
        directory: &'a RunDirectory,
        manifest: &mut Manifest,
    ) -> Result<Self, RunError> {
        let warn = Arc::clone(&options.warn);
        let session = Arc::new(Session::new(SessionOptions {
            name: options.session.clone(),
            clock: ClockOptions {
                start: plan.time.start,
                dilation: plan.time.dilation,
                paused: true,
                tsc: match plan.time.tsc {
                    timeloom_scenario::Tsc::Native => timeloom_guest::Tsc::Native,
                    timeloom_scenario::Tsc::Emulate => timeloom_guest::Tsc::Emulate,
                },
                proc: match plan.time.proc {
                    Proc::Virtual => ProcFiles::Virtual,
                    Proc::Machine => ProcFiles::Machine,
                },
                compute: match plan.time.compute {
                    Compute::Real => timeloom_guest::Compute::Real,
                    Compute::None => timeloom_guest::Compute::None,
                },
            },
            warn: Box::new(move |text| warn(text)),
        })?);
        let hosts = hosts::add(plan, &session)?;
        let keepers = timelines::prepare(plan, directory, &options.timeloom)?;
        let machines = machines::programs(plan);
        manifest.degraded_modes.extend(machines::leaks(plan));
        if session.freeze_kind() == FreezeKind::Signals {
            manifest.degraded_modes.push(
                "Processes are stopped by SIGSTOP instead of the cgroup freezer; parents may notice.".into(),
            );
        }
        manifest
            .degraded_modes
            .extend(session.clock().degraded_mode().map(str::to_owned));
        if plan.time.proc == Proc::Virtual {
            let machine = session.machine_files();
            let sentence = machine.map(|reason| format!("{reason}."));
            manifest.degraded_modes.extend(sentence);
        }
        // No program sees time beyond it, however late its end is noticed.
        session.clock().end_at(Instant::ZERO + plan.time.duration);
        let civil_start = session.clock().civil().at(Instant::ZERO);
        manifest.session_start = Some(civil_start);
        let emulators = machines.iter().map(|(_, program)| program);
        for program in emulators.chain(plan.programs().map(|(_, program)| program)) {
            let file = program_file(&program.directory, &program.run[0]);
            manifest.add_program(&inputs::without_detours(&file));
        }
        if together.is_none() {
            // Else they are kept where they come from.
            inputs::keep(plan, directory, manifest)?;
        }
        directory.write_manifest(manifest)?;

        let verdict = Verdict::new(session.clock());
        let logs = Logs::new(directory, plan);
        let recorder = Arc::new(directory.recorder()?);
        recorder.limit(plan.results.journal_limit.as_bytes());
        recorder.limit_each(plan.results.source_limit.as_bytes());
        let scribe = Scribe::new(
            Arc::clone(&recorder),
            Arc::clone(session.clock()),
            verdict.reporter(),
            together.map_or(LOCAL, |together| &together.name),
        );
        session.clock().on_host_change(scribe.host_sink());
        let bus = pause_bus::build(
            plan,
            &session,
            &scribe,
            verdict.reporter(),
            &options.warn,
            together,
        );
        // Early, since a session that does not answer counts as dead: `timeloom
        // clean` would take its cgroup away.
        let keyboard = Arc::new(Keyboard::new(
            Arc::clone(&session),
            (bus.clone(), together.is_some()),
            plan.time.skips(),
            grants(plan, &session),
            &options.directory,
        ));
        serve(&keyboard)?;
        let whole = together.map_or(plan, |together| &together.whole);
        let ends = together.map_or(&[][..], |together| &together.ends);
        let mut spec = network::specification(plan, ends);
        if together.is_some() {
            // Two machines must not give one to two stations.
            let macs = network::macs(whole);
            for station in &mut spec.stations {
                station.mac = macs.get(&station.name).copied();
            }
        }
        let fabric = Fabric::build(&spec)?;
        keyboard.open(Door::of(plan, &fabric, &keepers, &scribe)?);
        let reporter = verdict.reporter();
        let plants = plants::start(plan, &session, &logs, &bus, &scribe, &reporter)?;
        let clock = session.clock();
        let around = Surroundings {
            fabric: &fabric,
            directory,
            clock,
            civil_start,
            scribe: &scribe,
            reporter: &reporter,
        };
        let network = Network::start(plan, &around)?;
        machines::attach(plan, &fabric)?;
        network::settle_tcp(plan, &spec, &fabric).map_err(FabricError::from)?;
        let tunnels = match together {
            Some(together) => together.lay_tunnels(&fabric, clock)?,
            None => None,
        };
        let writers = devices::writers(whole);
        let devices = devices::start(plan, &writers, &fabric, &plants, &scribe, &reporter)?;
        let captures = outputs::captures(
            (plan, whole, ends),
            &fabric,
            directory,
            clock,
            civil_start,
            (&scribe, &reporter),
        )?;
        Ok(Self {
            plan,
            together,
            directory,
            logs,
            devices,
            network,
            captures,
            tunnels,
            plants,
            fabric,
            keyboard,
            scribe,
            recorder,
            verdict,
            bus,
            hosts,
            keepers,
            machines,
            session,
        })
    }

    fn go(self, mut options: Options, manifest: Manifest) -> Result<Summary, RunError> {
        let over = AtomicBool::new(false);
        let reporter = self.verdict.reporter();
        let own = ReadyBoard::default();
        let ready = self.together.map_or(&own, |together| &*together.ready);
        let attention = Attention::default();
        let planned_end = Instant::<Virtual>::ZERO + self.plan.time.duration;
        let stage = Stage {
            session: &self.session,
            fabric: &self.fabric,
            hosts: &self.hosts,
            keepers: &self.keepers,
            logs: &self.logs,
            scribe: &self.scribe,
            reporter: &reporter,
            over: &over,
            ready,
            attention: &attention,
            busy: Busy::default(),
            planned_end,
        };
        let mut progress = Progress {
            virtual_time: Duration::ZERO,
            planned: self.plan.time.duration,
            wall: Duration::ZERO,
            paused: Duration::ZERO,
        };
        let (end, hold, reckoning) = std::thread::scope(|scope| {
            self.schedule(scope, &stage);
            let clock = self.session.clock();
            let (began, paused_before) = (clock.wall(), clock.paused_total());
            if self.together.is_none() {
                self.scribe.clock_edge(ClockAction::Start);
            }
            if self.plan.time.skips() {
                if let Some(ahead) = self.network.as_ref().and_then(Network::ahead) {
                    self.session.let_go_ahead(ahead);
                }
                let attention = attention.clone();
                let idle = self.network.as_ref().map(Network::quiet);
                self.session.skip_while_waiting(move || {
                    let idle = idle.as_ref();
                    attention.is_free() && idle.is_none_or(|idle| idle.load(Ordering::SeqCst))
                });
            }
            let go = || match self.together {
                Some(together) => together
                    .begin(&self.session, &self.scribe)
                    .map_err(HoldError::other),
                None => self.session.resume().map_err(HoldError::from),
            };
            if let Err(error) = self.keyboard.begin(go) {
                reporter.failed("session", error.to_string());
            }
            let reached = reporter.clone();
            let over_ref = &over;
            in_thread(scope, &reporter, "timeloom", move || {
                let over = || over_ref.load(Ordering::SeqCst);
                if clock.wait_until_in_the_background(planned_end, over) {
                    reached.reached();
                }
            });
            let (plan, scribe) = (self.plan, self.scribe.clone());
            let (all, keepers) = (&self.hosts, &self.keepers);
            in_thread(scope, &reporter, "timeloom", move || {
                let over = || over_ref.load(Ordering::SeqCst);
                hosts::record(plan, clock, all, &scribe, over);
            });
            let (plan, scribe) = (self.plan, self.scribe.clone());
            in_thread(scope, &reporter, "timeloom", move || {
                let over = || over_ref.load(Ordering::SeqCst);
                timelines::record(plan, clock, all, keepers, &scribe, over);
            });
            let end = loop {
                let heard = self.verdict.wait(StdDuration::from_millis(200));
                progress.virtual_time = (clock.now() - Instant::ZERO).min(progress.planned);
                progress.wall = clock.wall() - began;
                progress.paused = clock.paused_total() - paused_before;
                (options.progress)(&progress);
                self.look_at_plants(&reporter);
                match self.keyboard.grants().map(|grants| grants.look()) {
                    Some(Lookout::Alone(text)) => (options.warn)(text),
                    Some(Lookout::GaveUp(text)) => reporter.failed("granter", text),
                    Some(Lookout::Fine) | None => {}
                }
                if let Some(why) = self.together.and_then(|it| it.line.halted()) {
                    reporter.failed("pause bus", why);
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
            // The clock stops for good before anything is taken down, so that
            // no program sees the world fall apart.
            let reckoning = clock.reckon();
            let (end, hold) = self.stop_for_good(planned_end, end, &over, &reporter);
            clock.wake();
            stage.end_stragglers();
            (end, hold, reckoning)
        });
        progress.virtual_time = reckoning.virtual_time;
        progress.wall = reckoning.wall;
        progress.paused = reckoning.paused;
        self.put_away(end, hold, &reckoning, progress, manifest)
    }

    /// Programs due at zero stand ready before the clock is let go.
    fn schedule<'s>(&'s self, scope: &'s std::thread::Scope<'s, '_>, stage: &'s Stage<'s>) {
        for attack in self.plan.attacks.iter().filter(|attack| attack.enabled) {
            self.scribe.label(attack, Instant::FAR_FUTURE);
        }
        let keepers = self.keepers.iter();
        let keepers = keepers.map(|keeper| (keeper.host.as_str(), &keeper.program));
        let machines = self.machines.iter();
        let machines = machines.map(|(host, program)| (host.as_str(), program));
        let mut due = Vec::new();
        for (host, program) in keepers.chain(machines).chain(self.plan.programs()) {
            if program.start == Duration::ZERO && program.after.is_empty() {
                due.push((host, program));
            } else {
                stage.start_later(scope, host, program);
            }
        }
        // Few begin in the order of the file. A start is mostly waiting, for the kernel and
        // for the program's own first steps, so many are started side by side.
        let is_ordered = due.len() <= MANY || self.plan.time.compute == Compute::None;
        let next = AtomicUsize::new(0);
        let start = || {
            while let Some(&(host, program)) = due.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = stage.start_now(scope, host, program) {
                    stage.reporter.failed(&program.name, error);
                }
            }
        };
        std::thread::scope(|beside| {
            for _ in 1..if is_ordered { 1 } else { AT_ONCE } {
                // Without one it only takes longer.
                let _ = std::thread::Builder::new().spawn_scoped(beside, start);
            }
            start();
        });
    }

    /// A plant that nobody asks tells nobody that it has died.
    fn look_at_plants(&self, reporter: &Reporter) {
        for (name, plant) in &self.plants {
            if let Err(error) = plant.look() {
                self.scribe
                    .event("local", name, "trouble", &error.to_string());
                reporter.failed(name, error.to_string());
            }
        }
    }
}

/// More programs than this are started side by side.
const MANY: usize = 16;

/// So many.
const AT_ONCE: usize = 8;

/// Who grants the run time, if its time is granted.
fn grants(plan: &Plan, session: &Session) -> Option<Arc<Grants>> {
    if plan.time.mode != Mode::Stepped {
        return None;
    }
    let patience = StdDuration::from_nanos(plan.time.stepping().patience.as_ns().max(0) as u64);
    let end = Instant::<Virtual>::ZERO + plan.time.duration;
    let clock = Arc::clone(session.clock());
    Some(Arc::new(Grants::new(clock, patience, Some(end))))
}

/// The file that a program's first word names, for its hash.
fn program_file(directory: &Path, word: &str) -> PathBuf {
    if word.contains('/') {
        return directory.join(word);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|entry| entry.join(word))
        .find(|file| file.is_file())
        .unwrap_or_else(|| word.into())
}

pub(crate) fn civil_now() -> Instant<Utc> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Instant::from_ns(since.map_or(0, |since| since.as_nanos() as i64))
}

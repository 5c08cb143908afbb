//! Programs of the plan: started at their virtual instants, and watched until they end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Scope;
use std::time::Duration as StdDuration;

use timeloom_fabric::{Fabric, Namespace};
use timeloom_guest::{CommandSpec, Compute, Guest, Output, ProgramEnd, Session, Variables};
use timeloom_scenario::{OpenFlow, Plan, Program};
use timeloom_sys::environment;
use timeloom_time::{Duration, Instant, Virtual};

use crate::attacks::RunAttacks;
use crate::containers::{Containers, TIMELINES};
use crate::error::RunError;
use crate::hosts::Hosts;
use crate::names::Identities;
use crate::node::ReadyBoard;
use crate::outputs::{Log, Logs};
use crate::quiescence::Quiescence;
use crate::readiness::Condition;
use crate::record::RunRecorder;
use crate::rights;
use crate::seeds;
use crate::timelines::TimelineDaemon;
use crate::verdict::Reporter;

/// State shared by the threads that start and watch programs.
pub(crate) struct Stage<'a> {
    pub(crate) session: &'a Session,
    pub(crate) fabric: &'a Fabric,
    pub(crate) hosts: &'a Hosts,
    pub(crate) plan: &'a Plan,
    /// Plan of the whole run, as its user wrote it.
    pub(crate) whole: &'a Plan,
    pub(crate) containers: &'a Containers,
    pub(crate) identities: &'a Identities,
    pub(crate) keepers: &'a [TimelineDaemon],
    pub(crate) logs: &'a Logs<'a>,
    pub(crate) run_recorder: &'a RunRecorder,
    pub(crate) reporter: &'a Reporter,
    /// Set when the run is over. Exits of programs are then not failures.
    pub(crate) over: &'a AtomicBool,
    pub(crate) attacks: &'a RunAttacks,
    pub(crate) ready: &'a ReadyBoard,
    pub(crate) quiescence: &'a Quiescence,
    /// Number of threads that start or watch programs.
    pub(crate) busy: Busy,
    /// Virtual instant at which the run ends.
    pub(crate) planned_end: Instant<Virtual>,
}

/// Counter of the threads that start programs or wait for their ends.
#[derive(Default)]
pub(crate) struct Busy(Arc<AtomicUsize>);

/// Guard that counts one thread for as long as the guard lives.
pub(crate) struct OneBusy(Arc<AtomicUsize>);

impl Busy {
    /// Counts one more thread that starts or watches a program, until the result is dropped.
    pub(crate) fn one_more(&self) -> OneBusy {
        self.0.fetch_add(1, Ordering::SeqCst);
        OneBusy(Arc::clone(&self.0))
    }
}

impl Drop for OneBusy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<'a> Stage<'a> {
    /// Starts a program at once. Used for programs that are due at virtual zero: the clock is still
    /// stopped, so all of them start at the same virtual instant.
    ///
    /// # Errors
    /// Returns an error if the program cannot be started.
    pub(crate) fn start_now<'s>(
        &'a self,
        scope: &'s Scope<'s, '_>,
        host: &'a str,
        program: &'a Program,
    ) -> Result<(), RunError>
    where
        'a: 's,
    {
        // Time must not skip until the program runs, because its first events are not known before.
        let _work = self.quiescence.work();
        let station = self.network_of(host);
        let (log, output) = Log::open(
            self.logs,
            &program.name,
            self.session.clock(),
            self.reporter,
        )?;
        self.quiescence.watch_output(log.output())?;
        let condition = program.ready.as_ref().map(|ready| {
            Condition::new(ready, station, log.output())
                .map_err(|error| RunError::Start(format!("sockets of {host}: {error}")))
        });
        let condition = condition.transpose()?.map(Arc::new);
        if let Some(condition) = &condition {
            self.quiescence.watch_condition(condition);
        }
        let network = station
            .as_fd()
            .try_clone_to_owned()
            .map_err(|error| RunError::Start(format!("namespace of {host}: {error}")))?;
        let root = self.containers.root_of(self.plan, host, &program.name);
        let (user, capabilities) = (program.user.as_ref(), program.capabilities.as_deref());
        let rights = match root {
            Some(_) => rights::in_container(user, capabilities).map(Some),
            None => rights::of(user, capabilities),
        };
        let rights = rights.map_err(|error| RunError::Start(error.to_string()))?;
        let mut env = self.environment(host, program, root.is_some());
        let (variable, seed) = seeds::variable(self.plan, &program.name);
        if !program.env.contains_key(variable) {
            env.insert(variable.into(), seed.into());
        }
        // Programs in a container do not see the run directory.
        if root.is_none() {
            let described = self.plan.system.hosts.get(host);
            if described.is_some_and(|host| host.ptp.is_some()) {
                let keys = self.logs.ptp_keys(host)?;
                env.entry("TIMELOOM_PTP_KEYS".into()).or_insert(keys);
            }
            let place = self.logs.place(&program.name, rights.as_ref())?;
            if let Some((variable, place)) = place {
                env.insert(variable.into(), place);
            }
        }
        let spec = CommandSpec {
            argv: program.run.iter().map(Into::into).collect(),
            inherits: Variables::Usual,
            env,
            directory: Some(program.directory.clone()),
            output: Output::To(output),
            network: Some(network),
            root,
            identity: self.identities.get(host).cloned(),
            rights,
            host: self.hosts.get(host).cloned(),
            name: Some(program.name.clone()),
        };
        let guest = self.session.spawn(&spec)?;
        drop(spec); // our end of its output
        // An agent has changed the paths of its share.
        let mut written = self.whole.programs().map(|(_, program)| program);
        let written = written.find(|it| it.name == program.name);
        let command = written.unwrap_or(program).run.join(" ");
        self.run_recorder
            .event(host, &program.name, "start", &command);
        self.session.watch_end(&guest)?;
        if condition.is_none() {
            self.ready.announce(&program.name);
        }
        let busy = self.busy.one_more();
        let watch = move || {
            let _busy = busy;
            self.watch(host, program, &guest, log, condition);
        };
        std::thread::Builder::new()
            .spawn_scoped(scope, watch)
            .map(drop)
            .map_err(|error| RunError::Start(format!("no thread to watch it: {error}")))
    }

    /// Waits for the start instant `at` and the conditions of a program, then starts it.
    pub(crate) fn start_later<'s>(
        &'a self,
        scope: &'s Scope<'s, '_>,
        host: &'a str,
        program: &'a Program,
        at: Instant<Virtual>,
    ) where
        'a: 's,
    {
        let busy = self.busy.one_more();
        let start = move || {
            let _busy = busy;
            let over = || self.over.load(Ordering::SeqCst);
            let due = self.session.clock().wait_until(at, over)
                && self.ready.wait_for(&program.after, self.over);
            if !due || over() {
                return;
            }
            // A stopped attack starts no further program.
            let Some(_permit) = self.attacks.permit(&program.name) else {
                return;
            };
            if let Err(error) = self.start_now(scope, host, program) {
                self.reporter.failed(&program.name, error.to_string());
            }
        };
        in_thread(scope, self.reporter, &program.name, start);
    }

    /// Returns true if the run is over.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Kills programs repeatedly until no thread starts or watches one. A program whose start was
    /// in progress joins the session's cgroup only after the first kill, and would otherwise stay
    /// in the paused session for ever.
    pub(crate) fn end_stragglers(&self) {
        while self.busy.0.load(Ordering::SeqCst) > 0 {
            self.session.kill_all();
            std::thread::sleep(STRAGGLERS_EVERY);
        }
    }

    /// Waits until a program is ready, if it has a condition, and then until it ends.
    fn watch(
        &self,
        host: &str,
        program: &Program,
        guest: &Guest,
        mut log: Log,
        condition: Option<Arc<Condition>>,
    ) {
        let ended = condition
            .and_then(|condition| self.wait_until_ready(host, program, condition, guest))
            .unwrap_or_else(|| guest.ended());
        if !self.over.load(Ordering::SeqCst) {
            self.note_end(host, program, &log, ended.status);
        }
        // From here on, time may skip again.
        drop(ended);
        // Background processes of the program may keep the log's pipe open.
        log.finish();
    }

    /// Records that a program ended during the run. The run fails if the program is essential and
    /// ended early or with a failure.
    fn note_end(&self, host: &str, program: &Program, log: &Log, status: i32) {
        // The log must contain the output that preceded the program's end.
        log.output().catch_up();
        let mut what = describe(status);
        if let Some(why) = self.session.explain_end(status) {
            what = format!("{what}: {why}");
        }
        self.run_recorder.event(host, &program.name, "end", &what);
        // A program that ends at the planned end of the run has not ended early.
        let is_early = self.session.clock().now() < self.planned_end;
        let was_stopped = self.attacks.has_stopped(&program.name);
        if program.essential && !was_stopped && (status != 0 || is_early) {
            self.reporter
                .failed(&program.name, format!("the program on host {host} {what}"));
        }
    }

    /// Returns the environment of a program. If its host keeps timelines, a variable names their
    /// directory.
    fn environment(
        &self,
        host: &str,
        program: &Program,
        is_inside: bool,
    ) -> BTreeMap<OsString, OsString> {
        let mut variables = environment(program, self.session.clock().compute());
        // Timeloom's package and the program's modules were found with this variable, in
        // `python.rs` and `inputs.rs`.
        if let Some(path) = std::env::var_os("PYTHONPATH").filter(|_| !is_inside) {
            variables.entry("PYTHONPATH".into()).or_insert(path);
        }
        if let Some(keeper) = self.keepers.iter().find(|keeper| keeper.host == host) {
            let place = match is_inside {
                true => TIMELINES.into(),
                false => keeper.directory.clone().into_os_string(),
            };
            variables
                .entry("TIMELOOM_TIMELINES".into())
                .or_insert(place);
        }
        variables
    }

    /// Returns the network namespace in which the programs of `host` run.
    fn network_of(&self, host: &str) -> &'a Namespace {
        if host == OpenFlow::HOST {
            return self.fabric.fabric_namespace();
        }
        self.fabric
            .station(host)
            .expect("every host of a checked plan is a station")
    }

    /// Waits until the program is ready. Returns how the program ended if it ended before.
    fn wait_until_ready(
        &self,
        host: &str,
        program: &Program,
        condition: Arc<Condition>,
        guest: &Guest,
    ) -> Option<ProgramEnd> {
        let clock = self.session.clock();
        let limit: Duration = program.ready_timeout;
        let due = clock.now() + limit;
        // Time does not skip beyond the instant at which the program must be ready.
        let _mark = clock.mark(due);
        let ready = || {
            program
                .ready
                .iter()
                .map(ToString::to_string)
                .collect::<String>()
        };
        loop {
            if condition.holds() {
                self.run_recorder
                    .event(host, &program.name, "ready", &ready());
                self.ready.announce(&program.name);
                return None;
            }
            if clock.now() > due {
                let what = format!(
                    "the program on host {host} was not ready ({}) within {limit} of virtual time",
                    ready()
                );
                self.reporter.failed(&program.name, what);
                return None;
            }
            if let Some(ended) = guest.ended_within(Some(LOOK_EVERY)) {
                return Some(ended);
            }
            // The end of the run stops the clock, so a virtual time limit would never pass.
            if self.over.load(Ordering::SeqCst) {
                return None;
            }
        }
    }
}

/// Runs `work` in a scoped thread; the run fails if the thread cannot be created.
pub(crate) fn in_thread<'s>(
    scope: &'s Scope<'s, '_>,
    reporter: &Reporter,
    culprit: &str,
    work: impl FnOnce() + Send + 's,
) {
    if let Err(error) = std::thread::Builder::new().spawn_scoped(scope, work) {
        reporter.failed(
            culprit,
            format!("no thread could be started for it: {error}"),
        );
    }
}

fn environment(program: &Program, compute: Compute) -> BTreeMap<OsString, OsString> {
    // Python must not buffer output, which reaches the log at the virtual time at which it is
    // printed.
    let mut variables = BTreeMap::from([("PYTHONUNBUFFERED".into(), "1".into())]);
    if compute == Compute::None {
        // With random hashes, the order of elements in Python's sets would differ from run to run.
        variables.insert("PYTHONHASHSEED".into(), "0".into());
    }
    let ours = std::env::vars_os();
    variables.extend(ours.filter(|(name, _)| environment::is_wanted(name, &program.inherit)));
    variables.extend(
        program
            .env
            .iter()
            .map(|(name, value)| (name.into(), value.into())),
    );
    variables
}

fn describe(status: i32) -> String {
    match status {
        0 => "ended with status 0".into(),
        129.. => format!("was killed by signal {}", status - 128),
        _ => format!("ended with status {status}"),
    }
}

/// Interval, in wall time, at which programs are killed after the end of the run.
const STRAGGLERS_EVERY: StdDuration = StdDuration::from_millis(50);

/// Polling interval of readiness, in wall time.
const LOOK_EVERY: StdDuration = StdDuration::from_millis(10);

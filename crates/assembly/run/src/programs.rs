//! The plan's programs: started at their virtual instants, watched to the end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Scope;
use std::time::Duration as StdDuration;

use timeloom_fabric::{Fabric, Namespace};
use timeloom_guest::{CommandSpec, Compute, Ended, Guest, Output, Session, Variables};
use timeloom_scenario::{OpenFlow, Plan, Program};
use timeloom_sys::environment;
use timeloom_time::{Duration, Instant, Virtual};

use crate::attention::Attention;
use crate::containers::{Containers, TIMELINES};
use crate::error::RunError;
use crate::hosts::Hosts;
use crate::names::Identities;
use crate::outputs::{Log, Logs};
use crate::readiness::Condition;
use crate::record::Scribe;
use crate::rights;
use crate::seeds;
use crate::timelines::TimelineDaemon;
use crate::verdict::Reporter;

/// What the programs share.
pub(crate) struct Stage<'a> {
    pub(crate) session: &'a Session,
    pub(crate) fabric: &'a Fabric,
    pub(crate) hosts: &'a Hosts,
    pub(crate) plan: &'a Plan,
    pub(crate) containers: &'a Containers,
    pub(crate) identities: &'a Identities,
    pub(crate) keepers: &'a [TimelineDaemon],
    pub(crate) logs: &'a Logs<'a>,
    pub(crate) scribe: &'a Scribe,
    pub(crate) reporter: &'a Reporter,
    /// Set when the run is over: nobody is blamed for ending then.
    pub(crate) over: &'a AtomicBool,
    pub(crate) ready: &'a ReadyBoard,
    pub(crate) attention: &'a Attention,
    /// The threads that start programs and see them through.
    pub(crate) busy: Busy,
    /// When the run ends.
    pub(crate) planned_end: Instant<Virtual>,
}

/// How many threads start programs or wait for their ends.
#[derive(Default)]
pub(crate) struct Busy(Arc<AtomicUsize>);

/// One of those threads, as long as this lives.
struct OneBusy(Arc<AtomicUsize>);

impl Busy {
    fn one_more(&self) -> OneBusy {
        self.0.fetch_add(1, Ordering::SeqCst);
        OneBusy(Arc::clone(&self.0))
    }
}

impl Drop for OneBusy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Which programs are ready; those that come `after` wait here.
#[derive(Default)]
pub(crate) struct ReadyBoard {
    ready: Mutex<Vec<String>>,
    changed: Condvar,
    /// Tells other machines of the programs here.
    tell: OnceLock<Tell>,
}

/// What is done with the name of a program that is ready.
type Tell = Box<dyn Fn(&str) + Send + Sync>;

impl ReadyBoard {
    /// A program here is ready.
    fn announce(&self, name: &str) {
        self.hear(name);
        if let Some(tell) = self.tell.get() {
            tell(name);
        }
    }

    /// A program is ready, perhaps on another machine.
    pub(crate) fn hear(&self, name: &str) {
        self.lock().push(name.to_owned());
        self.changed.notify_all();
    }

    /// From now on others are told of the programs here.
    pub(crate) fn tell(&self, tell: impl Fn(&str) + Send + Sync + 'static) {
        // There is one way to them.
        let _ = self.tell.set(Box::new(tell));
    }

    /// Waits for all of `names`; false when the run ended first.
    fn wait_for(&self, names: &[String], over: &AtomicBool) -> bool {
        let mut ready = self.lock();
        while !names.iter().all(|name| ready.contains(name)) {
            if over.load(Ordering::SeqCst) {
                return false;
            }
            let turn = self.changed.wait_timeout(ready, LOOK_EVERY);
            ready = turn.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> Stage<'a> {
    /// Starts a program at once, for those at virtual zero: the clock still
    /// stands, and they all begin at the same instant.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start_now<'s>(
        &'a self,
        scope: &'s Scope<'s, '_>,
        host: &'a str,
        program: &'a Program,
    ) -> Result<(), RunError>
    where
        'a: 's,
    {
        // Until it is there, nobody knows what it will wait for.
        let _work = self.attention.work();
        let station = self.network_of(host);
        let (log, output) = Log::open(
            self.logs,
            &program.name,
            self.session.clock(),
            self.reporter,
        )?;
        self.attention.watch_output(log.output());
        let condition = program.ready.as_ref().map(|ready| {
            Condition::new(ready, station, log.output())
                .map_err(|error| RunError::Start(format!("sockets of {host}: {error}")))
        });
        let condition = condition.transpose()?.map(Arc::new);
        if let Some(condition) = &condition {
            self.attention.watch_condition(condition);
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
        // The run directory is not in a container.
        if root.is_none() {
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
        self.session.watch_end(&guest);
        self.scribe
            .event(host, &program.name, "start", &program.run.join(" "));
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

    /// Waits for a program's turn, then starts it.
    pub(crate) fn start_later<'s>(
        &'a self,
        scope: &'s Scope<'s, '_>,
        host: &'a str,
        program: &'a Program,
    ) where
        'a: 's,
    {
        let busy = self.busy.one_more();
        let start = move || {
            let _busy = busy;
            let over = || self.over.load(Ordering::SeqCst);
            let due = self
                .session
                .clock()
                .wait_until(Instant::ZERO + program.start, over)
                && self.ready.wait_for(&program.after, self.over);
            if due
                && !over()
                && let Err(error) = self.start_now(scope, host, program)
            {
                self.reporter.failed(&program.name, error.to_string());
            }
        };
        in_thread(scope, self.reporter, &program.name, start);
    }

    /// Ends all programs when the run is over. One that was being started then comes
    /// into the session's cgroup after the first kill, and would stand in the paused
    /// session for ever.
    pub(crate) fn end_stragglers(&self) {
        while self.busy.0.load(Ordering::SeqCst) > 0 {
            self.session.kill_all();
            std::thread::sleep(STRAGGLERS_EVERY);
        }
    }

    /// Sees a program through: readiness, then its end.
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
        // Time may skip again.
        drop(ended);
        // What the program left in the background may keep it open.
        log.finish();
    }

    /// A program ended while the run went on.
    fn note_end(&self, host: &str, program: &Program, log: &Log, status: i32) {
        // What it had printed came first.
        log.output().catch_up();
        let mut what = describe(status);
        if let Some(why) = self.session.explain_end(status) {
            what = format!("{what}: {why}");
        }
        self.scribe.event(host, &program.name, "end", &what);
        // One that is done when the run is done has not left early.
        let is_early = self.session.clock().now() < self.planned_end;
        if program.essential && (status != 0 || is_early) {
            self.reporter
                .failed(&program.name, format!("the program on host {host} {what}"));
        }
    }

    /// Where the host keeps timelines, its programs find them.
    fn environment(
        &self,
        host: &str,
        program: &Program,
        is_inside: bool,
    ) -> BTreeMap<OsString, OsString> {
        let mut variables = environment(program, self.session.clock().compute());
        // The run has resolved Timeloom's package and modules by it (`python.rs`, `inputs.rs`).
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

    /// The network in which the programs of `host` live.
    fn network_of(&self, host: &str) -> &'a Namespace {
        if host == OpenFlow::HOST {
            return self.fabric.fabric_namespace();
        }
        self.fabric
            .station(host)
            .expect("every host of a checked plan is a station")
    }

    /// Returns its end if the program ended instead.
    fn wait_until_ready(
        &self,
        host: &str,
        program: &Program,
        condition: Arc<Condition>,
        guest: &Guest,
    ) -> Option<Ended> {
        let clock = self.session.clock();
        let limit: Duration = program.ready_timeout;
        let due = clock.now() + limit;
        // Time does not skip beyond it.
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
                self.scribe.event(host, &program.name, "ready", &ready());
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
            // The clock stands now; no limit on it would ever pass.
            if self.over.load(Ordering::SeqCst) {
                return None;
            }
        }
    }
}

/// Works beside the others of the run, which fails where there is no thread for it.
pub(crate) fn in_thread<'s>(
    scope: &'s Scope<'s, '_>,
    reporter: &Reporter,
    who: &str,
    work: impl FnOnce() + Send + 's,
) {
    if let Err(error) = std::thread::Builder::new().spawn_scoped(scope, work) {
        reporter.failed(who, format!("no thread could be started for it: {error}"));
    }
}

fn environment(program: &Program, compute: Compute) -> BTreeMap<OsString, OsString> {
    // What a program prints must reach the log when it is printed.
    let mut variables = BTreeMap::from([("PYTHONUNBUFFERED".into(), "1".into())]);
    if compute == Compute::None {
        // Else the order of sets is another in each run.
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

/// How often what came late is ended when the run is over.
const STRAGGLERS_EVERY: StdDuration = StdDuration::from_millis(50);

/// How often readiness is looked at, in wall time.
const LOOK_EVERY: StdDuration = StdDuration::from_millis(10);

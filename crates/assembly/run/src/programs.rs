//! The plan's programs: started at their virtual instants, watched to the end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Scope, sleep};
use std::time::Duration as StdDuration;

use timeloom_fabric::{Fabric, Namespace};
use timeloom_guest::{CommandSpec, Output, Session};
use timeloom_results::RunDirectory;
use timeloom_scenario::{OpenFlow, Program, Ready};
use timeloom_time::{Duration, Instant};

use crate::hosts::Hosts;
use crate::outputs::Log;
use crate::readiness::is_ready;
use crate::record::Scribe;
use crate::verdict::Reporter;

/// What the programs share.
pub(crate) struct Stage<'a> {
    pub(crate) session: &'a Session,
    pub(crate) fabric: &'a Fabric,
    pub(crate) hosts: &'a Hosts,
    pub(crate) directory: &'a RunDirectory,
    pub(crate) scribe: &'a Scribe,
    pub(crate) reporter: &'a Reporter,
    /// Set when the run is over: nobody is blamed for ending then.
    pub(crate) over: &'a AtomicBool,
    pub(crate) ready: &'a ReadyBoard,
    pub(crate) starting: &'a Starting,
}

/// How many programs are being started or not ready yet: for so long, time must
/// not skip, since what they will wait for is not known.
#[derive(Clone, Default)]
pub(crate) struct Starting(Arc<AtomicUsize>);

impl Starting {
    pub(crate) fn is_none(&self) -> bool {
        self.0.load(Ordering::SeqCst) == 0
    }

    fn one(&self) -> OneStarting {
        self.0.fetch_add(1, Ordering::SeqCst);
        OneStarting(Arc::clone(&self.0))
    }
}

/// Counts for as long as it lives.
struct OneStarting(Arc<AtomicUsize>);

impl Drop for OneStarting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Which programs are ready; those that come `after` wait here.
#[derive(Default)]
pub(crate) struct ReadyBoard {
    ready: Mutex<Vec<String>>,
    changed: Condvar,
}

impl ReadyBoard {
    fn announce(&self, name: &str) {
        self.lock().push(name.to_owned());
        self.changed.notify_all();
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
    /// In words, when it cannot be started.
    pub(crate) fn start_now<'s>(
        &'a self,
        scope: &'s Scope<'s, '_>,
        host: &'a str,
        program: &'a Program,
    ) -> Result<(), String>
    where
        'a: 's,
    {
        let starting = self.starting.one();
        let station = self.network_of(host);
        let (log, output) = Log::open(
            self.directory,
            &program.name,
            self.session.clock(),
            self.reporter,
        )
        .map_err(|error| error.to_string())?;
        let network = station
            .as_fd()
            .try_clone_to_owned()
            .map_err(|error| format!("namespace of {host}: {error}"))?;
        let spec = CommandSpec {
            argv: program.run.iter().map(Into::into).collect(),
            env: environment(&program.env),
            directory: Some(program.directory.clone()),
            output: Output::To(output),
            network: Some(network),
            host: self.hosts.get(host).cloned(),
        };
        let guest = self
            .session
            .spawn(&spec)
            .map_err(|error| error.to_string())?;
        drop(spec); // our end of its output
        self.scribe
            .event(host, &program.name, "start", &program.run.join(" "));
        scope.spawn(move || self.watch(host, program, &guest, log, starting));
        Ok(())
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
        scope.spawn(move || {
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
                self.reporter.failed(&program.name, error);
            }
        });
    }

    /// Sees a program through: readiness, then its end.
    fn watch(
        &self,
        host: &str,
        program: &Program,
        guest: &timeloom_guest::Guest,
        mut log: Log,
        starting: OneStarting,
    ) {
        let began = self.session.clock().now();
        let mut ended = None;
        match &program.ready {
            None => self.ready.announce(&program.name),
            Some(ready) => {
                ended = self.wait_until_ready(host, program, ready, guest, &log, began);
            }
        }
        drop(starting);
        let status = ended.unwrap_or_else(|| self.wait_for_end(guest));
        // Before the log is complete nothing can be said about why. What the
        // program left in the background may keep it open.
        if self.over.load(Ordering::SeqCst) {
            log.finish();
            return;
        }
        sleep(StdDuration::from_millis(20));
        let what = describe(status);
        self.scribe.event(host, &program.name, "end", &what);
        if program.essential {
            let lines = log.last_lines();
            let detail = if lines.is_empty() {
                String::new()
            } else {
                format!("; it had printed:\n{lines}")
            };
            self.reporter
                .failed(&program.name, format!("the program {what}{detail}"));
        }
        log.finish();
    }

    /// A program that was being started when the run ended may have come too
    /// late for the end of all; it would stand in the paused session for ever.
    fn wait_for_end(&self, guest: &timeloom_guest::Guest) -> i32 {
        loop {
            if let Some(status) = guest.wait_for(Some(STRAGGLERS_EVERY)) {
                return status;
            }
            if self.over.load(Ordering::SeqCst) {
                guest.signal(SIGKILL);
            }
        }
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

    /// Returns the exit status if the program ended instead.
    fn wait_until_ready(
        &self,
        host: &str,
        program: &Program,
        ready: &Ready,
        guest: &timeloom_guest::Guest,
        log: &Log,
        began: Instant<timeloom_time::Virtual>,
    ) -> Option<i32> {
        let station = self.network_of(host);
        let limit: Duration = program.ready_timeout;
        loop {
            if is_ready(ready, station, log) {
                self.scribe
                    .event(host, &program.name, "ready", &ready.to_string());
                self.ready.announce(&program.name);
                return None;
            }
            if self.session.clock().now() - began > limit {
                self.reporter.failed(
                    &program.name,
                    format!("the program was not ready ({ready}) within {limit} of virtual time"),
                );
                return None;
            }
            if let Some(status) = guest.wait_for(Some(LOOK_EVERY)) {
                return Some(status);
            }
            // The clock stands now; no limit on it would ever pass.
            if self.over.load(Ordering::SeqCst) {
                return None;
            }
        }
    }
}

fn environment(given: &BTreeMap<String, String>) -> BTreeMap<OsString, OsString> {
    // What a program prints must reach the log when it is printed.
    let mut variables = BTreeMap::from([("PYTHONUNBUFFERED".into(), "1".into())]);
    variables.extend(
        given
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

const SIGKILL: i32 = 9;

/// How often a program that runs is looked at for whether it should not.
const STRAGGLERS_EVERY: StdDuration = StdDuration::from_millis(500);

/// How often readiness is looked at, in wall time.
const LOOK_EVERY: StdDuration = StdDuration::from_millis(10);

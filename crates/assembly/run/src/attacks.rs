//! Attacks during a run: their intervals, and those that start or stop by hand or by an event.
//!
//! An attack with an instant in the scenario begins by itself; its programs are scheduled with all
//! others. Each attack begins once, and may be stopped once: its programs are then killed, with all
//! their descendants, and those that have not started yet do not start.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::Scope;
use std::time::Duration as StdDuration;

use rustix::process::{Pid, Signal, kill_process};
use timeloom_scenario::{Attack, AttackAction, Event, Plan};
use timeloom_time::{Duration, Instant, Virtual};

use crate::programs::Stage;
use crate::record::RunRecorder;

/// Enabled attacks of a run.
pub(crate) struct RunAttacks {
    states: Mutex<BTreeMap<String, AttackState>>,
    /// Names of the attacks, by their programs.
    of_programs: BTreeMap<String, String>,
    /// Held while a program of an attack starts, and while an attack stops.
    starting: Mutex<()>,
    requests: Sender<AttackRequest>,
    received: Mutex<Option<Receiver<AttackRequest>>>,
}

/// State of an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttackState {
    /// It begins by hand or by an event.
    Waiting,
    /// It begins, or has begun, at this instant. `by_hand` is false if it begins by itself.
    Begun {
        since: Instant<Virtual>,
        by_hand: bool,
    },
    /// It was stopped.
    Stopped { by_hand: bool },
}

/// Request of a client, and the channel for the answer.
pub(crate) struct AttackRequest {
    id: String,
    action: AttackAction,
    answer: Sender<Result<(), AttackError>>,
}

/// Reason why an attack does not start or stop.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AttackError {
    #[error("there is no attack `{id}` in this run{}", known(.names))]
    Unknown { id: String, names: Vec<String> },
    #[error("the attack `{0}` has begun at {1}, and begins once in a run")]
    HasBegun(String, Duration),
    #[error("the attack `{0}` begins by itself, at {1}; leave out its `at` to start it by hand")]
    BeginsLater(String, Duration),
    #[error("the attack `{0}` has not begun")]
    NotBegun(String),
    #[error("the attack `{0}` was stopped, and begins once in a run")]
    Stopped(String),
    #[error("a program of the attack `{0}` cannot be started: {1}")]
    Program(String, String),
    #[error("the processes of the attack `{0}` cannot be listed: {1}")]
    Processes(String, String),
    #[error("the attack `{0}` has not been changed yet; it will be once its host's programs run")]
    NoAnswer(String),
    #[error("the run is ending")]
    Over,
}

fn known(names: &[String]) -> String {
    match names {
        [] => "; its scenario has no enabled [[attack]]".to_owned(),
        names => format!("; there are {}", names.join(", ")),
    }
}

impl RunAttacks {
    pub(crate) fn new(plan: &Plan) -> Self {
        let enabled = || plan.attacks.iter().filter(|attack| attack.enabled);
        let state = |attack: &Attack| match attack.at {
            Some(at) => AttackState::Begun {
                since: Instant::ZERO + at,
                by_hand: false,
            },
            None => AttackState::Waiting,
        };
        let states = enabled().map(|attack| (attack.id.clone(), state(attack)));
        let programs = enabled().flat_map(|attack| {
            let programs = attack.programs.iter();
            programs.map(|program| (program.name.clone(), attack.id.clone()))
        });
        let (requests, received) = mpsc::channel();
        Self {
            states: Mutex::new(states.collect()),
            of_programs: programs.collect(),
            starting: Mutex::new(()),
            requests,
            received: Mutex::new(Some(received)),
        }
    }

    /// Returns true if the program belongs to an attack that does not begin by itself.
    pub(crate) fn is_by_hand(&self, program: &str) -> bool {
        match self.state_of(program) {
            None => false,
            Some(AttackState::Waiting) => true,
            Some(AttackState::Begun { by_hand, .. } | AttackState::Stopped { by_hand }) => by_hand,
        }
    }

    /// Returns true if the program belongs to an attack that was stopped.
    pub(crate) fn has_stopped(&self, program: &str) -> bool {
        matches!(self.state_of(program), Some(AttackState::Stopped { .. }))
    }

    /// Returns a permit to start a program, which keeps its attack from being stopped meanwhile;
    /// `None` if the program belongs to an attack that was stopped.
    pub(crate) fn permit(&self, program: &str) -> Option<Option<MutexGuard<'_, ()>>> {
        if !self.of_programs.contains_key(program) {
            return Some(None);
        }
        let guard = self.starting.lock();
        (!self.has_stopped(program)).then_some(Some(guard))
    }

    fn state_of(&self, program: &str) -> Option<AttackState> {
        let id = self.of_programs.get(program)?;
        self.states.lock().get(id).copied()
    }

    /// Records the attacks that begin by themselves, with an unknown end.
    pub(crate) fn label(&self, plan: &Plan, run_recorder: &RunRecorder) {
        self.label_until(plan, Instant::FAR_FUTURE, run_recorder);
    }

    /// Records the attacks that have begun and were not stopped, with the end of the run.
    pub(crate) fn finish(&self, plan: &Plan, end: Instant<Virtual>, run_recorder: &RunRecorder) {
        self.label_until(plan, end, run_recorder);
    }

    fn label_until(&self, plan: &Plan, end: Instant<Virtual>, run_recorder: &RunRecorder) {
        let states = self.states.lock();
        for attack in &plan.attacks {
            if let Some(AttackState::Begun { since, .. }) = states.get(&attack.id)
                && *since <= end
            {
                run_recorder.label(attack, *since, end);
            }
        }
    }

    /// Starts or stops an attack as a client requests, and waits until that is done.
    pub(crate) fn request(&self, id: &str, action: AttackAction) -> Result<(), AttackError> {
        let (answer, answered) = mpsc::channel();
        let request = AttackRequest {
            id: id.to_owned(),
            action,
            answer,
        };
        let sent = self.requests.send(request);
        sent.map_err(|_| AttackError::Over)?;
        answered
            .recv_timeout(TO_ANSWER)
            .unwrap_or_else(|error| match error {
                RecvTimeoutError::Timeout => Err(AttackError::NoAnswer(id.to_owned())),
                RecvTimeoutError::Disconnected => Err(AttackError::Over),
            })
    }

    /// Takes the channel of requests, which one thread serves.
    pub(crate) fn requests(&self) -> Option<Receiver<AttackRequest>> {
        self.received.lock().take()
    }

    /// Serves requests until the run is over.
    pub(crate) fn serve<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        stage: &'s Stage<'s>,
        requests: &Receiver<AttackRequest>,
    ) {
        while !stage.is_over() {
            match requests.recv_timeout(LOOK_EVERY) {
                Ok(AttackRequest { id, action, answer }) => {
                    let now = stage.session.clock().now();
                    let done = self.act((scope, stage), (&id, action), (now, "by hand"));
                    // The client may be gone.
                    let _ = answer.send(done);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Starts and stops attacks at the instants of the plan's events, until the run is over.
    pub(crate) fn follow<'s>(&'s self, scope: &'s Scope<'s, '_>, stage: &'s Stage<'s>) {
        let mut events: Vec<&Event> = stage.plan.events.iter().collect();
        events.sort_by_key(|event| event.at);
        for event in events {
            let (Some(id), Some(action)) = (&event.attack, event.action) else {
                continue;
            };
            let at = Instant::ZERO + event.at;
            let clock = stage.session.clock();
            // Time does not skip beyond the instant before the programs have started.
            let _mark = clock.mark(at);
            if !clock.wait_until(at, || stage.is_over()) {
                return;
            }
            let is_enabled = self.states.lock().contains_key(id);
            let done = self.act((scope, stage), (id, action), (at, "by an event"));
            match done {
                Ok(()) => {}
                Err(AttackError::Program(_, why)) => stage.reporter.failed(id, why),
                // A disabled attack does nothing. A user may have started or stopped the attack
                // before.
                Err(why) if is_enabled => {
                    let text = format!("no effect: {why}");
                    stage.run_recorder.own_event(id, "warning", &text);
                }
                Err(_) => {}
            }
        }
    }

    fn act<'s>(
        &'s self,
        (scope, stage): (&'s Scope<'s, '_>, &'s Stage<'s>),
        (id, action): (&str, AttackAction),
        (at, by): (Instant<Virtual>, &str),
    ) -> Result<(), AttackError> {
        let attack = stage.plan.attacks.iter().find(|attack| attack.id == id);
        let Some(attack) = attack.filter(|attack| attack.enabled) else {
            let names = self.states.lock().keys().cloned().collect();
            let id = id.chars().take(LONGEST_ID).collect();
            return Err(AttackError::Unknown { id, names });
        };
        match action {
            AttackAction::Start => self.start((scope, stage), attack, (at, by)),
            AttackAction::Stop => self.stop(stage, attack, (at, by)),
        }
    }

    fn start<'s>(
        &'s self,
        (scope, stage): (&'s Scope<'s, '_>, &'s Stage<'s>),
        attack: &'s Attack,
        (at, by): (Instant<Virtual>, &str),
    ) -> Result<(), AttackError> {
        // Programs whose start is in progress at the end of the run are waited for.
        let _busy = stage.busy.one_more();
        if stage.is_over() {
            return Err(AttackError::Over);
        }
        // Time must not skip until all programs that are due have started, and a stop finds them.
        let _work = stage.quiescence.work();
        let _starting = self.starting.lock();
        self.begin(&attack.id, at)?;
        stage.run_recorder.label(attack, at, Instant::FAR_FUTURE);
        let text = format!("started {by}");
        let host = attack.host.as_str().into();
        stage
            .run_recorder
            .host_event(&host, at, &attack.id, ATTACK_EVENT, &text);
        for program in &attack.programs {
            if program.start > Duration::ZERO || !program.after.is_empty() {
                stage.start_later(scope, &attack.host, program, at + program.start);
                continue;
            }
            let started = stage.start_now(scope, &attack.host, program);
            started.map_err(|why| AttackError::Program(attack.id.clone(), why.to_string()))?;
        }
        Ok(())
    }

    /// Records that an attack begins at `at`.
    fn begin(&self, id: &str, at: Instant<Virtual>) -> Result<(), AttackError> {
        let mut states = self.states.lock();
        let name = || id.to_owned();
        match states.get(id) {
            Some(AttackState::Waiting) => {
                let (since, by_hand) = (at, true);
                states.insert(name(), AttackState::Begun { since, by_hand });
                Ok(())
            }
            Some(AttackState::Begun { since, .. }) => Err(match *since > at {
                true => AttackError::BeginsLater(name(), *since - Instant::ZERO),
                false => AttackError::HasBegun(name(), *since - Instant::ZERO),
            }),
            _ => Err(AttackError::Stopped(name())),
        }
    }

    fn stop(
        &self,
        stage: &Stage<'_>,
        attack: &Attack,
        (at, by): (Instant<Virtual>, &str),
    ) -> Result<(), AttackError> {
        let _starting = self.starting.lock();
        let since = self.end(&attack.id, at)?;
        stage.run_recorder.label(attack, since, at);
        let text = format!("stopped {by}");
        let host = attack.host.as_str().into();
        stage
            .run_recorder
            .host_event(&host, at, &attack.id, ATTACK_EVENT, &text);
        let failed = |why: &dyn std::fmt::Display| {
            AttackError::Processes(attack.id.clone(), why.to_string())
        };
        // A process may have forked since the last list.
        for _ in 0..ROUNDS {
            let processes = stage.session.processes().map_err(|why| failed(&why))?;
            let is_hostile = |program: &str| attack.programs.iter().any(|it| it.name == program);
            let hostile = processes
                .iter()
                .filter(|it| it.program.as_deref().is_some_and(is_hostile));
            let hostile: Vec<i32> = hostile.map(|it| it.pid).collect();
            if hostile.is_empty() {
                return Ok(());
            }
            for pid in hostile.into_iter().filter_map(Pid::from_raw) {
                // The process may have ended.
                let _ = kill_process(pid, Signal::KILL);
            }
            std::thread::sleep(ROUND);
        }
        Err(failed(&"they do not end"))
    }

    /// Records that an attack ends at `at`; returns its beginning.
    fn end(&self, id: &str, at: Instant<Virtual>) -> Result<Instant<Virtual>, AttackError> {
        let mut states = self.states.lock();
        let name = || id.to_owned();
        match states.get(id).copied() {
            Some(AttackState::Begun { since, by_hand }) if since <= at => {
                states.insert(name(), AttackState::Stopped { by_hand });
                Ok(since)
            }
            Some(AttackState::Stopped { .. }) => Err(AttackError::Stopped(name())),
            _ => Err(AttackError::NotBegun(name())),
        }
    }
}

/// Kind of the events that record the start and the end of an attack.
const ATTACK_EVENT: &str = "attack";
/// Maximum length of an unknown attack's name in a message, in characters.
const LONGEST_ID: usize = 80;
/// Interval, in wall time, in which the end of the run is noticed.
const LOOK_EVERY: StdDuration = StdDuration::from_millis(50);
/// Time within which a request is answered.
const TO_ANSWER: StdDuration = StdDuration::from_secs(60);
/// Number of times that the processes of a stopped attack are killed, and the time between two.
const ROUNDS: usize = 2_000;
const ROUND: StdDuration = StdDuration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: i64) -> Instant<Virtual> {
        Instant::ZERO + Duration::from_s(s)
    }

    #[test]
    fn an_attack_begins_once_and_stops_once() {
        let mut plan = Plan::default();
        for (id, begins, enabled) in [
            ("hand", None, true),
            ("timed", Some(Duration::from_s(5)), true),
            ("off", None, false),
        ] {
            plan.attacks.push(Attack {
                id: id.to_owned(),
                at: begins,
                enabled,
                ..Attack::default()
            });
        }
        let attacks = RunAttacks::new(&plan);
        assert_eq!(
            attacks.end("hand", at(1)),
            Err(AttackError::NotBegun("hand".into()))
        );
        assert_eq!(attacks.begin("hand", at(2)), Ok(()));
        let again = attacks.begin("hand", at(3)).expect_err("it has begun");
        assert!(again.to_string().contains("has begun at 2 s"), "{again}");
        assert_eq!(attacks.end("hand", at(4)), Ok(at(2)));
        assert_eq!(
            attacks.begin("hand", at(5)),
            Err(AttackError::Stopped("hand".into()))
        );

        assert_eq!(
            attacks.end("timed", at(4)),
            Err(AttackError::NotBegun("timed".into()))
        );
        let early = attacks.begin("timed", at(4)).expect_err("it begins later");
        assert!(early.to_string().contains("by itself, at 5 s"), "{early}");
        assert_eq!(attacks.end("timed", at(6)), Ok(at(5)));
        assert_eq!(
            attacks.end("off", at(6)),
            Err(AttackError::NotBegun("off".into()))
        );
    }
}

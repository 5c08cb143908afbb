//! Causes because of which the time of a session stands or does not skip, for
//! `timeloom query --why`.
//!
//! The session is observed for a moment. In a session whose time skips, a thread that runs at one
//! instant is usual. So a cause counts if it is there at the beginning of the observation and at
//! its end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Weak;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use serde::{Deserialize, Serialize};
use timeloom_time::{Duration, Instant, Virtual};

use crate::control::controlled::Controlled;
use crate::control::error::Refusal;
use crate::control::protocol::HoldText;
use crate::session::Session;
use crate::supervise::inspection::{Activity, InspectedThread, Inspection};

/// Causes because of which the time of a session stands or does not skip, as of one moment.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Why {
    /// Wall time for which the session was observed, in nanoseconds.
    pub observed_ns: i64,
    /// Virtual time that passed meanwhile, in nanoseconds.
    pub passed_ns: i64,
    /// Causes that lasted for the whole observation, in the order in which they matter. If there
    /// is none and time did not pass as usual: the causes at its end.
    pub causes: Vec<Cause>,
    /// Number of further causes, which are not listed.
    #[serde(default)]
    pub more_causes: usize,
    /// Numbers of the threads, by their activity. Threads of hosts that are paused alone do not
    /// count.
    pub threads: ThreadCounts,
    /// First instant at which something happens without input from outside; `None` if all threads
    /// wait for data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<NextEvent>,
}

/// Cause because of which time stands or does not skip.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Cause {
    /// A participant holds the session's pause.
    Hold(HoldText),
    /// The session is paused, and no participant has a hold on the pause.
    Pause {
        /// Wall time since the clock stopped, in nanoseconds.
        stood_ns: i64,
    },
    /// Time moves only by grants, and the next one is awaited.
    Grant {
        /// Process of the client that grants time; `None` if none is connected.
        granter: Option<String>,
        /// Wall time since the last grant ended, in nanoseconds.
        waited_ns: i64,
    },
    /// The clock has reached the instant until which it may run.
    Stop {
        /// Instant of the stop, in virtual nanoseconds since the session began.
        at_ns: i64,
    },
    /// A change of clock and processes is in progress, such as a pause.
    Change,
    /// A program is being started or executed.
    Start {
        /// Name of the host; `None` if the host has no name.
        host: Option<String>,
    },
    /// A program has ended, and the session's owner has not handled that yet.
    ProgramEnd,
    /// A thread of a program runs or is stopped, so time does not skip.
    Thread(ThreadText),
    /// A component of the run, such as a plant, an engine or an agent, is awaited.
    Component(ComponentText),
    /// The kernel holds frames back in a queue (a link with a rate), or has deferred other work.
    Kernel,
    /// A thread of the supervisor runs, so time does not skip.
    Supervisor {
        /// Name of the thread.
        name: String,
        /// Identifier of the thread.
        thread: i32,
    },
}

/// Thread of a program.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct ThreadText {
    /// Name of the thread's host; `None` if the host has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Program of the scenario, or command of a client; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Name of the process, as in `ps`.
    pub name: String,
    /// Process identifier.
    pub pid: i32,
    /// Thread identifier.
    pub thread: i32,
    /// Activity of the thread.
    pub activity: ThreadActivity,
    /// System call that the thread executes; `None` if there is none, or if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Wall time for which time could not skip over the thread, in nanoseconds; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_ns: Option<i64>,
}

/// Activity of a thread of a program.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ThreadActivity {
    /// Runs, or waits for a processor.
    Running,
    /// Sleeps in an uninterruptible wait.
    Uninterruptible,
    /// Stopped by a signal.
    Stopped,
    /// Stopped by a debugger.
    Traced,
    /// Waits.
    Waiting,
}

/// Component of a run that is awaited.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct ComponentText {
    /// Kind and name of the component, such as `plant boiler`.
    pub component: String,
    /// Reason why it is awaited, as a predicate: `computes`.
    pub state: String,
    /// Wall time for which that has been so, in nanoseconds; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ns: Option<i64>,
}

/// Numbers of a session's threads.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct ThreadCounts {
    /// Threads that run or are stopped one by one.
    pub awake: usize,
    /// Threads that wait until a virtual instant.
    pub until: usize,
    /// Threads that wait in virtual time, without a limit.
    pub unlimited: usize,
    /// Threads that sleep in other system calls, by the name of the call.
    pub in_calls: BTreeMap<String, usize>,
}

/// Next event of a session.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct NextEvent {
    /// Virtual nanoseconds since the session began.
    pub at_ns: i64,
    /// Origin of the event.
    pub origin: EventOrigin,
    /// Thread whose wait ends, if that is the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadText>,
}

/// Origin of a session's next event.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum EventOrigin {
    /// The wait of a program's thread ends.
    Thread,
    /// The supervisor acts: a timer of a program, a start of one, the end of the run.
    Supervisor,
    /// The simulated network has an event.
    Network,
}

/// Observes a session and returns the causes because of which its time stands or does not skip.
pub(super) fn why<C: Controlled>(controlled: &Weak<C>) -> Result<Why, Refusal> {
    let began = StdInstant::now();
    let first = Look::at(&*controlled.upgrade().ok_or(Refusal::Ended)?)?;
    // Each attempt to skip is a change, for an instant.
    let mut changes = true;
    while began.elapsed() < OBSERVED {
        // The session ends when its owner drops it, so no reference is kept meanwhile.
        std::thread::sleep(LOOK_EVERY);
        let held = controlled.upgrade().ok_or(Refusal::Ended)?;
        changes &= held.session().is_changing();
    }
    let held = controlled.upgrade().ok_or(Refusal::Ended)?;
    let observed = Duration::from(began.elapsed());
    let second = Look::at(&*held)?;
    let session = held.session();
    let passed = second.now - first.now;
    let as_usual = observed.as_ns() as f64 / session.clock().dilation();
    let is_slow = session.is_skipping() && (passed.as_ns() as f64) < as_usual;
    let mut found = second.lasting(&first, observed);
    if changes && passed == Duration::ZERO {
        found.early.insert(0, Cause::Change);
    }
    if found.is_empty() && is_slow {
        found = second.found.clone();
    }
    let (causes, more_causes) = found.listed(session);
    Ok(Why {
        observed_ns: observed.as_ns(),
        passed_ns: passed.as_ns(),
        causes,
        more_causes,
        threads: ThreadCounts::of(&second.inspection),
        next: next_event(session, &second.inspection),
    })
}

/// State of a session at one instant.
struct Look {
    now: Instant<Virtual>,
    found: Found,
    inspection: Inspection,
}

/// Causes in the order in which they matter. Threads of programs are described only when they are
/// listed, since there may be thousands.
#[derive(Clone, Default)]
struct Found {
    early: Vec<Cause>,
    threads: Vec<InspectedThread>,
    late: Vec<Cause>,
}

impl Look {
    fn at<C: Controlled>(controlled: &C) -> Result<Self, Refusal> {
        let session = controlled.session();
        let inspection = session.inspect()?;
        Ok(Self {
            now: session.clock().now(),
            found: match session.clock().is_paused() {
                true => Found::of_paused(controlled),
                false => Found::of_running(controlled, &inspection),
            },
            inspection,
        })
    }

    /// Returns the causes of this look that are in an earlier one, too.
    fn lasting(&self, before: &Self, observed: Duration) -> Found {
        let in_both = |before: &[Cause], now: &[Cause]| {
            let now = now.iter().filter(|now| {
                let mut before = before.iter();
                before.any(|before| lasts(before, now, observed))
            });
            now.cloned().collect()
        };
        let awake = before.found.threads.iter();
        let awake: BTreeSet<i32> = awake.map(|thread| thread.thread).collect();
        let threads = self.found.threads.iter();
        let threads = threads.filter(|thread| awake.contains(&thread.thread));
        Found {
            early: in_both(&before.found.early, &self.found.early),
            threads: threads.cloned().collect(),
            late: in_both(&before.found.late, &self.found.late),
        }
    }
}

impl Found {
    fn of_paused<C: Controlled>(controlled: &C) -> Self {
        let stepped = controlled.stepped();
        let is_granter = |hold: &HoldText| stepped.is_some() && hold.requester == GRANTER;
        let holds = controlled.holds().into_iter();
        let holds = holds.filter(|hold| !is_granter(hold)).map(cut_hold);
        let mut early: Vec<Cause> = holds.map(Cause::Hold).collect();
        let stood = controlled.session().clock().standing_for();
        let stood_ns = stood.map_or(0, Duration::as_ns);
        if stepped.is_some() && early.is_empty() && controlled.is_held() {
            early.push(Cause::Pause { stood_ns });
        }
        early.extend(stepped.and_then(|stepped| stepped.grants().awaited()));
        early.extend(components(controlled));
        if early.is_empty() {
            early.push(Cause::Pause { stood_ns });
        }
        Self {
            early,
            ..Self::default()
        }
    }

    fn of_running<C: Controlled>(controlled: &C, inspection: &Inspection) -> Self {
        let session = controlled.session();
        let clock = session.clock();
        let mut found = Self::default();
        let (_, stop) = clock.map_and_stop();
        if clock.now() >= stop {
            let at_ns = stop.as_ns();
            found.early.push(Cause::Stop { at_ns });
        }
        if !session.is_skipping() {
            return found;
        }
        found.late.extend(components(controlled));
        let starting = session.starting().into_iter();
        let starting = starting.map(|host| Cause::Start { host });
        found.early.extend(starting);
        if session.has_unsettled_end() {
            found.early.push(Cause::ProgramEnd);
        }
        let threads = inspection.threads.iter();
        let threads = threads.filter(|thread| thread.activity.is_awake());
        found.threads = threads.cloned().collect();
        // The thread that the session has found first has been awake for the longest.
        let is_unknown = |thread: &InspectedThread| session.busy_for(thread.thread).is_none();
        found.threads.sort_by_key(is_unknown);
        if found.late.is_empty() && session.owner_is_busy() {
            found.late.push(Cause::Component(ComponentText {
                component: "the run".to_owned(),
                state: "has work at this instant".to_owned(),
                since_ns: None,
            }));
        }
        if session.is_deferred() {
            found.late.push(Cause::Kernel);
        }
        let own = session.own_threads_awake().into_iter();
        let own = own.map(|(thread, name)| Cause::Supervisor { name, thread });
        found.late.extend(own);
        found
    }

    fn is_empty(&self) -> bool {
        self.early.is_empty() && self.threads.is_empty() && self.late.is_empty()
    }

    /// Returns the first causes, and the number of the others.
    fn listed(self, session: &Session) -> (Vec<Cause>, usize) {
        let all = self.early.len() + self.threads.len() + self.late.len();
        let described = |thread: InspectedThread| Cause::Thread(ThreadText::of(session, &thread));
        let threads = self.threads.into_iter().map(described);
        let causes = self.early.into_iter().chain(threads).chain(self.late);
        let causes: Vec<Cause> = causes.take(MOST_CAUSES).collect();
        let more = all - causes.len();
        (causes, more)
    }
}

fn components<C: Controlled>(controlled: &C) -> impl Iterator<Item = Cause> {
    let awaited = controlled.awaited().into_iter();
    awaited.map(|component| Cause::Component(component.cut()))
}

/// Returns true if the cause `now` is the cause `before`, and has lasted since.
fn lasts(before: &Cause, now: &Cause, observed: Duration) -> bool {
    match (before, now) {
        (Cause::Hold(before), Cause::Hold(now)) => {
            before.requester == now.requester
                && before.reason == now.reason
                && now.held_ns >= observed.as_ns()
        }
        (Cause::Pause { .. }, Cause::Pause { stood_ns: ns })
        | (Cause::Grant { .. }, Cause::Grant { waited_ns: ns, .. }) => *ns >= observed.as_ns(),
        (Cause::Component(before), Cause::Component(now)) => {
            before.component == now.component && before.state == now.state
        }
        (before, now) => before == now,
    }
}

/// Returns the next event of the session.
fn next_event(session: &Session, inspection: &Inspection) -> Option<NextEvent> {
    let waiting = inspection.threads.iter();
    let waiting = waiting.filter_map(|thread| match thread.activity {
        Activity::Until(at) => Some((at, thread)),
        _ => None,
    });
    let first = waiting.min_by_key(|(at, thread)| (*at, thread.thread));
    let [awaited, announced] = session.clock().awaited_and_announced();
    let now = session.clock().now();
    let all = [
        first.map(|(at, _)| (at, EventOrigin::Thread)),
        awaited.map(|at| (at, EventOrigin::Supervisor)),
        announced.map(|at| (at, EventOrigin::Network)),
    ];
    let (at, origin) = all.into_iter().flatten().min_by_key(|(at, _)| *at)?;
    let thread = first.filter(|_| origin == EventOrigin::Thread);
    Some(NextEvent {
        at_ns: at.max(now).as_ns(),
        origin,
        thread: thread.map(|(_, thread)| ThreadText::of(session, thread)),
    })
}

impl ThreadText {
    fn of(session: &Session, thread: &InspectedThread) -> Self {
        let process = session.process_of(thread);
        Self {
            host: process.host,
            program: process.program,
            name: process.name,
            pid: thread.pid,
            thread: thread.thread,
            activity: match thread.activity {
                Activity::Running => ThreadActivity::Running,
                Activity::Uninterruptible => ThreadActivity::Uninterruptible,
                Activity::Stopped => ThreadActivity::Stopped,
                Activity::Traced => ThreadActivity::Traced,
                Activity::Until(_) | Activity::Unlimited | Activity::InCall => {
                    ThreadActivity::Waiting
                }
            },
            call: thread.call.clone(),
            busy_ns: session.busy_for(thread.thread).map(Duration::as_ns),
        }
    }
}

impl ThreadCounts {
    fn of(inspection: &Inspection) -> Self {
        let mut counts = Self::default();
        for thread in &inspection.threads {
            match (thread.activity, &thread.call) {
                (Activity::Until(_), _) => counts.until += 1,
                (Activity::Unlimited, _) => counts.unlimited += 1,
                (Activity::InCall, Some(call)) => {
                    *counts.in_calls.entry(call.clone()).or_default() += 1;
                }
                _ => counts.awake += 1,
            }
        }
        counts
    }
}

impl ComponentText {
    /// Cuts texts that are too long: parts of them may come from outside.
    fn cut(self) -> Self {
        Self {
            component: cut(&self.component),
            state: cut(&self.state),
            since_ns: self.since_ns,
        }
    }
}

fn cut_hold(hold: HoldText) -> HoldText {
    HoldText {
        requester: cut(&hold.requester),
        reason: cut(&hold.reason),
        held_ns: hold.held_ns,
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Wall time for which a session is observed. It is longer than a time slice of the scheduler.
const OBSERVED: StdDuration = StdDuration::from_millis(20);
/// Interval between checks for changes of the clock.
const LOOK_EVERY: StdDuration = StdDuration::from_millis(1);
/// Maximum number of causes in an answer.
const MOST_CAUSES: usize = 20;
/// Maximum length of a text in an answer, in characters.
const LONGEST_TEXT: usize = 200;
/// Requester of the granter's hold.
const GRANTER: &str = "granter";

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(requester: &str, held_ms: i64) -> Cause {
        Cause::Hold(HoldText {
            requester: requester.to_owned(),
            reason: "an exchange".to_owned(),
            held_ns: held_ms * 1_000_000,
        })
    }

    #[test]
    fn a_cause_counts_if_it_has_lasted_for_the_whole_observation() {
        let observed = Duration::from_ms(20);
        let lasting = |before: &Cause, now: &Cause| lasts(before, now, observed);
        assert!(lasting(&hold("boiler", 5), &hold("boiler", 25)));
        assert!(!lasting(&hold("boiler", 5), &hold("boiler", 3)), "another");
        assert!(!lasting(&hold("boiler", 5), &hold("tank", 25)));
        let start = |host: &str| Cause::Start {
            host: Some(host.to_owned()),
        };
        assert!(lasting(&start("a"), &start("a")));
        assert!(!lasting(&start("a"), &start("b")));
        let component = |since_ns| {
            Cause::Component(ComponentText {
                component: "plant boiler".to_owned(),
                state: "computes".to_owned(),
                since_ns,
            })
        };
        assert!(lasting(&component(Some(1)), &component(Some(2))));
        assert!(!lasting(&component(None), &Cause::Change));
    }

    #[test]
    fn threads_are_counted_by_their_activity() {
        let thread = |thread, activity, call: Option<&str>| InspectedThread {
            host: 0,
            pid: 7,
            thread,
            activity,
            call: call.map(str::to_owned),
        };
        let threads = vec![
            thread(7, Activity::Running, None),
            thread(8, Activity::Uninterruptible, Some("vfork")),
            thread(9, Activity::Until(Instant::from_ns(5)), None),
            thread(10, Activity::Unlimited, None),
            thread(11, Activity::InCall, Some("futex")),
            thread(12, Activity::InCall, Some("futex")),
            thread(13, Activity::InCall, Some("read")),
        ];
        let counts = ThreadCounts::of(&Inspection { threads });
        assert_eq!((counts.awake, counts.until, counts.unlimited), (2, 1, 1));
        let calls: Vec<_> = counts.in_calls.into_iter().collect();
        assert_eq!(calls, [("futex".to_owned(), 2), ("read".to_owned(), 1)]);
    }

    #[test]
    fn long_texts_of_an_answer_are_cut() {
        assert_eq!(cut("short"), "short");
        let shown = cut(&"ü".repeat(1000));
        assert_eq!(shown.chars().count(), LONGEST_TEXT + 1);
        assert!(shown.ends_with('…'));
    }

    #[test]
    fn a_cause_is_an_object_that_names_its_kind() {
        let text = serde_json::to_value(hold("boiler", 5)).expect("plain data");
        let expected = serde_json::json!({
            "kind": "hold", "requester": "boiler", "reason": "an exchange", "held_ns": 5_000_000
        });
        assert_eq!(text, expected);
        let again: Cause = serde_json::from_value(text).expect("the same");
        assert_eq!(again, hold("boiler", 5));
        let ended = serde_json::to_value(Cause::ProgramEnd).expect("plain data");
        assert_eq!(ended, serde_json::json!({ "kind": "program-end" }));
    }
}

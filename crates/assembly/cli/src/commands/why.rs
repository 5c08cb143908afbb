//! Sentences about the causes because of which the time of a session stands or does not skip.

use timeloom_guest::{
    Cause, ComponentText, EventOrigin, HoldText, NextEvent, StatusText, ThreadActivity,
    ThreadCounts, ThreadText, Why,
};
use timeloom_time::Duration;

/// Returns the lines for a terminal, without the status itself.
pub(crate) fn sentences(status: &StatusText, why: &Why) -> Vec<String> {
    let mut lines = vec![format!("  {}", movement(status, why))];
    lines.extend(why.causes.iter().map(|it| format!("  - {}", cause(it))));
    if why.more_causes > 0 {
        lines.push(format!("  - and {} others", why.more_causes));
    }
    let held = status.hosts.iter().filter(|host| host.paused);
    let held: Vec<&str> = held.map(|host| host.name.as_str()).collect();
    if !held.is_empty() {
        let shown = some(&held);
        lines.push(format!(
            "  Hosts paused alone, whose threads are ignored: {shown}."
        ));
    }
    lines.push(format!("  {}", threads(&why.threads)));
    lines.push(format!("  {}", next(status, why)));
    lines
}

/// Returns a sentence with the time that has passed, which introduces the causes.
fn movement(status: &StatusText, why: &Why) -> String {
    let (observed, passed) = (short(why.observed_ns), short(why.passed_ns));
    let moved = match why.passed_ns {
        0 => format!("Time did not move in the {observed} of this observation"),
        _ => format!("Time moved by {passed} in the {observed} of this observation"),
    };
    let is_skipping = status.skipping && !status.paused;
    match (why.causes.is_empty(), status.paused, is_skipping) {
        (false, true, _) => format!("{moved}. It stands because of:"),
        (false, false, true) => format!("{moved}. It does not skip because of:"),
        (false, false, false) => format!("{moved}. It waits for:"),
        (true, true, _) => format!("{moved}; no cause has lasted for all of it."),
        (true, false, true) if why.next.is_none() => {
            format!("{moved}. There is no next event to which it could skip.")
        }
        (true, false, true) => format!("{moved}; nothing has kept it from skipping for all of it."),
        (true, false, false) => format!(
            "{moved}. Nothing holds it; it runs at dilation {}.",
            status.dilation
        ),
    }
}

fn cause(cause: &Cause) -> String {
    match cause {
        Cause::Hold(HoldText {
            requester,
            reason,
            held_ns,
        }) => format!(
            "{requester} has held the pause for {}: {reason}",
            short(*held_ns)
        ),
        Cause::Pause { stood_ns } => format!(
            "the session was paused {} ago (`timeloom resume` continues it)",
            short(*stood_ns)
        ),
        Cause::Grant { granter, waited_ns } => {
            let waited = short(*waited_ns);
            match granter {
                Some(granter) => format!("{granter} has not granted time for {waited}"),
                None => format!(
                    "no client grants time; the last grant ended {waited} ago (`timeloom step` \
                     grants some)"
                ),
            }
        }
        Cause::Stop { at_ns } => format!(
            "time has reached {}, and may run no further",
            Duration::from_ns(*at_ns)
        ),
        Cause::Change => "clock and processes are being changed, by a pause or a dilation, or a \
                          host's clock was set"
            .to_owned(),
        Cause::Start { host: Some(host) } => format!("a program is being started on host {host}"),
        Cause::Start { host: None } => "a program is being started".to_owned(),
        Cause::ProgramEnd => {
            "a program has ended, and the session has not handled that yet".to_owned()
        }
        Cause::Thread(thread) => busy(thread),
        Cause::Component(ComponentText {
            component,
            state,
            since_ns,
        }) => match since_ns {
            Some(since_ns) => format!("{component} {state}, for {} so far", short(*since_ns)),
            None => format!("{component} {state}"),
        },
        Cause::Kernel => "the kernel holds frames back in a queue (a link with a rate), or has \
                          deferred other work of the network"
            .to_owned(),
        Cause::Supervisor { name, thread } => {
            format!("thread `{name}` ({thread}) of Timeloom itself is at work")
        }
    }
}

/// Returns a clause about a thread over which time does not skip.
fn busy(thread: &ThreadText) -> String {
    let state = match thread.activity {
        ThreadActivity::Running => "runs",
        ThreadActivity::Uninterruptible => "sleeps uninterruptibly",
        ThreadActivity::Stopped => "was stopped by a signal",
        ThreadActivity::Traced => "was stopped by its debugger",
        ThreadActivity::Waiting => "waits",
    };
    let call = thread.call.as_ref();
    let call = call.map_or_else(String::new, |call| format!(" in {call}"));
    let so_far = thread.busy_ns.map_or_else(String::new, |ns| {
        format!(", and has kept time from skipping for {}", short(ns))
    });
    format!("{} {state}{call}{so_far}", named(thread))
}

/// Returns a thread with its process, its program and its host.
fn named(thread: &ThreadText) -> String {
    let program = thread.program.as_ref();
    let program = program.map_or_else(String::new, |name| format!(" of program `{name}`"));
    let host = thread.host.as_ref();
    let host = host.map_or_else(String::new, |name| format!(" on host {name}"));
    format!(
        "thread {} of {} (process {}){program}{host}",
        thread.thread, thread.name, thread.pid
    )
}

fn threads(counts: &ThreadCounts) -> String {
    let mut parts = Vec::new();
    let mut part = |count: usize, what: &str| {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    };
    part(counts.awake, "not at rest");
    part(counts.until, "waiting until an instant");
    part(counts.unlimited, "waiting without a limit");
    part(counts.in_calls.values().sum(), "in other calls");
    if parts.is_empty() {
        return "There are no threads of programs.".to_owned();
    }
    let mut calls: Vec<(&String, &usize)> = counts.in_calls.iter().collect();
    calls.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let calls: Vec<String> = calls
        .iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    match calls.is_empty() {
        true => format!("Threads of programs: {}.", parts.join(", ")),
        false => format!(
            "Threads of programs: {} ({}).",
            parts.join(", "),
            some(&calls)
        ),
    }
}

fn next(status: &StatusText, why: &Why) -> String {
    let Some(event) = &why.next else {
        if why.threads.awake > 0 {
            return "No thread waits until an instant.".to_owned();
        }
        return "There is no next event: all programs wait for data, from each other or from \
                outside."
            .to_owned();
    };
    let at = Duration::from_ns(event.at_ns);
    let left = short(event.at_ns.saturating_sub(status.virtual_ns).max(0));
    let NextEvent { origin, thread, .. } = event;
    let origin = match (thread, origin) {
        (Some(thread), _) => format!("the wait of {} ends", named(thread)),
        (None, EventOrigin::Thread) => "the wait of a thread ends".to_owned(),
        (None, EventOrigin::Supervisor) => {
            "a timer of a program, the start of one, or the end of the run".to_owned()
        }
        (None, EventOrigin::Network) => "the simulated network has an event".to_owned(),
    };
    format!("The next event is at {at}, {left} from now: {origin}.")
}

/// Returns the first few items, and the number of the others.
fn some(items: &[&str]) -> String {
    let shown = items.iter().take(MOST_ITEMS).copied();
    let shown: Vec<&str> = shown.collect();
    match items.len().saturating_sub(MOST_ITEMS) {
        0 => shown.join(", "),
        more => format!("{}, and {more} others", shown.join(", ")),
    }
}

/// Returns a duration with three digits or four.
fn short(ns: i64) -> String {
    let ns_f64 = ns as f64;
    match ns.unsigned_abs() {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.0} µs", ns_f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns_f64 / 1e6),
        _ => format!("{:.2} s", ns_f64 / 1e9),
    }
}

/// Maximum number of items of one kind in a sentence.
const MOST_ITEMS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn status(paused: bool, skipping: bool) -> StatusText {
        let text = format!(
            r#"{{"name":"lab","virtual_ns":2000000000,"utc_ns":0,"wall_ns":0,
            "paused_total_ns":0,"paused":{paused},"dilation":1.0,"skipping":{skipping}}}"#
        );
        serde_json::from_str(&text).expect("a status")
    }

    fn why(causes: Vec<Cause>) -> Why {
        Why {
            observed_ns: 20_300_000,
            passed_ns: 0,
            causes,
            more_causes: 0,
            threads: ThreadCounts::default(),
            next: None,
        }
    }

    fn spinner() -> ThreadText {
        ThreadText {
            host: Some("plc".to_owned()),
            program: Some("spin".to_owned()),
            name: "python3".to_owned(),
            pid: 17,
            thread: 18,
            activity: ThreadActivity::Running,
            call: None,
            busy_ns: Some(3_210_000_000),
        }
    }

    #[test]
    fn a_spinning_thread_is_named_with_its_program_and_host() {
        let lines = sentences(&status(false, true), &why(vec![Cause::Thread(spinner())]));
        assert_eq!(
            lines[..2],
            [
                "  Time did not move in the 20.3 ms of this observation. It does not skip because \
                 of:",
                "  - thread 18 of python3 (process 17) of program `spin` on host plc runs, and has \
                 kept time from skipping for 3.21 s",
            ]
        );
        let blocked = ThreadText {
            activity: ThreadActivity::Uninterruptible,
            call: Some("fsync".to_owned()),
            host: None,
            program: None,
            busy_ns: None,
            ..spinner()
        };
        assert_eq!(
            busy(&blocked),
            "thread 18 of python3 (process 17) sleeps uninterruptibly in fsync"
        );
    }

    #[test]
    fn a_hold_is_named_with_its_reason_and_age() {
        let hold = Cause::Hold(HoldText {
            requester: "tank 10.0.0.2:5".to_owned(),
            reason: "read".to_owned(),
            held_ns: 4_000_000_000,
        });
        let lines = sentences(&status(true, false), &why(vec![hold]));
        assert!(lines[0].ends_with("It stands because of:"), "{lines:?}");
        assert_eq!(
            lines[1],
            "  - tank 10.0.0.2:5 has held the pause for 4.00 s: read"
        );
    }

    #[test]
    fn each_cause_is_a_clause_of_its_own() {
        let component = |since_ns| {
            Cause::Component(ComponentText {
                component: "plant `boiler`".to_owned(),
                state: "answers a request".to_owned(),
                since_ns,
            })
        };
        let grant = |granter: Option<&str>| Cause::Grant {
            granter: granter.map(str::to_owned),
            waited_ns: 1_500_000_000,
        };
        let supervisor = Cause::Supervisor {
            name: "engine east".to_owned(),
            thread: 9,
        };
        let texts = [
            (component(None), "plant `boiler` answers a request"),
            (
                component(Some(12_000_000)),
                "plant `boiler` answers a request, for 12.0 ms so far",
            ),
            (
                grant(Some("python3 (7)")),
                "python3 (7) has not granted time for 1.50 s",
            ),
            (
                grant(None),
                "no client grants time; the last grant ended 1.50 s ago (`timeloom step` grants \
                 some)",
            ),
            (
                Cause::Stop {
                    at_ns: 2_000_000_000,
                },
                "time has reached 2 s, and may run no further",
            ),
            (Cause::Start { host: None }, "a program is being started"),
            (
                supervisor,
                "thread `engine east` (9) of Timeloom itself is at work",
            ),
            (
                Cause::Pause { stood_ns: 900 },
                "the session was paused 900 ns ago (`timeloom resume` continues it)",
            ),
        ];
        for (given, text) in texts {
            assert_eq!(cause(&given), text);
        }
    }

    #[test]
    fn a_session_without_causes_says_that_time_runs_or_has_no_next_event() {
        let moving = Why {
            passed_ns: 20_000_000,
            ..why(Vec::new())
        };
        let lines = sentences(&status(false, false), &moving);
        assert_eq!(
            lines[0],
            "  Time moved by 20.0 ms in the 20.3 ms of this observation. Nothing holds it; it runs \
             at dilation 1."
        );
        let lines = sentences(&status(false, true), &why(Vec::new()));
        assert!(lines[0].ends_with("no next event to which it could skip."));
        let last = lines.last().expect("a line");
        assert!(last.starts_with("  There is no next event"), "{last}");
    }

    #[test]
    fn threads_and_the_next_event_are_stated() {
        let mut counts = ThreadCounts {
            awake: 1,
            until: 2,
            ..ThreadCounts::default()
        };
        counts.in_calls.insert("read".to_owned(), 1);
        counts.in_calls.insert("futex".to_owned(), 3);
        assert_eq!(
            threads(&counts),
            "Threads of programs: 1 not at rest, 2 waiting until an instant, 4 in other calls \
             (futex 3, read 1)."
        );
        let event = NextEvent {
            at_ns: 2_500_000_000,
            origin: EventOrigin::Network,
            thread: None,
        };
        let mut answer = Why {
            next: Some(event),
            ..why(Vec::new())
        };
        assert_eq!(
            next(&status(false, true), &answer),
            "The next event is at 2.5 s, 500.0 ms from now: the simulated network has an event."
        );
        answer.next = None;
        answer.threads.awake = 1;
        let text = next(&status(false, true), &answer);
        assert_eq!(text, "No thread waits until an instant.");
    }

    #[test]
    fn long_lists_end_with_the_number_of_the_others() {
        let items = ["a"; 11];
        assert_eq!(some(&items), "a, a, a, a, a, a, a, a, and 3 others");
        let many = Why {
            more_causes: 7,
            ..why(vec![Cause::ProgramEnd])
        };
        let lines = sentences(&status(false, true), &many);
        assert_eq!(lines[2], "  - and 7 others");
    }
}

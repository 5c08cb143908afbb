//! What a log says of a Sync that jumped, by what the clock does with it.

use std::sync::mpsc::channel;

use timeloom_ptp::security::Failure;

use super::*;

fn fate_of_a_jump(role: ClockRole, policy: Policy) -> SyncLine {
    let (told, lines) = channel();
    let sink = Box::new(move |line| {
        let _ = told.send(line);
    });
    let names = Names::default();
    let mut evidence = Evidence::new("node", role, 0, names, None, sink).by_policy(policy);
    let (master, observer) = (PortIdentity::default(), ClockIdentity::default());
    evidence.report(&Report::Offset {
        master,
        sequence: 3,
        offset: TimeInterval::from_ns(900_000),
        delay: TimeInterval::from_ns(100),
        authenticated: true,
    });
    evidence.report(&Report::Failure(Failure {
        observer,
        source: master,
        sequence: 3,
        reason: Reason::Delayed,
        suspect: Suspect {
            after: None,
            before: observer,
        },
    }));
    evidence.settled();
    match lines.try_recv() {
        Ok(Line::Sync(line)) => *line,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_sync_that_jumped_is_rejected_where_it_is_not_used() {
    for (role, policy, fate) in [
        (ClockRole::Slave, Policy::Strict, Fate::Rejected),
        (ClockRole::Slave, Policy::Monitor, Fate::Accepted),
        (ClockRole::Monitor, Policy::Strict, Fate::Accepted),
    ] {
        let line = fate_of_a_jump(role, policy);
        assert_eq!(line.verdict, fate, "{role:?} {policy:?}");
        assert_eq!(line.failures.len(), 1);
        assert_eq!(line.failures[0].reason, "Delayed");
    }
}

//! What is to be said of the timers of TCP that a simulated network keeps for a host's kernel,
//! where time skips.

use timeloom_net::TcpTimerStats;

/// What the timers of host `name` have done, as an event; `None` where that is nothing.
pub(super) fn event(name: &str, timers: &TcpTimerStats) -> Option<(String, String)> {
    if timers.timeouts + timers.probes == 0 {
        return None;
    }
    let text = format!(
        "{name}: {} timeouts and {} probes of a lost tail among {} segments",
        timers.timeouts, timers.probes, timers.segments
    );
    Some(("tcp timers".to_owned(), text))
}

/// Returns in whole sentences why the results are not to be trusted.
pub(super) fn doubts(name: &str, timers: &TcpTimerStats) -> Vec<String> {
    let mut reasons = Vec::new();
    let mut because = |count: u64, what: &str| {
        if count > 0 {
            reasons.push(format!("{count} {what}"));
        }
    };
    because(
        timers.given_up,
        "connections were tried as often as Linux tries, and their programs were not told",
    );
    because(
        timers.unresolved,
        "neighbours did not answer, and programs were not told within three seconds",
    );
    because(
        timers.foreign,
        "acknowledgements came of what it never sent (are segments forged?)",
    );
    if timers.collapses * COLLAPSES_OF > timers.segments {
        because(
            timers.collapses,
            "timeouts would have closed congestion windows that stayed open",
        );
    }
    reasons.iter().map(|reason| sentence(name, reason)).collect()
}

/// Returns why the results are not to be trusted if data stayed unacknowledged so long that
/// timers expired, and these programs asked the kernel to end connections for that.
pub(super) fn doubt_of_limits(timeouts: u64, limited: &[String]) -> Option<String> {
    (timeouts > 0 && !limited.is_empty()).then(|| {
        format!(
            "Connections of {} end when data is not acknowledged for some real time \
             (TCP_USER_TIMEOUT), over which this run skips; {timeouts} timeouts may have reached \
             that limit, so the results are not to be trusted: use time.mode = \"virtual\".",
            limited.join(", ")
        )
    })
}

/// A collapse among so many segments does not show in the means.
const COLLAPSES_OF: u64 = 50;

fn sentence(name: &str, reason: &str) -> String {
    format!(
        "Time skips over the timers of the TCP of {name}, which the simulated network has in \
         their place, and this it does not do as the kernel would: {reason}. The results are not \
         to be trusted; use time.mode = \"virtual\"."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_collapses_are_no_doubt() {
        let timers = |collapses, segments| TcpTimerStats {
            collapses,
            segments,
            timeouts: collapses,
            ..TcpTimerStats::default()
        };
        assert!(doubts("a", &timers(0, 0)).is_empty());
        assert!(doubts("a", &timers(2, 100)).is_empty());
        assert_eq!(doubts("a", &timers(3, 100)).len(), 1);
        assert!(event("a", &timers(2, 100)).is_some() && event("a", &timers(0, 9)).is_none());
    }

    #[test]
    fn a_limit_of_time_is_a_doubt_only_where_something_was_waited_for() {
        let limited = ["grpc".to_owned()];
        assert_eq!(doubt_of_limits(0, &limited), None);
        assert_eq!(doubt_of_limits(1, &[]), None);
        assert!(doubt_of_limits(1, &limited).is_some_and(|it| it.contains("grpc")));
    }

    #[test]
    fn what_a_program_would_have_been_told_is_a_doubt() {
        let timers = TcpTimerStats {
            given_up: 1,
            unresolved: 1,
            foreign: 1,
            ..TcpTimerStats::default()
        };
        let doubts = doubts("a", &timers);
        assert_eq!(doubts.len(), 3);
        assert!(doubts.iter().all(|doubt| doubt.contains("time.mode")));
    }
}

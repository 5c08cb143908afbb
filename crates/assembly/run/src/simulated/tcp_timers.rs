//! Reports about the TCP timers that a simulated network keeps for a host's kernel where time
//! skips.

use std::collections::BTreeMap;

use timeloom_net::TcpTimerStats;
use timeloom_results::{Caveat, Remedy};
use timeloom_time::Duration;

/// Returns the activity of the timers of host `name` as an event; `None` if there was none.
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

/// Returns reasons why the results cannot be trusted.
pub(super) fn doubts(name: &str, timers: &TcpTimerStats) -> Vec<Caveat> {
    let mut reasons = Vec::new();
    let mut because = |count: u64, what: &str| {
        if count > 0 {
            reasons.push(format!("{count} {what}"));
        }
    };
    because(
        timers.given_up,
        "connection attempts reached the limit of Linux, and their programs received no error",
    );
    because(
        timers.unresolved,
        "neighbours did not answer, and programs received no error within three seconds",
    );
    because(
        timers.foreign,
        "acknowledgements of unsent data arrived (are segments forged?)",
    );
    because(
        timers.hidden,
        "packets had, or may have had, segments behind VLAN tags, as fragments or in tunnels, \
         which nothing retransmits",
    );
    because(
        timers.lossy,
        "connections lost more segments than were compared with a kernel's",
    );
    if timers.collapses * COLLAPSES_OF > timers.segments {
        because(
            timers.collapses,
            "timeouts would have closed congestion windows that stayed open",
        );
    }
    let by_timers = timers.timeouts + timers.probes;
    if by_timers > FEW && by_timers * LOST_OF > timers.segments {
        because(
            by_timers,
            "segments were retransmitted by timers, more than a third, and the model was not \
             compared with a kernel at such losses",
        );
    }
    reasons.iter().map(|reason| caveat(name, reason)).collect()
}

/// Returns a reason why the results cannot be trusted if a kernel did not decide in time which
/// segments were lost, `count` times.
pub(super) fn undecided(name: &str, count: u64) -> Option<Caveat> {
    let reason = format!(
        "{count} times the kernel of {name} did not decide within 0.5 s and two round trips, of \
         the machine's time, which segments were lost, and time skipped meanwhile, so the results \
         are not to be trusted."
    );
    (count > 0).then(|| Caveat::new(reason, Remedy::NO_SKIPPING))
}

/// Programs that asked the kernel's TCP for behaviour that depends on its clock.
#[derive(Debug, Default)]
pub(crate) struct AskedOfTcp {
    /// Programs that limit the time or the number of attempts for which the kernel waits for
    /// acknowledgements (TCP_USER_TIMEOUT, TCP_SYNCNT).
    pub(crate) limits: Vec<String>,
    /// Idle time after which a host's programs want keep-alive probes (TCP_KEEPIDLE), by host.
    pub(crate) keep_alive: BTreeMap<String, Duration>,
    /// Programs that requested CUBIC and have Reno.
    pub(crate) cubic: Vec<String>,
    /// Default congestion control of the machine, in whose place connections have Reno.
    pub(crate) default: Option<String>,
    /// Number of requests for a congestion control, by host.
    pub(crate) chosen: BTreeMap<String, u64>,
}

impl AskedOfTcp {
    /// Returns reasons why the results cannot be trusted, given the timers of each host.
    pub(super) fn doubts(&self, of_hosts: &[(String, TcpTimerStats)]) -> Vec<Caveat> {
        let mut doubts = Vec::new();
        let timers = sum(of_hosts.iter());
        if timers.timeouts > 0 && !self.limits.is_empty() {
            let reason = format!(
                "Connections of {} end when data is not acknowledged for some real time, or some \
                 attempts (TCP_USER_TIMEOUT, TCP_SYNCNT), over which this run skips; {} timeouts \
                 may have reached that limit, so the results are not to be trusted.",
                self.limits.join(", "),
                timers.timeouts
            );
            doubts.push(Caveat::new(reason, Remedy::NO_SKIPPING));
        }
        for (name, of_host) in of_hosts {
            let after = self
                .keep_alive
                .get(name)
                .copied()
                .unwrap_or(KEEP_ALIVE_AFTER);
            let idle = of_host.longest_idle;
            if idle >= after {
                let reason = format!(
                    "A connection of {name} was idle for {idle}, and keep-alive probes, which \
                     programs may have requested after {after}, are not sent in virtual time, so \
                     the results are not to be trusted."
                );
                doubts.push(Caveat::new(reason, Remedy::NO_SKIPPING));
            }
        }
        let again = timers.resent;
        if again > 0 && !self.cubic.is_empty() {
            let reason = format!(
                "Connections of {} have Reno where they asked for CUBIC, which differs under \
                 losses ({again} of {} segments were sent again), so the results are \
                 not to be trusted.",
                self.cubic.join(", "),
                timers.segments
            );
            doubts.push(Caveat::new(reason, ALL_RENO));
        }
        if let Some(default) = &self.default {
            // A host whose programs requested as many as it has connections needs no default.
            let others = of_hosts.iter().filter(|(name, timers)| {
                self.chosen
                    .get(name)
                    .is_none_or(|&chosen| chosen < timers.connections)
            });
            let timers = sum(others);
            let again = timers.resent;
            if again > 0 {
                let reason = format!(
                    "Connections have Reno where this machine's default congestion control is \
                     {default}, which differs under losses ({again} of {} segments were sent \
                     again), so the results are not to be trusted.",
                    timers.segments
                );
                doubts.push(Caveat::new(reason, DEFAULT_RENO));
            }
        }
        doubts
    }
}

fn sum<'a>(of_hosts: impl Iterator<Item = &'a (String, TcpTimerStats)>) -> TcpTimerStats {
    let mut all = TcpTimerStats::default();
    of_hosts.for_each(|(_, timers)| all.add(timers));
    all
}

/// Linux's default idle time before keep-alive probes (tcp_keepalive_time).
const KEEP_ALIVE_AFTER: Duration = Duration::from_s(7_200);

/// Threshold beyond the comparison in docs/skip-loss.md: at a loss of 10 % in both directions a
/// timer retransmits a fifth of all requests.
const LOST_OF: u64 = 3;
const FEW: u64 = 20;

/// Number of segments per collapse of the window at which the means do not show the collapse.
const COLLAPSES_OF: u64 = 50;

fn caveat(name: &str, reason: &str) -> Caveat {
    let reason = format!(
        "Time skips over the timers of the TCP of {name}; the simulated network replaces them, and \
         differs from the kernel here: {reason}. The results are not to be trusted."
    );
    Caveat::new(reason, Remedy::NO_SKIPPING)
}

const ALL_RENO: Remedy = Remedy::new(
    "Make CUBIC in virtual time available (see `timeloom doctor`), or let the programs use Reno \
     (TCP_CONGESTION), or run it in real time (`time.mode = \"virtual\"`).",
);

const DEFAULT_RENO: Remedy = Remedy::new(
    "Make CUBIC in virtual time available (see `timeloom doctor`), or make Reno the default \
     (`sysctl net.ipv4.tcp_congestion_control=reno`), or run it in real \
     time (`time.mode = \"virtual\"`).",
);

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
        let lost = |probes| TcpTimerStats {
            probes,
            ..timers(0, 100)
        };
        assert!(doubts("a", &lost(30)).is_empty());
        assert_eq!(doubts("a", &lost(40)).len(), 1);
        assert!(event("a", &timers(2, 100)).is_some() && event("a", &timers(0, 9)).is_none());
    }

    #[test]
    fn tcp_settings_of_programs_are_a_doubt_only_if_they_had_an_effect() {
        let none = AskedOfTcp::default();
        let some = AskedOfTcp {
            limits: vec!["grpc".to_owned()],
            cubic: vec!["iperf3".to_owned()],
            ..AskedOfTcp::default()
        };
        let by_default = |name: &str| AskedOfTcp {
            default: Some(name.to_owned()),
            ..AskedOfTcp::default()
        };
        let timers = |resent, timeouts| {
            let timers = TcpTimerStats {
                connections: 2,
                segments: 100,
                resent,
                timeouts,
                ..TcpTimerStats::default()
            };
            [("a".to_owned(), timers)]
        };
        assert!(none.doubts(&timers(50, 50)).is_empty());
        assert!(by_default("cubic").doubts(&timers(0, 0)).is_empty());
        assert_eq!(by_default("cubic").doubts(&timers(1, 0)).len(), 1);
        assert_eq!(by_default("bbr").doubts(&timers(1, 0)).len(), 1);
        // A program that waits for an answer sends no faster by another congestion control.
        assert!(by_default("bbr").doubts(&timers(0, 9)).is_empty());
        let chosen = |requests| {
            let mut chosen = by_default("bbr");
            chosen.chosen.insert("a".to_owned(), requests);
            chosen.doubts(&timers(9, 0)).len()
        };
        assert_eq!([chosen(1), chosen(2)], [1, 0], "of two connections");
        let names = |timers: [_; 1]| {
            let doubts = some.doubts(&timers).into_iter();
            doubts.map(|doubt| doubt.to_string()).collect::<String>()
        };
        assert_eq!(names(timers(0, 0)), "");
        assert!(names(timers(0, 1)).contains("grpc") && !names(timers(0, 1)).contains("iperf3"));
        assert!(names(timers(3, 0)).contains("iperf3") && !names(timers(3, 0)).contains("grpc"));
    }

    #[test]
    fn an_idle_connection_with_keep_alive_probes_is_a_doubt() {
        let idle = |s| {
            let timers = TcpTimerStats {
                longest_idle: Duration::from_s(s),
                ..TcpTimerStats::default()
            };
            [("a".to_owned(), timers)]
        };
        let mut asked = AskedOfTcp::default();
        assert_eq!(asked.doubts(&idle(7_199)).len(), 0);
        assert_eq!(asked.doubts(&idle(7_200)).len(), 1);
        asked
            .keep_alive
            .insert("a".to_owned(), Duration::from_s(60));
        assert_eq!(asked.doubts(&idle(59)).len(), 0);
        let doubts = asked.doubts(&idle(60));
        assert!(
            doubts[0].contains("60 s") && doubts[0].contains("time.mode"),
            "{doubts:?}"
        );
    }

    #[test]
    fn errors_that_a_kernel_would_have_reported_are_a_doubt() {
        let timers = TcpTimerStats {
            given_up: 1,
            unresolved: 1,
            foreign: 1,
            hidden: 1,
            ..TcpTimerStats::default()
        };
        let doubts = doubts("a", &timers);
        assert_eq!(doubts.len(), 4);
        assert!(doubts.iter().all(|doubt| doubt.contains("time.mode")));
    }
}

//! Final report of a simulated network: the activity of its engines, and reasons why the results
//! cannot be trusted.

use serde::{Deserialize, Serialize};
use timeloom_emulation::EmulationReport;
use timeloom_emulation::peering::AdjacencyReport;
use timeloom_net::{Owner, TcpTimerStats};
use timeloom_results::{Caveat, Remedy};
use timeloom_scenario::Parts;
use timeloom_time::Duration;

use super::history::{Absence, Known};
use super::tcp_timers;
use crate::record::RunRecorder;

/// Final report of one engine: events (kind and text), and reasons for doubt about the results.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Closing {
    events: Vec<(String, String)>,
    doubts: Vec<Caveat>,
    /// Numbers of connections, segments, retransmitted segments and timeouts, and nanoseconds
    /// of the longest idle time, by host. Only hosts whose kernel leaves its TCP timers
    /// to the network are listed.
    tcp_timers: Vec<(String, [u64; 5])>,
}

impl Closing {
    /// Returns the report of engine number `here`.
    pub(super) fn of(report: &EmulationReport, parts: Option<&Parts>, here: Owner) -> Self {
        let of = of(parts, here);
        let mut events = vec![("summary".to_owned(), summary(&of, report))];
        let mut doubts = Vec::new();
        if let Some(parts) = parts {
            for line in report.adjacencies.iter() {
                let name = parts.cut_name(line.there, here);
                events.push(("cut".to_owned(), crossed(&name, line)));
                doubts.extend(doubt_of_cut(&name, line));
            }
        }
        if report.untrusted() {
            doubts.push(too_slow(&of, report));
        }
        for port in &report.ports {
            if let Some(timers) = &port.tcp_timers {
                events.extend(tcp_timers::event(&port.name, timers));
                doubts.extend(tcp_timers::doubts(&port.name, timers));
                doubts.extend(tcp_timers::undecided(&port.name, port.undecided));
            }
        }
        let of_ports = report.ports.iter().filter_map(|port| {
            let timers = port.tcp_timers?;
            let counts = [
                timers.connections,
                timers.segments,
                timers.resent,
                timers.timeouts,
                timers.longest_idle.as_ns().unsigned_abs(),
            ];
            Some((port.name.clone(), counts))
        });
        Self {
            events,
            doubts,
            tcp_timers: of_ports.collect(),
        }
    }

    /// Returns connections, segments, retransmissions, timeouts and the longest idle time of the
    /// hosts whose kernel leaves its TCP timers to the network.
    pub(super) fn tcp_timers(&self) -> impl Iterator<Item = (String, TcpTimerStats)> {
        self.tcp_timers.iter().map(|(name, counts)| {
            let [connections, segments, resent, timeouts, idle_ns] = *counts;
            let timers = TcpTimerStats {
                connections,
                segments,
                resent,
                timeouts,
                longest_idle: Duration::from_ns(i64::try_from(idle_ns).unwrap_or(i64::MAX)),
                ..TcpTimerStats::default()
            };
            (name.clone(), timers)
        })
    }

    /// Records the events; returns the reasons for doubt.
    pub(super) fn tell(self, run_recorder: &RunRecorder) -> Vec<Caveat> {
        for (kind, text) in self.events {
            run_recorder.own_event("network", &kind, &text);
        }
        self.doubts
    }
}

/// Records the final reports of all engines, and returns the reasons for doubt. The report of an
/// engine that has died is `None`. `what` is `thread` or `process`, for messages.
pub(super) fn tell(
    closings: Vec<(Owner, Option<Closing>, Known)>,
    (parts, what): (Option<&Parts>, &str),
    run_recorder: &RunRecorder,
) -> Vec<Caveat> {
    let mut doubts = Vec::new();
    for (here, closing, known) in closings {
        let of = of(parts, here);
        // Absences that were requested are part of the experiment.
        let lost = known.absences.iter().filter(|absence| !absence.in_order);
        let lost: Vec<String> = lost.map(Absence::tell).collect();
        if !lost.is_empty() {
            doubts.push(was_away(&of, &lost));
        }
        doubts.extend(known.doubts);
        match closing {
            Some(closing) => doubts.extend(closing.tell(run_recorder)),
            // The engine sent its report when it left.
            None if known.is_away => {}
            None => {
                let reason = format!("The simulated network's{of} {what} has died.");
                doubts.push(Caveat::new(reason, KEEP_ALIVE));
                continue;
            }
        }
        // Frames that a kernel dropped are counted by the process that created the portal.
        let dropped = known.dropped;
        if dropped > 0 && !lost.is_empty() {
            let reason = format!(
                "The kernel dropped {dropped} frames that the simulated network{of} did not take \
                 in time."
            );
            doubts.push(Caveat::new(reason, KEEP_ALIVE));
        } else if dropped > 0 {
            let reason = format!(
                "This machine was too slow for the simulated network{of}, so its results are not \
                 to be trusted: the kernel dropped {dropped} frames before it took them."
            );
            doubts.push(Caveat::new(reason, Remedy::SLOWER));
        }
    }
    for doubt in &doubts {
        run_recorder.own_event("network", "untrusted", doubt);
    }
    doubts
}

fn was_away(of: &str, absences: &[String]) -> Caveat {
    let reason = format!(
        "The simulated network's{of} was lost and restarted, so the results are not to be \
         trusted: its part was away {}.",
        absences.join(", ")
    );
    Caveat::new(reason, KEEP_ALIVE)
}

/// Returns the name of an engine for messages, preceded by a space; empty if there is only one.
fn of(parts: Option<&Parts>, here: Owner) -> String {
    match parts {
        Some(parts) => format!(" engine {}", parts.names[usize::from(here)]),
        None => String::new(),
    }
}

fn summary(of: &str, report: &EmulationReport) -> String {
    let lateness = &report.lateness;
    let of = of.trim_start();
    let of = if of.is_empty() {
        String::new()
    } else {
        format!("{of}: ")
    };
    let missed: u64 = report.ports.iter().map(|port| port.missed).sum();
    let missed = match missed {
        0 => String::new(),
        missed => format!("; {missed} frames had come before it was there, and are lost"),
    };
    format!(
        "{of}{} events, {} frames in, {} out; at most {} late, 99 % within {}; {} refused, {} malformed, {} dropped by this machine; {} of processor time, {} KiB of links and traffic{missed}",
        report.events,
        report.ports.iter().map(|port| port.received).sum::<u64>(),
        report.ports.iter().map(|port| port.sent).sum::<u64>(),
        lateness.worst(),
        lateness.quantile(0.99),
        report.ports.iter().map(|port| port.refused).sum::<u64>(),
        report.counters.malformed + report.ports.iter().map(|port| port.malformed).sum::<u64>(),
        report.dropped_by_machine(),
        rounded(report.cpu),
        report.state_bytes.div_ceil(1024),
    )
}

/// Describes one direction between two engines. The receiver counts arrivals. It also counts the
/// losses, which it knows as the sender of the opposite direction.
fn crossed(name: &str, line: &AdjacencyReport) -> String {
    let lateness = &line.lateness;
    let absent = match line.stats.joined {
        0 | 1 => String::new(),
        _ => format!(
            ", {} more were sent after its last message, and the links to it dropped {} while it \
             was away",
            line.stats.unconfirmed, line.dropped_meanwhile
        ),
    };
    let apart = match line.clocks_apart {
        apart if apart > Duration::ZERO && line.late > 0 => {
            format!(", of which {apart} may be the clocks'")
        }
        _ => String::new(),
    };
    format!(
        "{name}: {} packets came, {} of them after their instant; at most {} late, 99 % within {}{apart}; {}{} lost on the way back{absent}",
        lateness.events(),
        line.late,
        lateness.worst(),
        lateness.quantile(0.99),
        match line.missing() {
            0 => String::new(),
            missing => format!("{missing} datagrams never came; "),
        },
        line.lost(),
    )
}

fn doubt_of_cut(name: &str, line: &AdjacencyReport) -> Option<Caveat> {
    let lateness = &line.lateness;
    if line.lost() > 0 {
        let reason = format!(
            "Packets between engines were lost, so the results are not to be trusted: {} on the way back of {name}.",
            line.lost()
        );
        return Some(Caveat::new(reason, Remedy::LOST_BETWEEN_PARTS));
    }
    if line.missing() > 0 {
        let reason = format!(
            "Datagrams between engines were lost, so the results are not to be trusted: {} on {name}.",
            line.missing()
        );
        return Some(Caveat::new(reason, Remedy::LOST_BETWEEN_PARTS));
    }
    lateness.is_untrusted().then(|| {
        let reason = format!(
            "Packets came too late from engine to engine, so the results are not to be trusted: {} of {} on {name}, the worst by {}.",
            lateness.late(),
            lateness.events(),
            lateness.worst()
        );
        Caveat::new(reason, LONGER_CUTS)
    })
}

fn too_slow(of: &str, report: &EmulationReport) -> Caveat {
    let lateness = &report.lateness;
    let dropped = match report.dropped_by_machine() {
        0 => String::new(),
        1 => "; it dropped one frame".to_owned(),
        frames => format!("; it dropped {frames} frames"),
    };
    let reason = format!(
        "This machine was too slow for the simulated network{of}, so its results are not to be \
         trusted: {} of {} events were more than 1 ms late, the worst by {}{dropped}.",
        lateness.late(),
        lateness.events(),
        lateness.worst(),
    );
    Caveat::new(reason, Remedy::SLOWER)
}

fn rounded(time: Duration) -> Duration {
    Duration::from_ms(time.as_ns() / 1_000_000)
}

const KEEP_ALIVE: Remedy = Remedy::new(
    "Read the event `died` for the cause, and run again; `timeloom leave` and `timeloom join` take \
     an engine away without loss.",
);

const LONGER_CUTS: Remedy = Remedy::new(
    "Cut the network at links with a longer delay, give each engine a processor of its own, use \
     `mode = \"exact\"` under `[network.engines]`, or raise `late_share` if later packets do no harm.",
);

//! What is to be said of a simulated network once it has ended: what its engines did, and
//! what makes the results doubtful.

use timeloom_peering::AdjacencyReport;
use timeloom_portal::Report;
use timeloom_scenario::Parts;
use timeloom_time::Duration;

use crate::record::Scribe;

/// Of an engine, `None` when it has died.
pub(super) fn doubts(
    reports: &[Option<Report>],
    parts: Option<&Parts>,
    scribe: &Scribe,
) -> Vec<String> {
    let mut doubts = Vec::new();
    for (number, report) in reports.iter().enumerate() {
        let of = match parts {
            Some(parts) => format!(" engine {}", parts.names[number]),
            None => String::new(),
        };
        let Some(report) = report else {
            doubts.push(format!("The simulated network's{of} thread has died."));
            continue;
        };
        scribe.event("local", "network", "summary", &summary(&of, report));
        if let Some(parts) = parts {
            for line in report.adjacencies.iter() {
                let name = parts.cut_name(line.there, number as u16);
                scribe.event("local", "network", "cut", &crossed(&name, line));
                doubts.extend(doubt_of_cut(&name, line));
            }
        }
        if report.untrusted() {
            doubts.push(too_slow(&of, report));
        }
    }
    for text in &doubts {
        scribe.event("local", "network", "untrusted", text);
    }
    doubts
}

fn summary(of: &str, report: &Report) -> String {
    let lateness = &report.lateness;
    let of = of.trim_start();
    let of = if of.is_empty() {
        String::new()
    } else {
        format!("{of}: ")
    };
    format!(
        "{of}{} events, {} frames in, {} out; at most {} late, 99 % within {}; {} refused, {} malformed, {} dropped by this machine; {} of processor time, {} KiB of links and traffic",
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

/// Of one direction between engines, as its receiver counts; what was lost, as its sender does
/// of the way back.
fn crossed(name: &str, line: &AdjacencyReport) -> String {
    let lateness = &line.lateness;
    format!(
        "{name}: {} packets came, {} of them after their instant; at most {} late, 99 % within {}; {} lost on the way back",
        lateness.events(),
        line.late,
        lateness.worst(),
        lateness.quantile(0.99),
        line.lost(),
    )
}

fn doubt_of_cut(name: &str, line: &AdjacencyReport) -> Option<String> {
    let lateness = &line.lateness;
    if line.lost() > 0 {
        return Some(format!(
            "Packets between engines were lost, so the results are not to be trusted: {} on the way back of {name}.",
            line.lost()
        ));
    }
    lateness.is_untrusted().then(|| {
        format!(
            "Packets came too late from engine to engine, so the results are not to be trusted: {} of {} on {name}, the worst by {}.",
            lateness.late(),
            lateness.events(),
            lateness.worst()
        )
    })
}

fn too_slow(of: &str, report: &Report) -> String {
    let lateness = &report.lateness;
    let dropped = match report.dropped_by_machine() {
        0 => String::new(),
        1 => "; it dropped one frame".to_owned(),
        frames => format!("; it dropped {frames} frames"),
    };
    format!(
        "This machine was too slow for the simulated network{of}, so its results are not to be \
         trusted: {} of {} events were more than 1 ms late, the worst by {}{dropped}.",
        lateness.late(),
        lateness.events(),
        lateness.worst(),
    )
}

fn rounded(time: Duration) -> Duration {
    Duration::from_ms(time.as_ns() / 1_000_000)
}

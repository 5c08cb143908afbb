//! Who held the clock, how often and how long.

use std::collections::HashMap;
use std::sync::Arc;

use timeloom_time::{Duration, Instant, Virtual};

use crate::{ClockAction, ClockRow};

/// One time that one requester held the clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) requester: Arc<str>,
    /// Where the clock stood.
    pub(super) at: Instant<Virtual>,
    /// How long it was held, in wall time.
    pub(super) length: Duration,
}

/// All holds of one requester in figures.
pub(super) struct Requester {
    pub(super) name: Arc<str>,
    pub(super) holds: Vec<Hold>,
    pub(super) total: Duration,
    pub(super) median: Duration,
    pub(super) p95: Duration,
    pub(super) max: Duration,
}

/// Pairs every pause with its resume. Hosts write rows about the same change
/// under the same number, which then count once. The length is the one that
/// the resume states, else the wall time between the two. (What a pause states is how long
/// it took to stop the programs.) The pause with which a run ends is nobody's: no time
/// comes after it.
pub(super) fn holds(rows: &[ClockRow]) -> Vec<Hold> {
    let mut seen = std::collections::HashSet::new();
    let mut pending: HashMap<Arc<str>, &ClockRow> = HashMap::new();
    let mut holds = Vec::new();
    for row in rows {
        if !seen.insert((row.seq, row.action.as_str(), row.requester.clone())) {
            continue;
        }
        match row.action {
            ClockAction::Pause => {
                pending.insert(row.requester.clone(), row);
            }
            ClockAction::Resume => match pending.remove(&row.requester) {
                Some(pause) => holds.push(hold(pause, length(pause, row))),
                // A resume by somebody who did not pause lets everybody go.
                None => let_all_go(&mut pending, row, &mut holds),
            },
            ClockAction::End => {
                pending.remove(&row.requester);
                let_all_go(&mut pending, row, &mut holds);
            }
            _ => {}
        }
    }
    holds
}

fn let_all_go(pending: &mut HashMap<Arc<str>, &ClockRow>, row: &ClockRow, holds: &mut Vec<Hold>) {
    let mut let_go: Vec<Hold> = pending
        .drain()
        .map(|(_, pause)| hold(pause, length(pause, row)))
        .collect();
    let_go.sort_by(|a, b| (a.at, &a.requester).cmp(&(b.at, &b.requester)));
    holds.extend(let_go);
}

/// The requesters, the one who held the clock longest first.
pub(super) fn by_requester(holds: Vec<Hold>) -> Vec<Requester> {
    let mut groups: HashMap<Arc<str>, Vec<Hold>> = HashMap::new();
    for hold in holds {
        groups.entry(hold.requester.clone()).or_default().push(hold);
    }
    let mut requesters: Vec<Requester> = groups
        .into_iter()
        .map(|(name, holds)| {
            let mut lengths: Vec<Duration> = holds.iter().map(|hold| hold.length).collect();
            lengths.sort_unstable();
            Requester {
                name,
                total: lengths.iter().copied().sum(),
                median: nearest_rank(&lengths, 50),
                p95: nearest_rank(&lengths, 95),
                max: nearest_rank(&lengths, 100),
                holds,
            }
        })
        .collect();
    requesters.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| a.name.cmp(&b.name)));
    requesters
}

fn hold(pause: &ClockRow, length: Duration) -> Hold {
    Hold {
        requester: pause.requester.clone(),
        at: pause.t_virtual,
        length,
    }
}

fn length(pause: &ClockRow, resume: &ClockRow) -> Duration {
    if resume.duration > Duration::ZERO && resume.requester == pause.requester {
        resume.duration
    } else if resume.host == pause.host {
        (resume.t_wall - pause.t_wall).max(Duration::ZERO)
    } else {
        Duration::ZERO // two hosts' wall clocks have no common zero
    }
}

/// The smallest value that at least `percent` of all are not above.
fn nearest_rank(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(seq: u64, host: &str, action: ClockAction, requester: &str, wall_ms: i64) -> ClockRow {
        ClockRow {
            seq,
            t_virtual: Instant::from_ns(1),
            t_wall: Instant::from_ns(wall_ms * 1_000_000),
            host: host.into(),
            action,
            requester: requester.into(),
            reason: "".into(),
            duration: Duration::ZERO,
        }
    }

    #[test]
    fn overlapping_holds_on_two_hosts_count_once() {
        use ClockAction::{Pause, Resume};
        let rows = [
            row(1, "a", Pause, "grid", 0),
            row(1, "b", Pause, "grid", 5000),
            row(2, "a", Pause, "person", 2),
            row(3, "a", Resume, "grid", 10),
            row(3, "b", Resume, "grid", 5010),
            row(4, "a", Resume, "person", 102),
            row(5, "a", Pause, "grid", 200),
        ];
        let requesters = by_requester(holds(&rows));
        let figures: Vec<_> = requesters
            .iter()
            .map(|r| (&*r.name, r.holds.len(), r.total))
            .collect();
        assert_eq!(
            figures,
            [
                ("person", 1, Duration::from_ms(100)),
                ("grid", 1, Duration::from_ms(10))
            ]
        );
    }

    #[test]
    fn how_long_stopping_took_is_not_how_long_it_stood() {
        use ClockAction::{End, Pause, Resume};
        let stated = |row: ClockRow, ms| ClockRow {
            duration: Duration::from_ms(ms),
            ..row
        };
        let rows = [
            stated(row(1, "a", Pause, "grid", 1), 1),
            stated(row(2, "a", Resume, "grid", 41), 40),
            stated(row(3, "a", Pause, "person", 50), 1),
            stated(row(4, "a", Pause, "timeloom", 70), 1),
            row(0, "a", End, "timeloom", 71),
            stated(row(5, "a", Resume, "timeloom", 90), 20),
        ];
        let lengths: Vec<(Arc<str>, Duration)> = holds(&rows)
            .into_iter()
            .map(|hold| (hold.requester, hold.length))
            .collect();
        let until_the_end = Duration::from_ms(21);
        assert_eq!(
            lengths,
            [
                ("grid".into(), Duration::from_ms(40)),
                ("person".into(), until_the_end)
            ]
        );
    }

    #[test]
    fn percentiles_by_nearest_rank() {
        let lengths: Vec<Duration> = (1..=100).map(Duration::from_ms).collect();
        assert_eq!(nearest_rank(&lengths, 50), Duration::from_ms(50));
        assert_eq!(nearest_rank(&lengths, 95), Duration::from_ms(95));
        assert_eq!(nearest_rank(&lengths[..1], 95), Duration::from_ms(1));
        assert_eq!(nearest_rank(&[], 95), Duration::ZERO);
    }
}

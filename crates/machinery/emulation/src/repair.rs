//! Real time between the steps of a repair, for runs that must be reproducible.
//!
//! A kernel's TCP compares times of the machine when it repairs a loss. Where time skips, a round
//! trip takes only as long as the machine needs to compute, and the results of these comparisons
//! would be left to chance. Acknowledgements for a host therefore wait, in the machine's time:
//!
//! - One that the kernel may answer with a retransmission arrives in a later millisecond than that
//!   in which the host sent data last on the connection. By their time stamps, which count
//!   milliseconds, a kernel tells an acknowledgement of the original from one of the retransmission
//!   (RFC 3522). It also arrives more than a quarter of the shortest round trip later. A kernel that
//!   has repaired all gaps takes segments for lost at once if they were sent so long before one that
//!   has arrived, and waits otherwise (RFC 8985).
//! - One of a retransmission arrives no sooner after it than the connection's shortest round trip.
//!   A kernel ignores one that arrives sooner (RFC 8985).
//!
//! Both times count for each connection alone, and run while frames of others are delivered. (If
//! every frame waited for the last retransmission of any connection, the waits would lengthen the
//! round trips that the kernel measures, and these the waits: 100 connections took minutes.)

use std::collections::BTreeMap;
use std::net::SocketAddr;

use timeloom_net::{Acknowledgement, SentSegment};
use timeloom_time::{Duration, Instant, Wall};

/// Times of the connections of one host.
#[derive(Debug, Default)]
pub(crate) struct Repairs {
    connections: BTreeMap<[SocketAddr; 2], Repair>,
    /// Number of connections at which those that no longer need to wait are removed.
    limit: usize,
}

/// Times of one connection.
#[derive(Debug)]
struct Repair {
    /// Instant at which the last segment of the host was read.
    sent: Instant<Wall>,
    /// Retransmissions that are not acknowledged: their sequence numbers, and when they were read.
    resent: Vec<((u32, u32), Instant<Wall>)>,
}

impl Repairs {
    /// Records that a segment was read from the host's portal.
    pub(crate) fn note_sent(&mut self, segment: &SentSegment, now: Instant<Wall>) {
        if self.connections.len() >= self.limit {
            self.connections.retain(|_, it| it.sent + LONGEST > now);
            self.limit = (2 * self.connections.len()).max(FEW);
        }
        let repair = self.connections.entry(segment.ends);
        let repair = repair.or_insert_with(|| Repair {
            sent: now,
            resent: Vec::new(),
        });
        repair.sent = now;
        if let Some(numbers) = segment.resent {
            repair.resent.retain(|(earlier, _)| *earlier != numbers);
            repair.resent.truncate(MOST_RETRANSMISSIONS - 1);
            repair.resent.insert(0, (numbers, now));
        }
    }

    /// Returns the instant before which an acknowledgement may not be delivered to the host, if
    /// there is one. `round_trip` gives the shortest of its connection; it is called only if needed,
    /// since the kernel must be asked.
    pub(crate) fn not_before(
        &mut self,
        arriving: &Acknowledgement,
        round_trip: impl FnOnce() -> Duration,
    ) -> Option<Instant<Wall>> {
        let repair = self.connections.get_mut(&arriving.ends)?;
        let sent = arriving.may_repair().then_some(repair.sent);
        let covered = repair.resent.iter();
        let covered = covered.filter(|(numbers, _)| arriving.covers(*numbers));
        let resent = covered.map(|(_, resent)| *resent).max();
        repair
            .resent
            .retain(|((_, end), _)| !arriving.is_beyond(*end));
        sent.or(resent)?;
        let round_trip = round_trip();
        let quarter = Duration::from_ns(round_trip.as_ns() / 4);
        let after_data = sent.map(|sent| sent + (STAMP + quarter).min(LONGEST));
        let after_repair = resent.map(|resent| resent + round_trip.max(STAMP).min(LONGEST));
        after_data.max(after_repair)
    }
}

/// Unit of the time stamps of Linux's TCP, and a tenth.
const STAMP: Duration = Duration::from_us(1100);
/// Longest wait. The shortest round trip of a connection through the simulated network usually
/// takes 0.2 ms of the machine's time, and a second with hundreds of connections on a busy machine.
const LONGEST: Duration = Duration::from_s(10);
/// Number of connections that are kept in any case.
const FEW: usize = 1000;
/// Maximum number of retransmissions of one connection that are kept, the latest.
const MOST_RETRANSMISSIONS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: i64) -> Instant<Wall> {
        Instant::from_ns(us * 1000)
    }

    fn ends(port: u16) -> [SocketAddr; 2] {
        [port, 80].map(|port| SocketAddr::from(([10, 0, 0, 1], port)))
    }

    fn sent(port: u16, resent: Option<(u32, u32)>) -> SentSegment {
        let ends = ends(port);
        SentSegment { ends, resent }
    }

    fn arriving(port: u16, ack: u32, blocks: &[(u32, u32)]) -> Acknowledgement {
        Acknowledgement::new(ends(port), ack, blocks)
    }

    const ROUND_TRIP: Duration = Duration::from_us(8000);

    #[test]
    fn the_acknowledgement_of_a_retransmission_waits_for_the_shortest_round_trip() {
        let mut repairs = Repairs::default();
        repairs.note_sent(&sent(1, None), at(0));
        assert_eq!(
            repairs.not_before(&arriving(1, 100, &[]), || ROUND_TRIP),
            None
        );
        repairs.note_sent(&sent(1, Some((100, 200))), at(10_000));
        let others = arriving(1, 100, &[]);
        assert_eq!(repairs.not_before(&others, || ROUND_TRIP), None);
        let elsewhere = arriving(2, 200, &[]);
        assert_eq!(repairs.not_before(&elsewhere, || ROUND_TRIP), None);
        let selective = arriving(1, 100, &[(150, 200)]);
        let wait = repairs.not_before(&selective, || ROUND_TRIP);
        assert_eq!(wait, Some(at(18_000)));
        let short = Duration::from_us(200);
        let whole = arriving(1, 200, &[]);
        assert_eq!(repairs.not_before(&whole, || short), Some(at(11_100)));
        assert_eq!(
            repairs.not_before(&whole, || short),
            None,
            "it is forgotten"
        );
    }

    #[test]
    fn a_segment_that_is_sent_three_times_waits_for_its_last_time() {
        let mut repairs = Repairs::default();
        for (numbers, us) in [((0, 100), 0), ((100, 200), 1000), ((0, 100), 20_000)] {
            repairs.note_sent(&sent(1, Some(numbers)), at(us));
        }
        let second = arriving(1, 0, &[(100, 200)]);
        let quarter = at(20_000 + 1100 + 2000);
        assert_eq!(repairs.not_before(&second, || ROUND_TRIP), Some(quarter));
        let first = arriving(1, 100, &[]);
        assert_eq!(repairs.not_before(&first, || ROUND_TRIP), Some(at(28_000)));
    }

    #[test]
    fn a_gap_is_shown_in_a_later_millisecond_than_the_last_data_of_its_connection() {
        let mut repairs = Repairs::default();
        repairs.note_sent(&sent(1, None), at(700));
        repairs.note_sent(&sent(2, None), at(900));
        let gap = arriving(1, 0, &[(100, 200)]);
        let wait = repairs.not_before(&gap, || Duration::ZERO);
        assert_eq!(wait, Some(at(1800)));
        let wait = repairs.not_before(&gap, || Duration::from_us(4000));
        assert_eq!(wait, Some(at(2800)));
        let long = repairs.not_before(&gap, || Duration::from_s(100));
        assert_eq!(long, Some(at(10_000_700)));
    }

    #[test]
    fn connections_that_need_no_wait_are_forgotten() {
        let mut repairs = Repairs::default();
        for number in 0..20_000 {
            let port = (number % 10_000) as u16;
            repairs.note_sent(&sent(port, Some((0, 1))), at(10_000 * number));
        }
        assert!(repairs.connections.len() <= 3000);
        let last = arriving(9_999, 1, &[]);
        assert!(repairs.not_before(&last, || ROUND_TRIP).is_some());
    }
}

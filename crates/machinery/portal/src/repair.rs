//! Real time between the steps of a repair, for runs that must be reproducible.
//!
//! A kernel's TCP compares times of the machine when it repairs a loss. Where time skips, a round
//! trip takes only as long as the machine needs to compute, and the results of these comparisons
//! would be left to chance. Frames for a host therefore wait, in the machine's time:
//!
//! - An acknowledgement of data beyond a gap arrives in a later millisecond than that in which the
//!   host sent data last. By their time stamps, which count milliseconds, a kernel tells an
//!   acknowledgement of the original from one of the retransmission that follows (RFC 3522). It
//!   also arrives more than a quarter of the shortest round trip later. A kernel that has repaired
//!   all gaps takes segments for lost at once if they were sent so long before one that has
//!   arrived, and waits otherwise (RFC 8985).
//! - After a retransmission nothing arrives sooner than the connection's shortest round trip. A
//!   kernel ignores the acknowledgement of a retransmission that arrives sooner (RFC 8985).

use timeloom_net::TcpSeen;
use timeloom_time::{Duration, Instant, Wall};

/// Times of one host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Repair {
    seen: TcpSeen,
    /// Instant at which a frame of the host was read last.
    sent: Option<Instant<Wall>>,
    /// Instant at which a retransmission was read last.
    resent: Option<Instant<Wall>>,
}

impl Repair {
    /// Records that a frame was read from the host's portal, after which the counts are `seen`.
    pub(crate) fn note_sent(&mut self, seen: TcpSeen, now: Instant<Wall>) {
        self.sent = Some(now);
        if seen.retransmissions > self.seen.retransmissions {
            self.resent = Some(now);
        }
        self.seen.retransmissions = seen.retransmissions;
    }

    /// Returns the instant before which the next frame may not be delivered to the host, if there
    /// is one. `seen` counts that frame. `round_trip` is the shortest of its connection, if that
    /// has lost segments.
    pub(crate) fn not_before(
        &mut self,
        seen: TcpSeen,
        round_trip: Option<Duration>,
    ) -> Option<Instant<Wall>> {
        let tells_gap = seen.gaps > self.seen.gaps;
        self.seen.gaps = seen.gaps;
        let quarter = round_trip.map_or(0, Duration::as_ns) / 4;
        let apart = STAMP + Duration::from_ns(quarter);
        let after_gap = self.sent.filter(|_| tells_gap).map(|sent| sent + apart);
        let after_repair = self.resent.zip(round_trip);
        let after_repair =
            after_repair.map(|(resent, round_trip)| resent + round_trip.max(STAMP).min(LONGEST));
        after_gap.max(after_repair)
    }
}

/// Unit of the time stamps of Linux's TCP, and a tenth.
const STAMP: Duration = Duration::from_us(1100);
/// Longest wait for a round trip. The shortest of a connection through the simulated network
/// usually takes 0.2 ms of the machine's time, and some milliseconds on a busy machine.
const LONGEST: Duration = Duration::from_s(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: i64) -> Instant<Wall> {
        Instant::from_ns(us * 1000)
    }

    fn seen(retransmissions: u64, gaps: u64) -> TcpSeen {
        TcpSeen {
            retransmissions,
            gaps,
        }
    }

    #[test]
    fn after_a_retransmission_frames_wait_for_the_shortest_round_trip() {
        let mut repair = Repair::default();
        let round_trip = Some(Duration::from_us(3000));
        repair.note_sent(seen(0, 0), at(0));
        assert_eq!(repair.not_before(seen(0, 0), round_trip), None);
        repair.note_sent(seen(1, 0), at(10_000));
        assert_eq!(repair.not_before(seen(1, 0), None), None, "no loss");
        let wait = repair.not_before(seen(1, 0), round_trip);
        assert_eq!(wait, Some(at(13_000)));
        let short = Some(Duration::from_us(200));
        assert_eq!(repair.not_before(seen(1, 0), short), Some(at(11_100)));
        repair.note_sent(seen(2, 0), at(20_000));
        let wait = repair.not_before(seen(2, 0), round_trip);
        assert_eq!(wait, Some(at(23_000)), "the last retransmission counts");
    }

    #[test]
    fn a_gap_is_told_in_a_later_millisecond_than_the_last_data() {
        let mut repair = Repair::default();
        repair.note_sent(seen(0, 0), at(700));
        assert_eq!(repair.not_before(seen(0, 0), None), None);
        assert_eq!(repair.not_before(seen(0, 1), None), Some(at(1800)));
        assert_eq!(repair.not_before(seen(0, 1), None), None);
        let round_trip = Some(Duration::from_us(4000));
        assert_eq!(repair.not_before(seen(0, 2), round_trip), Some(at(2800)));
    }
}

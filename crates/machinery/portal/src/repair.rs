//! Real time between the steps of a repair, for runs that must be reproducible.
//!
//! A kernel's TCP compares times of the machine when it repairs a loss. Where time skips, a round
//! trip takes only as long as the machine needs to compute, and the results of these comparisons
//! would be left to chance. Frames for a host therefore wait, in the machine's time:
//!
//! - An acknowledgement of data beyond a gap arrives in a later millisecond than that in which the
//!   host sent data last. By their time stamps, which count milliseconds, a kernel tells an
//!   acknowledgement of the original from one of the retransmission that follows (RFC 3522).
//! - After a retransmission nothing arrives sooner than a handshake took. A kernel ignores the
//!   acknowledgement of a retransmission that arrives sooner than the shortest round trip of the
//!   connection (RFC 8985).

use timeloom_net::TcpSeen;
use timeloom_time::{Duration, Instant, Wall};

/// Times of one host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Repair {
    seen: TcpSeen,
    /// Instant at which a frame of the host was read last.
    sent: Option<Instant<Wall>>,
    /// Instant at which a SYN or SYN-ACK was read, until a frame is delivered to the host.
    opened: Option<Instant<Wall>>,
    /// Longest time from there until that frame.
    handshake: Duration,
    /// Instant at which a retransmission was read, until a frame is delivered to the host.
    resent: Option<Instant<Wall>>,
}

impl Repair {
    /// Records that a frame was read from the host's portal, after which the counts are `seen`.
    pub(crate) fn note_sent(&mut self, seen: TcpSeen, now: Instant<Wall>) {
        self.sent = Some(now);
        if seen.openings > self.seen.openings {
            self.opened = Some(now);
        }
        if seen.retransmissions > self.seen.retransmissions {
            self.resent = Some(now);
        }
        self.seen.openings = seen.openings;
        self.seen.retransmissions = seen.retransmissions;
    }

    /// Returns the instant before which the next frame may not be delivered to the host, if there
    /// is one; `seen` counts that frame.
    pub(crate) fn not_before(
        &mut self,
        seen: TcpSeen,
        now: Instant<Wall>,
    ) -> Option<Instant<Wall>> {
        if let Some(opened) = self.opened.take() {
            self.handshake = self.handshake.max(now - opened);
        }
        let tells_gap = seen.gaps > self.seen.gaps;
        self.seen.gaps = seen.gaps;
        let after_gap = self.sent.filter(|_| tells_gap).map(|sent| sent + STAMP);
        let handshakes = (self.handshake + self.handshake).max(STAMP).min(LONGEST);
        let after_repair = self.resent.take().map(|resent| resent + handshakes);
        after_gap.max(after_repair)
    }
}

/// Unit of the time stamps of Linux's TCP, and a tenth.
const STAMP: Duration = Duration::from_us(1100);
/// Longest wait for a round trip. A handshake through the simulated network usually takes 0.2 ms of
/// the machine's time, and some milliseconds on a busy machine.
const LONGEST: Duration = Duration::from_ms(50);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: i64) -> Instant<Wall> {
        Instant::from_ns(us * 1000)
    }

    fn seen(openings: u64, retransmissions: u64, gaps: u64) -> TcpSeen {
        TcpSeen {
            openings,
            retransmissions,
            gaps,
        }
    }

    #[test]
    fn after_a_retransmission_frames_wait_for_two_handshakes() {
        let mut repair = Repair::default();
        repair.note_sent(seen(1, 0, 0), at(0));
        assert_eq!(repair.not_before(seen(1, 0, 0), at(3000)), None);
        repair.note_sent(seen(1, 0, 0), at(4000));
        assert_eq!(repair.not_before(seen(1, 0, 0), at(5000)), None);
        repair.note_sent(seen(1, 1, 0), at(10_000));
        let wait = repair.not_before(seen(1, 1, 0), at(11_000));
        assert_eq!(wait, Some(at(16_000)));
        assert_eq!(repair.not_before(seen(1, 1, 0), at(12_000)), None);
        repair.note_sent(seen(2, 1, 0), at(20_000));
        assert_eq!(repair.not_before(seen(2, 1, 0), at(120_000)), None);
        repair.note_sent(seen(2, 3, 0), at(130_000));
        let wait = repair.not_before(seen(2, 3, 0), at(131_000));
        assert_eq!(wait, Some(at(180_000)), "no longer than the limit");
    }

    #[test]
    fn a_gap_is_told_in_a_later_millisecond_than_the_last_data() {
        let mut repair = Repair::default();
        repair.note_sent(seen(0, 0, 0), at(700));
        assert_eq!(repair.not_before(seen(0, 0, 0), at(710)), None);
        assert_eq!(repair.not_before(seen(0, 0, 1), at(720)), Some(at(1800)));
        assert_eq!(repair.not_before(seen(0, 0, 1), at(1800)), None);
    }
}

//! Copies of unacknowledged segments.

use timeloom_time::{Instant, Virtual};

use super::segment::before;

/// Copy of a segment, or of a train of segments.
#[derive(Debug)]
pub(super) struct Copy<C> {
    pub(super) seq: u32,
    pub(super) end: u32,
    pub(super) each: u32,
    /// Number of sequence numbers for SYN and FIN, 0 to 2.
    pub(super) controls: u32,
    pub(super) content: C,
    pub(super) first_sent: Instant<Virtual>,
    pub(super) last_sent: Instant<Virtual>,
    pub(super) is_resent: bool,
}

impl<C> Copy<C> {
    /// Returns the number of segments from sequence number `una` on.
    pub(super) fn segments_from(&self, una: u32) -> u32 {
        let from = if before(self.seq, una) { una } else { self.seq };
        let payload = self.end.wrapping_sub(from).saturating_sub(self.controls);
        payload.div_ceil(self.each).max(1)
    }

    /// Returns the sequence number at which the copy's last segment begins.
    pub(super) fn last_segment(&self) -> u32 {
        let payload = self
            .end
            .wrapping_sub(self.seq)
            .saturating_sub(self.controls);
        self.seq
            .wrapping_add(payload.saturating_sub(1) / self.each * self.each)
    }
}

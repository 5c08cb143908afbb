//! DCTCP (RFC 8257): the window is reduced in proportion to the fraction of marked segments. Names
//! and numbers are those of the RFC.

/// State of DCTCP (section 3.3); amounts are in segments.
#[derive(Clone, Debug)]
pub(crate) struct Dctcp {
    alpha: f64,
    acked: u64,
    marked: u64,
    /// Segment at which the present window of observation ends: the first not sent when it began.
    window_end: u64,
}

/// Weight of the newest window in the average (section 4.2).
const G: f64 = 1.0 / 16.0;

impl Default for Dctcp {
    /// The average starts at 1, so that the first mark halves the window (section 4.2).
    fn default() -> Self {
        Self {
            alpha: 1.0,
            acked: 0,
            marked: 0,
            window_end: 0,
        }
    }
}

impl Dctcp {
    /// Processes an acknowledgement of `acked` segments. `marked` is true if it reports congestion.
    /// After the acknowledgement, `una` is the first unacknowledged segment and `nxt` the first
    /// never sent.
    #[inline]
    pub(crate) fn handle_ack(&mut self, acked: u64, marked: bool, una: u64, nxt: u64) {
        self.acked += acked;
        self.marked += if marked { acked } else { 0 };
        if una <= self.window_end {
            return;
        }
        if self.acked > 0 {
            let share = self.marked as f64 / self.acked as f64;
            self.alpha = self.alpha * (1.0 - G) + G * share;
        }
        (self.acked, self.marked, self.window_end) = (0, 0, nxt);
    }

    /// Returns the window after a reduction because of marks.
    pub(crate) fn shrink(&self, window: f64) -> f64 {
        window * (1.0 - self.alpha / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alpha_is_the_share_of_marks_in_the_long_run() {
        let mut dctcp = Dctcp::default();
        assert_eq!(dctcp.shrink(10.0), 5.0);
        for segment in 1..10_000u64 {
            dctcp.handle_ack(1, segment % 5 == 0, segment, segment + 20);
        }
        assert!((dctcp.alpha - 0.2).abs() < 0.03, "{}", dctcp.alpha);
        for segment in 10_000..20_000 {
            dctcp.handle_ack(1, false, segment, segment + 20);
        }
        assert!(dctcp.shrink(10.0) > 9.99, "without marks it forgets");
    }
}

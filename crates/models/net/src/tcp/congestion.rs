//! Congestion control.

use timeloom_time::{Duration, Instant, Virtual};

use super::bbr::Bbr;
use super::cubic::Cubic;
use super::dctcp::Dctcp;
use super::hystart::{CSS_GROWTH_DIVISOR, Growth, HyStart};

/// Congestion control algorithm of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// NewReno: RFC 5681 with byte counting (RFC 3465, L = 2).
    NewReno,
    /// CUBIC: RFC 9438 with the slow start of RFC 9406 (HyStart++).
    Cubic,
    /// CUBIC with the Reno-friendly window of RFC 8312, section 4.2, which grows more slowly; as in
    /// Linux.
    Cubic8312,
    /// BBR version 1, as in Linux: pace and window follow from the path's rate and round trip.
    /// Losses do not reduce them.
    Bbr,
    /// DCTCP (RFC 8257): like NewReno, but the reduction is proportional to the marked fraction of
    /// a window. It requires queues that mark above a threshold, as [`crate::RedConfig::step`]
    /// does.
    Dctcp,
}

impl Control {
    fn is_cubic(self) -> bool {
        matches!(self, Self::Cubic | Self::Cubic8312)
    }
}

/// Congestion window of one sender, in segments.
#[derive(Clone, Debug)]
pub(crate) struct Congestion {
    pub(crate) window: f64,
    threshold: f64,
    cubic: Option<Cubic>,
    pub(crate) bbr: Option<Box<Bbr>>,
    pub(crate) dctcp: Option<Dctcp>,
    /// HyStart++; `None` after the first slow start.
    hystart: Option<Box<HyStart>>,
}

/// Data about an acknowledgement of new segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Number of newly acknowledged segments.
    pub(crate) acked: u32,
    /// Number of segments that were outstanding before.
    pub(crate) flight: u32,
    /// First unacknowledged segment.
    pub(crate) una: u64,
    /// First segment that has never been sent.
    pub(crate) nxt: u64,
    /// Sample of the round-trip time.
    pub(crate) sample: Duration,
    /// Smoothed round-trip time.
    pub(crate) smoothed: Duration,
}

impl Congestion {
    pub(crate) fn new(control: Control, initial: u32) -> Self {
        Self {
            window: f64::from(initial.max(1)),
            threshold: f64::INFINITY,
            cubic: Cubic::of(control),
            bbr: (control == Control::Bbr).then(|| Box::new(Bbr::new(initial))),
            dctcp: (control == Control::Dctcp).then(Dctcp::default),
            hystart: control.is_cubic().then(Box::default),
        }
    }

    /// Returns the congestion control algorithm.
    pub(crate) fn control(&self) -> Control {
        match self {
            Self {
                cubic: Some(cubic), ..
            } => cubic.control(),
            Self { bbr: Some(_), .. } => Control::Bbr,
            Self { dctcp: Some(_), .. } => Control::Dctcp,
            _ => Control::NewReno,
        }
    }

    /// Increases the window after an acknowledgement of new segments.
    #[inline]
    pub(crate) fn grow(&mut self, now: Instant<Virtual>, progress: &Progress) {
        let (acked, flight) = (f64::from(progress.acked), f64::from(progress.flight));
        if self.bbr.is_some() {
            return;
        }
        if self.window < self.threshold {
            let growth = match &mut self.hystart {
                None => Growth::Whole,
                Some(hystart) => hystart.handle_ack(progress.una, progress.nxt, progress.sample),
            };
            let worth = match growth {
                Growth::Whole => 1.0,
                Growth::Part => 1.0 / CSS_GROWTH_DIVISOR,
                Growth::Over => {
                    self.threshold = self.window;
                    self.hystart = None;
                    0.0
                }
            };
            // A window that is not used up gives no information on the path (RFC 7661).
            if 2.0 * flight >= self.window {
                self.window += worth * acked.min(2.0);
            }
        } else if flight + 2.0 >= self.window {
            self.window = match &mut self.cubic {
                Some(cubic) => cubic.grow(now, self.window, acked, progress.smoothed),
                None => self.window + acked / self.window,
            };
        }
    }

    /// Returns the slow-start threshold, which is the window at the end of recovery.
    pub(crate) fn threshold(&self) -> f64 {
        self.threshold
    }

    /// Reduces the window after a loss (RFC 5681, section 3.1; RFC 9438, section 4.6). `flight`
    /// does not count segments sent beyond the window during duplicate acknowledgements (limited
    /// transmit). Like the kernel's, windows are whole numbers of segments.
    pub(crate) fn shrink(&mut self, flight: u32) {
        if self.bbr.is_some() {
            return;
        }
        // RFC 9406 applies only to a slow start without a known threshold.
        self.hystart = None;
        let threshold = match &mut self.cubic {
            Some(cubic) => cubic.shrink(self.window),
            None => f64::from(flight).min(self.window.floor()) / 2.0,
        };
        self.threshold = threshold.floor().max(2.0);
        self.window = self.threshold;
    }

    /// Reduces the window after reported congestion marks (RFC 3168, section 6.1.2; RFC 8257,
    /// section 3.3). BBR ignores them.
    pub(crate) fn shrink_by_marks(&mut self, flight: u32) {
        match &self.dctcp {
            None => self.shrink(flight),
            Some(dctcp) => {
                self.threshold = dctcp.shrink(self.window).max(2.0);
                self.window = self.threshold;
            }
        }
    }
}

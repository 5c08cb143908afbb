//! The congestion window.

use timeloom_time::{Duration, Instant, Virtual};

use super::cubic::Cubic;

/// How a sender's window grows and shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// RFC 5681, with byte counting (RFC 3465, L = 2).
    NewReno,
    /// RFC 9438.
    Cubic,
}

/// The window of one sender, in segments.
#[derive(Debug)]
pub(crate) struct Congestion {
    pub(crate) window: f64,
    threshold: f64,
    cubic: Option<Cubic>,
}

impl Congestion {
    pub(crate) fn new(control: Control, initial: u32) -> Self {
        Self {
            window: f64::from(initial.max(1)),
            threshold: f64::INFINITY,
            cubic: (control == Control::Cubic).then(Cubic::default),
        }
    }

    /// `acked` more segments are acknowledged; `flight` were outstanding.
    #[inline]
    pub(crate) fn grow(
        &mut self,
        now: Instant<Virtual>,
        acked: u32,
        flight: u32,
        round_trip: Duration,
    ) {
        let (acked, flight) = (f64::from(acked), f64::from(flight));
        if self.window < self.threshold {
            // A window that is not used says nothing about the path (RFC 7661).
            if 2.0 * flight >= self.window {
                self.window += acked.min(2.0);
            }
        } else if flight + 2.0 >= self.window {
            self.window = match &mut self.cubic {
                Some(cubic) => cubic.grow(now, self.window, acked, round_trip),
                None => self.window + acked / self.window,
            };
        }
    }

    /// The slow-start threshold, to which recovery brings the window.
    pub(crate) fn threshold(&self) -> f64 {
        self.threshold
    }

    /// Loss was found (RFC 5681, section 3.1; RFC 9438, section 4.6).
    pub(crate) fn shrink(&mut self, flight: u32) {
        self.threshold = match &mut self.cubic {
            Some(cubic) => cubic.shrink(self.window),
            None => (f64::from(flight) / 2.0).max(2.0),
        };
        self.window = self.threshold;
    }
}

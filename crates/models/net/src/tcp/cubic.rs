//! CUBIC (RFC 9438), with the differences of RFC 8312; names and numbers are those of the RFCs.

use timeloom_time::{Duration, Instant, Virtual};

use super::congestion::Control;

/// State of CUBIC (RFC 9438, section 4); windows are in segments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cubic {
    w_max: f64,
    w_est: f64,
    cwnd_prior: f64,
    k_s: f64,
    /// True if the Reno-friendly window always grows slowly, as in RFC 8312, section 4.2.
    stays_slow: bool,
    epoch_start: Option<Instant<Virtual>>,
}

const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// Additive increase with which the Reno-friendly window is as fast as Reno (equation 4).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

impl Cubic {
    /// Returns the state for a CUBIC algorithm; `None` for others.
    pub(crate) fn of(control: Control) -> Option<Self> {
        let stays_slow = control == Control::Cubic8312;
        (stays_slow || control == Control::Cubic).then(|| Self {
            stays_slow,
            ..Self::default()
        })
    }

    pub(crate) fn control(&self) -> Control {
        if self.stays_slow {
            Control::Cubic8312
        } else {
            Control::Cubic
        }
    }

    /// Returns the slow-start threshold after a congestion event (sections 4.6 and 4.7).
    pub(crate) fn shrink(&mut self, window: f64) -> f64 {
        self.epoch_start = None;
        self.cwnd_prior = window;
        self.w_max = if window < self.w_max {
            window * (1.0 + BETA) / 2.0
        } else {
            window
        };
        (window * BETA).max(2.0)
    }

    /// Returns the window after `acked` more segments were acknowledged (sections 4.2 to 4.5).
    pub(crate) fn grow(
        &mut self,
        now: Instant<Virtual>,
        window: f64,
        acked: f64,
        round_trip: Duration,
    ) -> f64 {
        let epoch = match self.epoch_start {
            Some(epoch) => epoch,
            None => {
                self.w_max = self.w_max.max(window);
                self.k_s = ((self.w_max - window) / C).cbrt();
                self.w_est = window;
                self.epoch_start = Some(now);
                now
            }
        };
        let t_s = (now - epoch).as_s_f64();
        let w_cubic = |t_s: f64| C * (t_s - self.k_s).powi(3) + self.w_max;
        let alpha = if self.stays_slow || self.w_est < self.cwnd_prior {
            ALPHA
        } else {
            1.0
        };
        self.w_est += alpha * acked / window;
        if w_cubic(t_s) < self.w_est {
            return self.w_est.max(window);
        }
        let target = w_cubic(t_s + round_trip.as_s_f64()).clamp(window, 1.5 * window);
        window + (target - window) / window * acked
    }
}

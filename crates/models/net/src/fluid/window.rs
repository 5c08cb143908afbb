//! Congestion window of a TCP sender in the fluid model.
//!
//! Between losses, the window follows its differential equation: dW/dt = 1/R for NewReno (Misra,
//! Gong and Towsley, SIGCOMM 2000, with losses as single events), or the curve of RFC 9438 for
//! CUBIC. The rate is W/R with the present round-trip time R. A loss happens with the probability
//! that one of the step's packets was lost. The sender detects it a round trip later, and all
//! losses until then count as one.

use timeloom_engine::Random;
use timeloom_time::{Duration, Instant, Virtual};

use crate::tcp::{Control, Cubic};

/// Window of one sender, in packets; times are in ns.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) window: f64,
    threshold: f64,
    cubic: Option<Cubic>,
    limit: f64,
    min_rto_ns: f64,
    base_ns: f64,
    pub(crate) round_trip_ns: f64,
    /// Number of packets sent in the last step, and its length.
    sent: f64,
    step_ns: f64,
    /// Instant at which a loss will be detected; `None` if there is none.
    known_at: Option<Instant<Virtual>>,
    /// End of loss recovery, during which the window is constant.
    recovers_until: Instant<Virtual>,
    /// Instant at which the retransmission timer expires; the sender is silent until then.
    silent_until: Instant<Virtual>,
    /// Instant since which the round-trip time has been long, so that CUBIC's slow start grows
    /// conservatively (RFC 9406).
    careful_since: Option<Instant<Virtual>>,
    pub(crate) slowed: u64,
}

/// Initial window in packets (RFC 6928).
const INITIAL_WINDOW: f64 = 10.0;
/// Window below which fewer than three packets follow a lost one, so that the loss is detected only
/// by the timer (DupThresh of RFC 6675).
const LEAST_REPAIRABLE: f64 = 4.0;
/// Minimum increase of the round-trip time that ends slow start (RFC 9406).
const LEAST_RISE_NS: f64 = 4e6;
/// Maximum increase of the round-trip time that slow start tolerates (RFC 9406).
const MOST_RISE_NS: f64 = 16e6;
/// Growth of conservative slow start, as a fraction of that of slow start (RFC 9406).
const CAREFUL_GROWTH: f64 = 0.25;
/// Number of round trips of conservative slow start (RFC 9406).
const CAREFUL_ROUNDS: f64 = 5.0;

impl Window {
    pub(crate) fn new(
        control: Control,
        receive_window: u32,
        min_rto: Duration,
        base: Duration,
    ) -> Self {
        let base_ns = base.as_ns() as f64;
        Self {
            window: INITIAL_WINDOW,
            threshold: f64::INFINITY,
            cubic: Cubic::of(control),
            limit: f64::from(receive_window),
            min_rto_ns: min_rto.as_ns() as f64,
            base_ns,
            round_trip_ns: base_ns,
            sent: 0.0,
            step_ns: 0.0,
            known_at: None,
            recovers_until: Instant::ZERO,
            silent_until: Instant::ZERO,
            careful_since: None,
            slowed: 0,
        }
    }

    /// Returns the number of packets that are sent in the step that begins now.
    pub(crate) fn sends(&mut self, now: Instant<Virtual>, step_ns: f64) -> f64 {
        self.step_ns = step_ns;
        self.sent = if now < self.silent_until {
            0.0
        } else {
            // Only whole packets are in flight.
            self.window.min(self.limit).floor() / self.round_trip_ns * step_ns
        };
        self.sent
    }

    /// Processes the loss and waiting time on the path for the packets of [`Window::sends`].
    pub(crate) fn feel(
        &mut self,
        now: Instant<Virtual>,
        loss: f64,
        wait_ns: f64,
        random: &mut Random,
    ) {
        self.round_trip_ns = self.base_ns + wait_ns;
        if self.sent == 0.0 {
            return;
        }
        if self.known_at.is_some_and(|at| at <= now) {
            self.known_at = None;
            self.slow_down(now);
        }
        if self.known_at.is_none() && loss > 0.0 {
            let none = (self.sent * (-loss.min(1.0 - 1e-12)).ln_1p()).exp();
            if random.chance(1.0 - none) {
                self.known_at = Some(later(now, self.round_trip_ns));
            }
        }
        if now >= self.recovers_until {
            self.grow(now);
        }
    }

    fn grow(&mut self, now: Instant<Virtual>) {
        let rounds = self.step_ns / self.round_trip_ns;
        if self.window < self.threshold {
            // Each packet that arrives increases the window by one, a round trip after it was sent,
            // so the window doubles per round trip.
            let growth = if self.is_careful(now) {
                CAREFUL_GROWTH
            } else {
                1.0
            };
            self.window *= (1.0 + growth).powf(rounds);
        } else {
            let acked = self.window * rounds;
            let round_trip = Duration::from_ns_f64(self.round_trip_ns);
            self.window = match &mut self.cubic {
                Some(cubic) => cubic.grow(now, self.window, acked, round_trip),
                None => self.window + rounds,
            };
        }
        self.window = self.window.min(self.limit);
    }

    /// Returns true during conservative slow start (RFC 9406), which occurs only in the first slow
    /// start.
    fn is_careful(&mut self, now: Instant<Virtual>) -> bool {
        if self.cubic.is_none() || self.threshold.is_finite() {
            return false;
        }
        let rise = (self.base_ns / 8.0).clamp(LEAST_RISE_NS, MOST_RISE_NS);
        if self.round_trip_ns < self.base_ns + rise {
            self.careful_since = None;
            return false;
        }
        let since = *self.careful_since.get_or_insert(now);
        if now >= later(since, CAREFUL_ROUNDS * self.round_trip_ns) {
            self.threshold = self.window;
        }
        true
    }

    fn slow_down(&mut self, now: Instant<Virtual>) {
        self.slowed += 1;
        let before = self.window;
        let threshold = match &mut self.cubic {
            Some(cubic) => cubic.shrink(before),
            None => before.floor() / 2.0,
        };
        self.threshold = threshold.floor().max(2.0);
        if before < LEAST_REPAIRABLE {
            self.window = 1.0;
            self.silent_until = later(now, self.min_rto_ns.max(2.0 * self.round_trip_ns));
            self.recovers_until = self.silent_until;
        } else {
            self.window = self.threshold;
            self.recovers_until = later(now, self.round_trip_ns);
        }
    }
}

fn later(at: Instant<Virtual>, ns: f64) -> Instant<Virtual> {
    at + Duration::from_ns_f64(ns)
}

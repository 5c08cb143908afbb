//! BBR, version 1. The sender models the path by the bottleneck's rate and the shortest round trip,
//! and sends at that rate (Cardwell, Cheng, Gunn, Yeganeh and Jacobson, "BBR: congestion-based
//! congestion control", ACM Queue 14(5), 2016; draft-cardwell-iccrg-bbr-congestion-control-00).
//! Rates are estimated as in draft-cheng-iccrg-delivery-rate-estimation-00. Names are those of the
//! drafts.
//!
//! Two features that Linux has in addition to the drafts are left out: long-term rate estimation
//! for policers, and the allowance for aggregated acknowledgements.

use std::collections::VecDeque;

use timeloom_time::convert::index;
use timeloom_time::{Duration, Instant, Virtual};

/// Segment in flight, with the number of segments delivered when it was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant<Virtual>,
    delivered: u64,
    delivered_at: Instant<Virtual>,
    first_sent: Instant<Virtual>,
    /// True if the segment was sent with a small window, so that it gives no information on the
    /// path's rate.
    is_limited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// Information in an acknowledgement; amounts are in segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    /// Time stamp of the acknowledged segment.
    pub(crate) stamp: Instant<Virtual>,
    /// Number of segments that have arrived so far, in order or not.
    pub(crate) delivered: u64,
    /// Segments in flight.
    pub(crate) pipe: u32,
    /// Sample of the round-trip time, if there is one.
    pub(crate) sample: Option<Duration>,
    /// Number of segments newly detected as lost.
    pub(crate) lost: u32,
    /// True during loss recovery.
    pub(crate) repairs: bool,
}

/// Model of the path, and state of the control; rates are in segments per ns.
#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    mode: Mode,
    pacing_gain: f64,
    window_gain: f64,
    pub(crate) window: f64,
    prior_window: f64,
    initial_window: f64,
    pacing_rate: f64,
    /// Earliest instant at which the next segment may be sent.
    pub(crate) next_send: Instant<Virtual>,
    sent: VecDeque<Sent>,
    delivered: u64,
    delivered_at: Instant<Virtual>,
    first_sent: Instant<Virtual>,
    /// Number of the present round.
    round: u64,
    /// Number of delivered segments at which the next round begins.
    next_round_delivered: u64,
    /// Round and rate of recent samples that may still become the maximum, with descending rates.
    rates: VecDeque<(u64, f64)>,
    min_rtt: Duration,
    min_rtt_at: Instant<Virtual>,
    full_rate: f64,
    full_rounds: u32,
    is_filled: bool,
    cycle: usize,
    cycle_at: Instant<Virtual>,
    /// Instant at which the measurement of the shortest round trip ends; `None` while no minimal
    /// window is reached.
    probed_at: Option<Instant<Virtual>>,
    /// Round in which recovery began: during it, one segment is sent for each that arrives.
    conserves: Option<u64>,
    repairs: bool,
}

/// Gain in startup, 2/ln 2, by which the rate doubles in each round.
const HIGH_GAIN: f64 = 2.885;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const RATE_ROUNDS: u64 = 10;
const MIN_RTT_LIVES: Duration = Duration::from_s(10);
const PROBE_RTT: Duration = Duration::from_ms(200);
const LEAST_WINDOW: f64 = 4.0;
/// Segments by which the window exceeds the model, to allow for delayed acknowledgements.
const SPARE: f64 = 3.0;
/// Pacing rate divided by the estimated rate. Like Linux, it is 1 % below one so that queues drain.
const MARGIN: f64 = 0.99;

impl Bbr {
    pub(crate) fn new(initial_window: u32) -> Self {
        let window = f64::from(initial_window.max(1));
        Self {
            mode: Mode::Startup,
            pacing_gain: HIGH_GAIN,
            window_gain: HIGH_GAIN,
            window,
            prior_window: window,
            initial_window: window,
            pacing_rate: 0.0,
            next_send: Instant::ZERO,
            sent: VecDeque::new(),
            delivered: 0,
            delivered_at: Instant::ZERO,
            first_sent: Instant::ZERO,
            round: 0,
            next_round_delivered: 0,
            rates: VecDeque::new(),
            min_rtt: Duration::MAX,
            min_rtt_at: Instant::ZERO,
            full_rate: 0.0,
            full_rounds: 0,
            is_filled: false,
            cycle: 0,
            cycle_at: Instant::ZERO,
            probed_at: None,
            conserves: None,
            repairs: false,
        }
    }

    /// Handles the answer to the opening segment, which gives the first round-trip time.
    pub(crate) fn handle_opened(&mut self, now: Instant<Virtual>, sample: Duration) {
        (self.min_rtt, self.min_rtt_at) = (sample, now);
        self.pacing_rate = HIGH_GAIN * self.window / sample.as_ns().max(1) as f64;
        (self.delivered_at, self.first_sent, self.next_send) = (now, now, now);
    }

    /// Records that a segment was sent while `pipe` others were in flight.
    pub(crate) fn note_sent(&mut self, now: Instant<Virtual>, pipe: u32) {
        if pipe == 0 {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        self.sent.push_back(Sent {
            at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            is_limited: self.mode == Mode::ProbeRtt,
        });
        let gap_ns = (1.0 / self.pacing_rate).min(1e9);
        self.next_send = self.next_send.max(now) + Duration::from_ns_f64(gap_ns);
    }

    /// Handles an acknowledgement, and updates model, pace and window.
    pub(crate) fn handle_ack(&mut self, now: Instant<Virtual>, ack: &Delivery) {
        let acked = ack.delivered.saturating_sub(self.delivered);
        self.delivered = ack.delivered;
        let (rate, begins) = self.sample(now, ack, acked);
        if let Some(rate) = rate {
            self.note_rate(rate);
        }
        self.update_filled(begins);
        self.go_on(now, ack);
        self.probe_round_trip(now, ack, begins);
        let wanted = self.pacing_gain * self.rate() * MARGIN;
        if wanted > 0.0 && (self.is_filled || wanted > self.pacing_rate) {
            self.pacing_rate = wanted;
        }
        self.set_window(ack, acked as f64);
    }

    /// Returns the delivery rate since the acknowledged segment was sent; also returns true if a
    /// new round begins.
    fn sample(&mut self, now: Instant<Virtual>, ack: &Delivery, acked: u64) -> (Option<f64>, bool) {
        while self.sent.front().is_some_and(|sent| sent.at < ack.stamp) {
            self.sent.pop_front();
        }
        let answered = self
            .sent
            .front()
            .filter(|sent| sent.at == ack.stamp)
            .copied();
        let Some(sent) = answered.filter(|_| acked > 0) else {
            return (None, false);
        };
        self.delivered_at = now;
        self.first_sent = sent.at;
        let begins = sent.delivered >= self.next_round_delivered;
        if begins {
            self.next_round_delivered = self.delivered;
            self.round += 1;
        }
        // The longer of the two intervals, so that a burst of segments or of acknowledgements does
        // not look like a high rate.
        let interval = (sent.at - sent.first_sent).max(now - sent.delivered_at);
        if interval < self.min_rtt || interval <= Duration::ZERO {
            return (None, begins);
        }
        let delivered = (self.delivered - sent.delivered) as f64;
        let rate = delivered / interval.as_ns() as f64;
        let counts = !sent.is_limited || rate >= self.rate();
        (counts.then_some(rate), begins)
    }

    fn note_rate(&mut self, rate: f64) {
        while self.rates.back().is_some_and(|(_, other)| *other <= rate) {
            self.rates.pop_back();
        }
        self.rates.push_back((self.round, rate));
        let oldest = self.round.saturating_sub(RATE_ROUNDS);
        while self.rates.front().is_some_and(|(round, _)| *round < oldest) {
            self.rates.pop_front();
        }
    }

    /// Returns the bottleneck's rate: the maximum over the last rounds.
    fn rate(&self) -> f64 {
        self.rates.front().map_or(0.0, |(_, rate)| *rate)
    }

    /// Returns the bandwidth-delay product of the path, in segments.
    fn product(&self) -> f64 {
        if self.min_rtt == Duration::MAX {
            return self.initial_window;
        }
        self.rate() * self.min_rtt.as_ns() as f64
    }

    fn update_filled(&mut self, begins: bool) {
        if self.is_filled || !begins {
            return;
        }
        if self.rate() >= self.full_rate * 1.25 {
            (self.full_rate, self.full_rounds) = (self.rate(), 0);
            return;
        }
        self.full_rounds += 1;
        self.is_filled = self.full_rounds >= 3;
    }

    /// Advances to the next state, or to the next phase of the gain cycle.
    fn go_on(&mut self, now: Instant<Virtual>, ack: &Delivery) {
        let pipe = f64::from(ack.pipe);
        if self.mode == Mode::Startup && self.is_filled {
            self.enter(Mode::Drain, 1.0 / HIGH_GAIN, HIGH_GAIN);
        }
        if self.mode == Mode::Drain && pipe <= self.product() {
            self.enter_probe_bw(now);
        }
        if self.mode != Mode::ProbeBw {
            return;
        }
        let is_over = now - self.cycle_at > self.min_rtt;
        let next = match self.pacing_gain {
            gain if gain > 1.0 => is_over && (ack.lost > 0 || pipe >= gain * self.product()),
            gain if gain < 1.0 => is_over || pipe <= self.product(),
            _ => is_over,
        };
        if next {
            self.cycle = (self.cycle + 1) % CYCLE.len();
            self.cycle_at = now;
            self.pacing_gain = CYCLE[self.cycle];
        }
    }

    fn enter(&mut self, mode: Mode, pacing_gain: f64, window_gain: f64) {
        (self.mode, self.pacing_gain, self.window_gain) = (mode, pacing_gain, window_gain);
    }

    /// Enters the gain cycle at any phase except the draining one, so that flows do not probe at
    /// the same time. The choice depends on virtual time and is the same in every run.
    fn enter_probe_bw(&mut self, now: Instant<Virtual>) {
        let place = index(now.as_ns().unsigned_abs() % 7);
        self.cycle = if place == 0 { 0 } else { place + 1 };
        self.cycle_at = now;
        self.enter(Mode::ProbeBw, CYCLE[self.cycle], 2.0);
    }

    /// Measures the shortest round trip again, with almost nothing in flight, if no sample was as
    /// short for ten seconds.
    fn probe_round_trip(&mut self, now: Instant<Virtual>, ack: &Delivery, begins: bool) {
        let is_old = now > self.min_rtt_at + MIN_RTT_LIVES;
        if let Some(sample) = ack.sample
            && (sample <= self.min_rtt || is_old)
        {
            (self.min_rtt, self.min_rtt_at) = (sample.max(Duration::from_ns(1)), now);
        }
        if is_old && self.mode != Mode::ProbeRtt {
            self.prior_window = self.prior_window.max(self.window);
            self.probed_at = None;
            self.enter(Mode::ProbeRtt, 1.0, 1.0);
        }
        if self.mode != Mode::ProbeRtt {
            return;
        }
        match self.probed_at {
            None if f64::from(ack.pipe) <= LEAST_WINDOW => {
                self.probed_at = Some(now + PROBE_RTT);
                self.next_round_delivered = self.delivered;
            }
            Some(at) if now >= at && begins => {
                self.min_rtt_at = now;
                self.window = self.window.max(self.prior_window);
                self.prior_window = 0.0;
                if self.is_filled {
                    self.enter_probe_bw(now);
                } else {
                    self.enter(Mode::Startup, HIGH_GAIN, HIGH_GAIN);
                }
            }
            _ => {}
        }
    }

    fn set_window(&mut self, ack: &Delivery, acked: f64) {
        let pipe = f64::from(ack.pipe);
        self.window = (self.window - f64::from(ack.lost)).max(1.0);
        match (self.repairs, ack.repairs) {
            (false, true) => {
                self.prior_window = self.prior_window.max(self.window + f64::from(ack.lost));
                self.conserves = Some(self.round);
                self.window = pipe + acked.max(1.0);
            }
            (true, false) => {
                self.window = self.window.max(self.prior_window);
                self.prior_window = 0.0;
                self.conserves = None;
            }
            _ => {}
        }
        self.repairs = ack.repairs;
        if self.conserves.is_some_and(|round| self.round > round) {
            self.conserves = None;
        }
        if self.conserves.is_some() {
            self.window = self.window.max(pipe + acked);
        } else {
            let target = self.window_gain * self.product() + SPARE;
            if self.is_filled {
                self.window = (self.window + acked).min(target);
            } else if self.window < target || (self.delivered as f64) < self.initial_window {
                self.window += acked;
            }
            self.window = self.window.max(LEAST_WINDOW);
        }
        if self.mode == Mode::ProbeRtt {
            self.window = self.window.min(LEAST_WINDOW);
        }
    }

    /// Handles the expiry of the retransmission timer: sends one segment, and then one for each
    /// that arrives.
    pub(crate) fn handle_timeout(&mut self) {
        self.prior_window = self.prior_window.max(self.window);
        self.window = 1.0;
        self.repairs = true;
        self.conserves = Some(self.round);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the state after `segments` segments, each acknowledged separately, on a path that
    /// delivers one segment per ms, at least 20 ms after it was sent.
    fn known_after(segments: u64) -> Bbr {
        let mut bbr = Bbr::new(10);
        let (service, base) = (Duration::from_ms(1), Duration::from_ms(20));
        let mut now = Instant::ZERO + base;
        bbr.handle_opened(now, base);
        let mut free = now;
        // Arrival and sending instants of the segments in flight.
        let mut flying: VecDeque<(Instant<Virtual>, Instant<Virtual>)> = VecDeque::new();
        let mut delivered = 0;
        while delivered < segments {
            while (flying.len() as f64) < bbr.window && bbr.next_send <= now {
                bbr.note_sent(now, flying.len() as u32);
                free = free.max(now) + service;
                flying.push_back((free + base - service, now));
            }
            let ack = flying.front().map_or(Instant::FAR_FUTURE, |(at, _)| *at);
            if bbr.next_send > now && bbr.next_send < ack && (flying.len() as f64) < bbr.window {
                now = bbr.next_send;
                continue;
            }
            now = ack;
            let (_, stamp) = flying.pop_front().expect("something is under way");
            delivered += 1;
            let ack = Delivery {
                stamp,
                delivered,
                pipe: flying.len() as u32,
                sample: Some(now - stamp),
                lost: 0,
                repairs: false,
            };
            bbr.handle_ack(now, &ack);
        }
        bbr
    }

    #[test]
    fn the_rate_and_the_shortest_round_trip_of_a_path_are_found() {
        let bbr = known_after(2_000);
        assert_eq!(bbr.mode, Mode::ProbeBw);
        let rate_per_ms = bbr.rate() * 1e6;
        assert!((0.99..1.06).contains(&rate_per_ms), "{rate_per_ms}");
        assert_eq!(bbr.min_rtt, Duration::from_ms(20));
        // The window is at most twice the bandwidth-delay product, plus the spare segments.
        assert!(bbr.window <= 2.0 * 20.0 * 1.06 + SPARE, "{}", bbr.window);
    }

    #[test]
    fn a_window_comes_back_after_a_timeout() {
        let mut bbr = known_after(2_000);
        let before = bbr.window;
        bbr.handle_timeout();
        assert_eq!(bbr.window, 1.0);
        let ack = Delivery {
            stamp: Instant::ZERO,
            delivered: 2_001,
            pipe: 0,
            sample: None,
            lost: 0,
            repairs: false,
        };
        bbr.handle_ack(Instant::ZERO + Duration::from_s(5), &ack);
        assert!(bbr.window >= before - 1.0, "{} of {before}", bbr.window);
    }
}

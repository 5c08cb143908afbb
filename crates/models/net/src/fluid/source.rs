//! Source of a fluid flow, which computes how many packets are sent in a step.

use timeloom_engine::Random;
use timeloom_time::convert::saturating_i64;
use timeloom_time::{Duration, Instant, Virtual};

use super::window::Window;
use super::{FluidConfig, FluidPattern};

#[derive(Clone, Debug)]
pub(crate) struct Source {
    start: Instant<Virtual>,
    stop: Instant<Virtual>,
    random: Random,
    pattern: State,
}

#[derive(Clone, Debug)]
enum State {
    /// Packets per ns, at a constant rate.
    Constant(f64),
    OnOff {
        per_ns: f64,
        mean_on_ns: f64,
        mean_off_ns: f64,
        on: bool,
        until: Instant<Virtual>,
    },
    Tcp(Window),
}

impl Source {
    /// Returns a source; `base` is the round-trip time without queueing.
    pub(crate) fn new(config: &FluidConfig, base: Duration, random: Random) -> Self {
        let per_ns = |rate_bps: u64| {
            let bits = f64::from(config.packet_bytes) * 8.0;
            rate_bps as f64 / bits / 1e9
        };
        let mut start = config.start;
        let pattern = match config.pattern {
            FluidPattern::Constant { rate_bps } | FluidPattern::Poisson { rate_bps } => {
                State::Constant(per_ns(rate_bps))
            }
            FluidPattern::OnOff {
                rate_bps,
                mean_on,
                mean_off,
            } => State::OnOff {
                per_ns: per_ns(rate_bps),
                mean_on_ns: mean_on.as_ns() as f64,
                mean_off_ns: mean_off.as_ns() as f64,
                on: false,
                until: start,
            },
            FluidPattern::Tcp {
                control,
                receive_window,
                min_rto,
            } => {
                // Opening the connection takes one round trip.
                start += base;
                State::Tcp(Window::new(control, receive_window, min_rto, base))
            }
        };
        Self {
            start,
            stop: config.stop,
            random,
            pattern,
        }
    }

    pub(crate) fn window(&self) -> Option<&Window> {
        match &self.pattern {
            State::Tcp(window) => Some(window),
            _ => None,
        }
    }

    /// Returns the number of packets that the flow sends from `now` on for `step`.
    pub(crate) fn sends(&mut self, now: Instant<Virtual>, step: Duration) -> f64 {
        let from = now.max(self.start);
        let until = (now + step).min(self.stop);
        if from >= until {
            return 0.0;
        }
        let length_ns = (until - from).as_ns() as f64;
        match &mut self.pattern {
            State::Constant(per_ns) => *per_ns * length_ns,
            State::OnOff {
                per_ns,
                mean_on_ns,
                mean_off_ns,
                on,
                until: change,
            } => {
                let mut at = from;
                let mut on_ns = 0.0;
                loop {
                    let next = (*change).min(until);
                    if *on {
                        on_ns += (next - at).as_ns().max(0) as f64;
                    }
                    at = at.max(next);
                    if *change > until {
                        break;
                    }
                    *on = !*on;
                    let mean = if *on { *mean_on_ns } else { *mean_off_ns };
                    let length = saturating_i64(self.random.exponential(mean)).saturating_add(1);
                    *change += Duration::from_ns(length);
                }
                on_ns * *per_ns
            }
            State::Tcp(window) => window.sends(now, length_ns),
        }
    }

    /// Processes the feedback of the path: the fraction of packets lost, and the present waiting
    /// time in queues, in ns.
    pub(crate) fn feel(&mut self, now: Instant<Virtual>, loss: f64, wait_ns: f64) {
        if let State::Tcp(window) = &mut self.pattern {
            window.feel(now, loss, wait_ns, &mut self.random);
        }
    }
}

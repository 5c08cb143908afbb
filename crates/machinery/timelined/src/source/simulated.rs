//! Simulated reference. It is for trials of a timeline, for tests of sources that state wrong
//! errors, and for programs whose tests need a clock with known faults.
//!
//! The time of the reference is a linear function of the machine's core clock. It answers as if
//! over a path with the configured delays, but no thread waits: the delays are in the timestamps
//! only.

use std::sync::Arc;

use timeloom_clock::timeline::{Era, Exchange};
use timeloom_clock::{Core, RateError, TimelineTime};
use timeloom_random::Random;
use timeloom_time::{Duration, Instant};

use super::{Source, SourceFailure, SourceSample};
use crate::LocalClock;
use crate::config::SimulatedConfig;

pub(super) struct Simulated {
    config: SimulatedConfig,
    clock: Arc<LocalClock>,
    noise: Random,
}

impl Simulated {
    pub(super) fn new(config: SimulatedConfig, clock: Arc<LocalClock>) -> Self {
        Self {
            noise: Random::new(config.seed, 0),
            config,
            clock,
        }
    }
}

impl Source for Simulated {
    fn ask(&mut self, era: Era) -> Result<SourceSample, SourceFailure> {
        let received = self.clock.core();
        answer(&self.config, &mut self.noise, era, received)
            .map(SourceSample::Exchange)
            .ok_or_else(|| SourceFailure::because("the answer was lost"))
    }
}

/// Returns the time of the reference when the core clock is `core`, without its error.
pub(super) fn truth(config: &SimulatedConfig, core: Instant<Core>) -> Instant<TimelineTime> {
    let since = core - Instant::ZERO;
    let gained = RateError::from_ppb(config.rate_ppb).over_down(since);
    Instant::ZERO + config.offset + since + gained
}

fn answer(
    config: &SimulatedConfig,
    noise: &mut Random,
    era: Era,
    received: Instant<Core>,
) -> Option<Exchange> {
    if noise.chance(config.loss) {
        return None;
    }
    let mut way = |least: Duration| {
        let queued = noise.unit().powi(3) * config.jitter.as_ns() as f64;
        least + Duration::from_ns(queued as i64)
    };
    let (up, down) = (way(config.delay_up), way(config.delay_down));
    let error_ns = config.stated_error.as_ns();
    let error = Duration::from_ns(noise.between(-error_ns, error_ns + 1)) + config.lie;
    let shows = truth(config, received - down) + error;
    let between = (received - down - up, received);
    let error = config.stated_error + Duration::from_ns(2);
    Some(Exchange {
        authenticated: config.authenticated,
        ..Exchange::direct(era, between, shows, error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_simulated_source_is_within_its_bound_unless_it_lies(
            seed in any::<u64>(), rate_ppb in -90_000i64..90_000,
            up in 0i64..10_000_000, down in 0i64..10_000_000, at in 1i64 << 40..1i64 << 50,
        ) {
            let config = SimulatedConfig {
                seed, rate_ppb,
                delay_up: Duration::from_ns(up), delay_down: Duration::from_ns(down),
                jitter: Duration::from_us(300), stated_error: Duration::from_us(5),
                ..SimulatedConfig::default()
            };
            let received = Instant::from_ns(at);
            let rate = RateError::from_ppb(-100_000).of_inverse_outward();
            let bound = |config: &SimulatedConfig| {
                let exchange = answer(config, &mut Random::new(seed, 0), Era::default(), received).unwrap();
                exchange.bound(Duration::from_ns(1), rate).unwrap()
            };
            let (honest, true_time) = (bound(&config), truth(&config, received));
            prop_assert!(honest.earliest <= true_time && true_time <= honest.latest);
            let liar = bound(&SimulatedConfig { lie: Duration::from_ms(50), ..config });
            prop_assert!(liar.earliest > true_time);
        }
    }
}

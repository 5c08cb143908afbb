//! Parameters of a simulated world.

use timeloom_time::Duration;
use timeloom_time::convert::index;

use super::{Path, SimulatedSource, SourceFault};
use crate::RateError;
use crate::oscillator::{OscillatorSpec, Stability};
use crate::quality::{Requirement, TimelineId};
use crate::timeline::Config;
use timeloom_random::Random;

/// World before it runs: the parameters that the timeline assumes, and the true ones.
#[derive(Clone, Debug)]
pub struct WorldPlan {
    /// Configuration of the timeline.
    pub config: Config,
    /// True behaviour of the sources.
    pub sources: Vec<SimulatedSource>,
    /// Requirements bound to the timeline.
    pub requirements: Vec<Requirement>,
    /// True if the machine has a second clock beside the core clock. Without it an unannounced step
    /// cannot be detected, so the plan contains no steps.
    pub has_witness: bool,
    /// Mean true time between two faults; zero for no faults.
    pub between_faults: Duration,
    /// Maximum true time between two reads.
    pub between_reads: Duration,
}

impl WorldPlan {
    /// Returns a random world. It has faults, one to five sources, and as many wrong sources as the
    /// timeline is configured to tolerate. The oscillator is anything between a good and a bad one.
    /// One world of four demands authentication.
    pub fn random(noise: &mut Random) -> Self {
        let max_error = RateError::from_ppb(noise.between(1_000, 100_000));
        let stability = noise.chance(0.7).then(|| Stability {
            jitter: RateError::from_ppt(noise.between(1_000, 20_000)),
            wander_per_second: RateError::from_ppt(noise.between(10, 1_000)),
        });
        let oscillator = OscillatorSpec {
            max_error,
            stability,
        };
        let count = 1 + index(noise.below(5));
        let mut config = Config::new(TimelineId(noise.bits().into()), oscillator, count);
        config.demand_authentication = noise.chance(0.25);
        let mut sources: Vec<SimulatedSource> = (0..count)
            .map(|_| SimulatedSource::honest(Path::random(noise), noise.fork()))
            .collect();
        for (index, source) in sources.iter_mut().enumerate() {
            if index < config.tolerated_liars {
                source.lie = lie(noise);
            }
            source.authenticated = !noise.chance(0.2);
        }
        let requirements = (0..noise.between(0, 4))
            .map(|_| Requirement::within(Duration::from_us(noise.between(10, 50_000))))
            .collect();
        let between_faults = Duration::from_ms(noise.between(5_000, 600_000));
        let between_reads = Duration::from_ms(noise.between(1, 3_000));
        Self {
            config,
            sources,
            requirements,
            has_witness: noise.chance(0.5),
            between_faults,
            between_reads,
        }
    }

    /// Returns a quiet world for examples: a good oscillator, three correct sources on a LAN, no
    /// faults, and a read every 100 ms at most.
    pub fn quiet(noise: &mut Random) -> Self {
        let oscillator = OscillatorSpec {
            max_error: RateError::from_ppb(50_000),
            stability: Some(Stability {
                jitter: RateError::from_ppb(2),
                wander_per_second: RateError::from_ppt(100),
            }),
        };
        let path = Path {
            up: Duration::from_us(40),
            down: Duration::from_us(60),
            queues: Duration::from_us(100),
            loss: 0.0,
        };
        let mut source = || {
            let mut honest = SimulatedSource::honest(path, noise.fork());
            honest.root_delay = Duration::from_us(20);
            honest.root_dispersion = Duration::from_us(5);
            honest
        };
        Self {
            config: Config::new(TimelineId(1), oscillator, 3),
            sources: vec![source(), source(), source()],
            requirements: Vec::new(),
            has_witness: true,
            between_faults: Duration::ZERO,
            between_reads: Duration::from_ms(100),
        }
    }
}

fn lie(noise: &mut Random) -> SourceFault {
    let size = Duration::from_us(noise.between(10, 10_000_000));
    match noise.between(0, 3) {
        0 => SourceFault::Constant(if noise.chance(0.5) { size } else { -size }),
        1 => SourceFault::Creeping(noise.between(-500, 501)),
        _ => SourceFault::Erratic(size),
    }
}

//! Clock of a network card (PHC), which `ptp4l` or the card itself synchronises.

use std::sync::Arc;

use timeloom_clock::timeline::{Era, Exchange};
use timeloom_time::{Duration, Instant};
use timeloom_timeline::shm::{Phc, PhcLook};

use super::realtime_line::RealtimeLine;
use super::{FromUtc, Source, SourceFailure, SourceSample};
use crate::LocalClock;
use crate::config::{PhcConfig, Shows, TimelineConfig};

pub(super) struct HardwareClock {
    config: PhcConfig,
    clock: Arc<LocalClock>,
    from_utc: FromUtc,
    line: RealtimeLine,
    device: Option<Phc>,
}

impl HardwareClock {
    pub(super) fn new(
        config: PhcConfig,
        timeline: &TimelineConfig,
        clock: Arc<LocalClock>,
    ) -> Self {
        Self {
            config,
            clock,
            from_utc: FromUtc::of(timeline),
            line: RealtimeLine::default(),
            device: None,
        }
    }

    /// Converts a recent reading of the card's clock to a sample. The kernel read the card between
    /// two readings of the system clock.
    fn place(&mut self, look: &PhcLook, era: Era) -> Result<SourceSample, SourceFailure> {
        let shift = match self.config.shows {
            Shows::Tai => Duration::ZERO,
            Shows::Utc => self.from_utc.now()?,
        };
        let (sent, _) = self.line.place(&self.clock, look.before_ns)?;
        let (_, received) = self.line.place(&self.clock, look.after_ns)?;
        let shows = Instant::from_ns(look.phc_ns) + shift;
        let between = (sent, received.max(sent));
        Ok(SourceSample::Exchange(Exchange {
            authenticated: true,
            ..Exchange::direct(era, between, shows, self.config.vouched_error)
        }))
    }
}

impl Source for HardwareClock {
    fn ask(&mut self, era: Era) -> Result<SourceSample, SourceFailure> {
        let failed = |error: std::io::Error| {
            SourceFailure(format!("{}: {error}", self.config.device.display()))
        };
        let device = match self.device.take() {
            Some(device) => device,
            None => Phc::open(&self.config.device).map_err(failed)?,
        };
        let look = device.look().map_err(failed)?;
        self.device = Some(device);
        self.place(&look, era)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeloom_clock::RateError;

    #[test]
    fn a_card_that_shows_the_system_clock_is_placed_where_that_is() {
        let clock = Arc::new(LocalClock::of_this_machine());
        let config = PhcConfig {
            device: "/dev/null".into(),
            vouched_error: Duration::from_ns(100),
            shows: Shows::Utc,
        };
        let mut timeline = TimelineConfig::new("card".parse().unwrap());
        timeline.scale = timeloom_timeline::protocol::TimelineScale::Local;
        let mut card = HardwareClock::new(config, &timeline, clock.clone());
        assert!(card.ask(Era::default()).is_err(), "no card");
        let before = clock.realtime();
        let look = PhcLook {
            before_ns: before.other_ns,
            phc_ns: before.other_ns + 400,
            after_ns: before.other_ns + 900,
        };
        let Ok(SourceSample::Exchange(exchange)) = card.place(&look, Era::default()) else {
            panic!("not placed");
        };
        let outer = RateError::from_ppb(-600_000).of_inverse_outward();
        let bound = exchange.bound(Duration::from_ns(1), outer).unwrap();
        // The test treats the system clock as true time.
        let now = clock.realtime();
        let bound = bound.carried_to(now.after, (-outer, outer));
        assert!(
            bound.earliest.as_ns() <= now.other_ns + 2_000,
            "{bound:?} {now:?}"
        );
        assert!(bound.latest.as_ns() >= now.other_ns, "{bound:?} {now:?}");
        // Two timestamps are converted, each with its own reading of the clocks.
        assert!(bound.width() < Duration::from_ms(5), "{bound:?}");
    }
}

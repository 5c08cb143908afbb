//! The system clock as a source, with a bound of its error from the kernel or the configuration.

use std::sync::Arc;

use timeloom_clock::timeline::{Era, Exchange};
use timeloom_time::Instant;
use timeloom_timeline::shm::SystemClock;

use super::{FromUtc, Source, SourceFailure, SourceSample};
use crate::LocalClock;
use crate::config::{SystemClockConfig, TimelineConfig};

pub(super) struct System {
    config: SystemClockConfig,
    clock: Arc<LocalClock>,
    from_utc: FromUtc,
}

impl System {
    pub(super) fn new(
        config: SystemClockConfig,
        timeline: &TimelineConfig,
        clock: Arc<LocalClock>,
    ) -> Self {
        Self {
            config,
            clock,
            from_utc: FromUtc::of(timeline),
        }
    }
}

impl Source for System {
    fn ask(&mut self, era: Era) -> Result<SourceSample, SourceFailure> {
        let tai_offset = self.from_utc.now()?;
        let Some(vouched) = self.config.vouched_error else {
            let sent = self.clock.core();
            let kernel = SystemClock::ask().map_err(SourceFailure::because)?;
            let received = self.clock.core();
            let between = (sent, received);
            let exchange = kernel.exchange(era, between, tai_offset);
            return Ok(SourceSample::Exchange(
                exchange.map_err(SourceFailure::because)?,
            ));
        };
        let pair = self.clock.realtime();
        let shows = Instant::from_ns(pair.other_ns) + tai_offset;
        Ok(SourceSample::Exchange(Exchange {
            // The configured error is trusted.
            authenticated: true,
            ..Exchange::direct(era, (pair.before, pair.after), shows, vouched)
        }))
    }
}

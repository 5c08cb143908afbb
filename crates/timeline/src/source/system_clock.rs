//! The system clock with the kernel's bound of its error, or vouched for by the
//! configuration.

use std::sync::Arc;

use timeloom_clock::timeline::{Era, Exchange};
use timeloom_publish::SystemClock;
use timeloom_time::{Duration, Instant};

use super::{Sample, Source, Untold};
use crate::HostClock;
use crate::config::{SystemClockConfig, TimelineConfig};
use crate::protocol::ScaleName;

pub(super) struct System {
    config: SystemClockConfig,
    clock: Arc<HostClock>,
    scale: ScaleName,
    tai_offset_s: Option<i32>,
}

impl System {
    pub(super) fn new(
        config: SystemClockConfig,
        timeline: &TimelineConfig,
        clock: Arc<HostClock>,
    ) -> Self {
        Self {
            config,
            clock,
            scale: timeline.scale,
            tai_offset_s: timeline.tai_offset_s.map(i32::from),
        }
    }
}

impl Source for System {
    fn ask(&mut self, era: Era) -> Result<Sample, Untold> {
        let kernel = SystemClock::ask().map_err(Untold::because)?;
        let Some(vouched) = self.config.vouched_error else {
            let sent = self.clock.core();
            let kernel = SystemClock::ask().map_err(Untold::because)?;
            let stamps = (sent, self.clock.core());
            let offset = match self.scale {
                ScaleName::Tai => self.tai_offset_s,
                ScaleName::Local => Some(0),
            };
            let kernel = match self.scale {
                ScaleName::Tai => kernel,
                ScaleName::Local => SystemClock {
                    tai_offset_s: 0,
                    ..kernel
                },
            };
            let exchange = kernel.exchange(era, stamps, offset);
            return exchange.map(Sample::Exchange).map_err(Untold::because);
        };
        let offset_s = match self.scale {
            ScaleName::Local => 0,
            ScaleName::Tai => Some(kernel.tai_offset_s)
                .filter(|offset| *offset != 0)
                .or(self.tai_offset_s)
                .ok_or_else(|| Untold::because(timeloom_publish::Unusable::NoTaiOffset))?,
        };
        let pair = self.clock.realtime();
        let shows = Instant::from_ns(pair.other_ns) + Duration::from_s(offset_s.into());
        Ok(Sample::Exchange(Exchange {
            era,
            sent: pair.before,
            asked: shows,
            answered: shows,
            received: pair.after,
            root_delay: Duration::ZERO,
            root_dispersion: vouched,
            least_delay: Duration::ZERO,
            asymmetry: None,
            authenticated: true,
        }))
    }
}

//! Fluid on a link.

use timeloom_engine::Random;
use timeloom_time::{Duration, Instant, Virtual};

use super::{Extra, Link};
use crate::config::Impairment;
use crate::fluid::{FluidLinkStats, FluidMeasurement, FluidQueue, Inflow};
use crate::tables::slab::Slab;

impl Link {
    /// Returns true if the link supports fluid. It does not if its queue decides about packets when
    /// they leave, or if packets may be reordered.
    pub(crate) fn takes_fluid(&self) -> bool {
        let extra = self.extra.as_ref();
        extra.is_none_or(|extra| extra.scheduled.is_none())
    }

    /// Enables fluid on this link. Returns the link's overhead per packet in bytes, and the
    /// probability of a loss on the wire.
    pub(crate) fn add_fluid(&mut self, random: Random) -> (u32, f64) {
        let extra = self.extra.get_or_insert_with(|| {
            Box::new(Extra {
                impairment: Impairment::default(),
                random: random.clone(),
                red: None,
                scheduled: None,
                fluid: None,
            })
        });
        let red = extra.red.as_ref().map(|red| red.config());
        extra.fluid = Some(Box::new(FluidQueue::new(random, self.limit, red)));
        (self.overhead, extra.impairment.loss)
    }

    /// Advances the fluid to `now`, and returns measurements.
    pub(crate) fn measure_fluid(
        &mut self,
        now: Instant<Virtual>,
        packets: &Slab,
    ) -> Option<FluidMeasurement> {
        self.move_cursor(now, packets);
        let per_byte = self.per_byte_ns();
        let fluid = self.extra.as_mut()?.fluid.as_mut()?;
        fluid.advance(now, self.unsent, &mut self.free, per_byte);
        fluid.overflow(self.unsent, &mut self.free, per_byte);
        Some(FluidMeasurement {
            lost: fluid.lost,
            waiting: fluid.waiting_bytes(self.free, per_byte),
            wait_ns: fluid.wait_ns(self.free),
            up: self.up,
        })
    }

    /// Sets the arrivals of fluid until the next step.
    pub(crate) fn set_fluid(&mut self, smooth: Inflow, poisson: Inflow, step: Duration) {
        if let Some(fluid) = self.extra.as_mut().and_then(|e| e.fluid.as_mut()) {
            fluid.set_rates(smooth, poisson, step, self.up);
        }
    }

    pub(crate) fn fluid_stats(&self) -> FluidLinkStats {
        let fluid = self.extra.as_ref().and_then(|e| e.fluid.as_ref());
        fluid.map_or(FluidLinkStats::default(), |fluid| {
            fluid.stats(self.free, self.per_byte_ns())
        })
    }

    /// Returns the transmission time of a byte, in ns.
    pub(crate) fn per_byte_ns(&self) -> f64 {
        self.per_byte as f64 / (1u128 << 64) as f64
    }

    /// Returns the transmission time of a packet of `bytes` bytes, including the link's overhead.
    pub(crate) fn time_of_bytes(&self, bytes: u16) -> Duration {
        let bytes = f64::from(bytes) + f64::from(self.overhead);
        Duration::from_ns_f64(bytes * self.per_byte_ns())
    }
}

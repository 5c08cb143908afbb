//! Stops of a run at the end of each period.
//!
//! Every node stops at exactly the multiples of the period: it requests the next stop during the
//! pause at the present one, before any clock runs. Meanwhile the node's plants compute up to the
//! instant.

use std::collections::BTreeMap;
use std::sync::Arc;

use timeloom_bus::Bus;
use timeloom_guest::Clock;
use timeloom_plant::PausedPlant;
use timeloom_time::{Duration, Instant, Virtual};

use crate::verdict::Reporter;

/// Requester of the holds and stops at the ends of periods.
pub(crate) const PERIOD: &str = "period";

/// Parts of a node that take part in its periods.
pub(crate) struct Periods<'a> {
    /// Length of a period.
    pub(crate) length: Duration,
    /// Planned end of the run.
    pub(crate) end: Instant<Virtual>,
    pub(crate) clock: &'a Clock,
    pub(crate) bus: &'a Bus,
    pub(crate) plants: &'a BTreeMap<String, Arc<PausedPlant>>,
    pub(crate) reporter: &'a Reporter,
}

impl Periods<'_> {
    /// Pauses the run at each multiple of the period until `over` returns true, or until the end of
    /// the run. The first stop must have been requested. Every failure ends the run.
    pub(crate) fn run(&self, over: impl Fn() -> bool) {
        let mut at = Instant::<Virtual>::ZERO + self.length;
        while at < self.end && self.clock.wait_until(at, &over) {
            if let Err(text) = self.stop(at) {
                if !over() {
                    self.reporter.failed(PERIOD, text);
                }
                return;
            }
            at += self.length;
        }
    }

    /// Pauses the run at `at`, where its clocks stand, and requests the next stop.
    fn stop(&self, at: Instant<Virtual>) -> Result<(), String> {
        let hold = self.bus.hold(PERIOD, "the end of a period");
        let hold = hold.map_err(|error| error.to_string())?;
        if hold.instant() != at {
            let [at, stood] = [at, hold.instant()].map(|it| it - Instant::ZERO);
            return Err(format!("the run is paused at {stood} in place of {at}"));
        }
        for (name, plant) in self.plants {
            let advanced = plant.access_held(&hold, |_| Ok(()));
            advanced.map_err(|error| format!("the plant {name}: {error}"))?;
        }
        let next = at + self.length;
        if next >= self.end {
            self.bus.forget_stop(PERIOD);
            return Ok(());
        }
        let asked = self.bus.stop_at(&hold, PERIOD, next);
        asked.map_err(|error| error.to_string())
    }
}

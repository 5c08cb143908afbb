//! One plant behind the pause wire.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time;

use timeloom_bus::{Bus, BusError, Hold};
use timeloom_time::{Duration, Instant, Virtual};

use crate::error::PlantError;
use crate::message::{Advance, PlantInfo};
use crate::process::{PlantProcess, Step};
use crate::turns::Turns;

/// One recorded value of one signal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample<'a> {
    /// The signal.
    pub signal: &'a str,
    /// Its unit.
    pub unit: &'a str,
    /// The virtual instant for which the plant computed it.
    pub t: Instant<Virtual>,
    /// The value, finite.
    pub value: f64,
}

/// A plant that is only ever asked while the testbed stands still.
///
/// Overlapping requesters all hold the bus and see the same frozen instant;
/// the plant serves them one after the other, in the order in which they come.
pub struct Exchange {
    bus: Bus,
    info: PlantInfo,
    turns: Turns,
    guarded: Mutex<Guarded>,
    on_sample: Box<dyn Fn(Sample<'_>) + Send + Sync>,
}

struct Guarded {
    plant: PlantProcess,
    /// Whether the plant was ever told to compute; before that, an advance to
    /// its own starting instant is not an idle one.
    computed: bool,
    stats: ExchangeStats,
}

/// What the exchanges with a plant have cost so far, in wall time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeStats {
    /// How many accesses succeeded.
    pub accesses: u64,
    /// From queueing for the plant to the end of the access, all together.
    pub access: Duration,
    /// Waiting for the plant's replies, all together.
    pub plant: Duration,
    /// Of that, what the plant says it spent computing.
    pub solve: Duration,
}

/// Why an access failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The testbed could not be stood still.
    #[error("{0}")]
    Bus(#[source] BusError),
    /// The plant refused or failed; [`PlantError::is_fatal`] tells which.
    #[error("{0}")]
    Plant(#[source] PlantError),
}

impl Exchange {
    /// Puts `plant` behind `bus`. `on_sample` gets every recorded value while
    /// the testbed stands, so it should be quick.
    pub fn new(
        bus: Bus,
        plant: PlantProcess,
        on_sample: impl Fn(Sample<'_>) + Send + Sync + 'static,
    ) -> Self {
        let info = plant.info().clone();
        let guarded = Guarded {
            plant,
            computed: false,
            stats: ExchangeStats::default(),
        };
        Self {
            bus,
            info,
            turns: Turns::default(),
            guarded: Mutex::new(guarded),
            on_sample: Box::new(on_sample),
        }
    }

    /// What the plant said it is.
    pub fn info(&self) -> &PlantInfo {
        &self.info
    }

    /// What it has cost so far.
    pub fn stats(&self) -> ExchangeStats {
        self.lock().stats
    }

    /// Raises the pause, lets `act` at the plant, lowers the pause.
    ///
    /// The plant is advanced to the frozen instant before `act`'s first request,
    /// in the same round trip, and at the latest after `act`.
    ///
    /// # Errors
    /// When the testbed cannot be paused, or the plant refuses or fails.
    pub fn access<T>(
        &self,
        requester: &str,
        reason: &str,
        act: impl FnOnce(&mut Access<'_>) -> Result<T, PlantError>,
    ) -> Result<T, ExchangeError> {
        let hold = self.hold(requester, reason).map_err(ExchangeError::Bus)?;
        self.access_held(&hold, act).map_err(ExchangeError::Plant)
    }

    /// Only raises the pause: for requesters that still have something to do
    /// between the access and the release, such as sending a reply.
    ///
    /// # Errors
    /// When the testbed cannot be paused.
    pub fn hold(&self, requester: &str, reason: &str) -> Result<Hold, BusError> {
        self.bus.hold(requester, reason)
    }

    /// [`access`](Self::access) under a hold that the caller has already.
    ///
    /// # Errors
    /// When the plant refuses or fails.
    pub fn access_held<T>(
        &self,
        hold: &Hold,
        act: impl FnOnce(&mut Access<'_>) -> Result<T, PlantError>,
    ) -> Result<T, PlantError> {
        let began = time::Instant::now();
        let _turn = self.turns.take();
        let mut guarded = self.lock();
        let mut access = Access {
            // A free-running testbed pauses nothing, so that a later request
            // may have been served first. Time does not step back for this one.
            instant: hold.instant().max(guarded.plant.at()),
            guarded: &mut guarded,
            exchange: self,
        };
        let done = act(&mut access)?;
        access.settle()?;
        guarded.stats.accesses += 1;
        guarded.stats.access += since(began);
        Ok(done)
    }

    /// Advances the plant to the end of the run, for its last samples. The
    /// caller sees to it that nothing runs any more; no pause is raised.
    ///
    /// # Errors
    /// When the plant refuses or fails.
    pub fn finish(&self, end: Instant<Virtual>) -> Result<(), PlantError> {
        let _turn = self.turns.take();
        let mut guarded = self.lock();
        let instant = end.max(guarded.plant.at());
        Access {
            instant,
            guarded: &mut guarded,
            exchange: self,
        }
        .settle()
    }

    /// Whether the plant still runs; while somebody asks it, that is theirs to
    /// find out.
    ///
    /// # Errors
    /// When it has died by itself. Told once.
    pub fn look(&self) -> Result<(), PlantError> {
        match self.guarded.try_lock() {
            Ok(mut guarded) => guarded.plant.look(),
            Err(_) => Ok(()),
        }
    }

    /// Ends the plant. Every access after this fails.
    ///
    /// # Errors
    /// When the plant does not end properly; it is gone all the same.
    pub fn stop(&self) -> Result<(), PlantError> {
        let _turn = self.turns.take();
        self.lock().plant.stop()
    }

    fn lock(&self) -> MutexGuard<'_, Guarded> {
        // A caller's panic comes between requests, never within one.
        self.guarded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hand_out(&self, plant: &PlantProcess, advance: &Advance) {
        for row in &advance.samples {
            for (signal, value) in plant.recorded().zip(&row.values) {
                let (signal, unit) = (signal.name.as_str(), signal.unit.as_str());
                (self.on_sample)(Sample {
                    signal,
                    unit,
                    t: row.t,
                    value: *value,
                });
            }
        }
    }
}

/// The plant, at the frozen instant, for one requester alone.
pub struct Access<'a> {
    instant: Instant<Virtual>,
    guarded: &'a mut Guarded,
    exchange: &'a Exchange,
}

impl Access<'_> {
    /// The virtual instant for which everything here holds.
    pub fn instant(&self) -> Instant<Virtual> {
        self.instant
    }

    /// Values of `signals`, in that order.
    ///
    /// # Errors
    /// When the plant refuses or fails.
    pub fn read(&mut self, signals: &[&str]) -> Result<Vec<f64>, PlantError> {
        self.write_then_read(&[], signals)
    }

    /// Sets signals.
    ///
    /// # Errors
    /// When the plant refuses or fails.
    pub fn write(&mut self, values: &[(&str, f64)]) -> Result<(), PlantError> {
        self.write_then_read(values, &[]).map(drop)
    }

    /// Both, in one round trip.
    ///
    /// # Errors
    /// When the plant refuses or fails.
    pub fn write_then_read(
        &mut self,
        write: &[(&str, f64)],
        read: &[&str],
    ) -> Result<Vec<f64>, PlantError> {
        let Guarded {
            plant,
            computed,
            stats,
        } = &mut *self.guarded;
        let to = (!*computed || plant.at() < self.instant).then_some(self.instant);
        let began = time::Instant::now();
        let step = plant.step(to, write, read);
        stats.plant += since(began);
        let Step { advance, values } = step?;
        if let Some(advance) = &advance {
            *computed = true;
            stats.solve += advance.solve;
            self.exchange.hand_out(plant, advance);
        }
        values
    }

    /// Sees to it that the plant stands at the frozen instant.
    fn settle(mut self) -> Result<(), PlantError> {
        self.write_then_read(&[], &[]).map(drop)
    }
}

fn since(began: time::Instant) -> Duration {
    Duration::from(began.elapsed())
}

//! Access to a plant, which is possible only while the testbed is paused.

use parking_lot::{Mutex, MutexGuard};
use std::time;

use timeloom_bus::{Bus, BusError, Hold};
use timeloom_time::{Duration, Instant, Virtual};
use tracing::debug_span;

use crate::error::PlantError;
use crate::message::{Advance, PlantInfo};
use crate::process::{PlantProcess, Step};
use crate::ticket_lock::TicketLock;

/// Recorded value of a signal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlantSample<'a> {
    /// Name of the signal.
    pub signal: &'a str,
    /// Unit of the signal.
    pub unit: &'a str,
    /// Virtual instant for which the plant computed the value.
    pub t: Instant<Virtual>,
    /// Value in `unit`; always finite.
    pub value: f64,
}

/// Plant that is accessed only while the testbed is paused.
///
/// If several requesters overlap, all of them hold the bus and see the same frozen instant. The
/// plant serves them one at a time, in order of arrival.
pub struct PausedPlant {
    bus: Bus,
    info: PlantInfo,
    ticket_lock: TicketLock,
    guarded: Mutex<Guarded>,
    /// Start of the access in progress.
    busy_since: Mutex<Option<time::Instant>>,
    on_sample: Box<dyn Fn(PlantSample<'_>) + Send + Sync>,
}

struct Guarded {
    plant: PlantProcess,
    /// True if the plant has computed before. If not, even an advance to the instant at which it
    /// started is requested.
    computed: bool,
    stats: ExchangeStats,
}

/// Cumulative wall time spent on exchanges with a plant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeStats {
    /// Number of successful accesses.
    pub accesses: u64,
    /// Total time of all accesses, each from joining the queue for the plant to the end of the
    /// access.
    pub access: Duration,
    /// Total time of waiting for the plant's replies.
    pub plant: Duration,
    /// Part of `plant` for which the plant states that it computed.
    pub solve: Duration,
}

/// Reason why an access failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The testbed could not be paused.
    #[error("{0}")]
    Bus(#[source] BusError),
    /// The plant refused or failed; see [`PlantError::is_fatal`].
    #[error("{0}")]
    Plant(#[source] PlantError),
}

impl PausedPlant {
    /// Connects `plant` to `bus`. `on_sample` is called with every recorded value while the testbed
    /// is paused, and should therefore return quickly.
    pub fn new(
        bus: Bus,
        plant: PlantProcess,
        on_sample: impl Fn(PlantSample<'_>) + Send + Sync + 'static,
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
            ticket_lock: TicketLock::default(),
            guarded: Mutex::new(guarded),
            busy_since: Mutex::default(),
            on_sample: Box::new(on_sample),
        }
    }

    /// Returns the description that the plant gave of itself.
    pub fn info(&self) -> &PlantInfo {
        &self.info
    }

    /// Returns the cumulative cost so far.
    pub fn stats(&self) -> ExchangeStats {
        self.lock().stats
    }

    /// Returns the wall time since the access in progress has begun; `None` if there is none. Does
    /// not wait for the plant.
    pub fn busy_for(&self) -> Option<Duration> {
        let since = *lock(&self.busy_since);
        since.map(|began| Duration::from(began.elapsed()))
    }

    /// Pauses the testbed, runs `act` on the plant, and ends the pause.
    ///
    /// The plant is advanced to the frozen instant in the same round trip as the first request of
    /// `act`. If `act` makes no request, the plant is advanced afterwards.
    ///
    /// # Errors
    /// Fails if the testbed cannot be paused, or if the plant refuses the request or fails.
    pub fn access<T>(
        &self,
        requester: &str,
        reason: &str,
        act: impl FnOnce(&mut Access<'_>) -> Result<T, PlantError>,
    ) -> Result<T, ExchangeError> {
        let hold = self.hold(requester, reason).map_err(ExchangeError::Bus)?;
        self.access_held(&hold, act).map_err(ExchangeError::Plant)
    }

    /// Pauses the testbed, without an access. For requesters that have more to do before the pause
    /// ends, such as sending a reply.
    ///
    /// # Errors
    /// Fails if the testbed cannot be paused.
    pub fn hold(&self, requester: &str, reason: &str) -> Result<Hold, BusError> {
        self.bus.hold(requester, reason)
    }

    /// Performs an [`access`](Self::access) during a hold that the caller already has.
    ///
    /// # Errors
    /// Fails if the plant refuses the request or fails.
    pub fn access_held<T>(
        &self,
        hold: &Hold,
        act: impl FnOnce(&mut Access<'_>) -> Result<T, PlantError>,
    ) -> Result<T, PlantError> {
        let _span = debug_span!(
            "exchange",
            plant = self.info.name,
            virtual_ns = hold.instant().as_ns()
        )
        .entered();
        let began = time::Instant::now();
        let _turn = self.ticket_lock.take();
        let _busy = Busy::new(&self.busy_since);
        let mut guarded = self.lock();
        let mut access = Access {
            // A free-running testbed is not paused, so a request with a later instant may have been
            // served before. Virtual time must not step back for this request.
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

    /// Advances the plant to the end of the run, for its last samples. The testbed is not paused:
    /// the caller ensures that no program runs any more.
    ///
    /// # Errors
    /// Fails if the plant refuses the request or fails.
    pub fn finish(&self, end: Instant<Virtual>) -> Result<(), PlantError> {
        let _turn = self.ticket_lock.take();
        let mut guarded = self.lock();
        let instant = end.max(guarded.plant.at());
        Access {
            instant,
            guarded: &mut guarded,
            exchange: self,
        }
        .settle()
    }

    /// Checks that the plant still runs. Does nothing while an access is in progress, because the
    /// access itself reports a failure.
    ///
    /// # Errors
    /// Fails if the plant's process has ended by itself. Reported only once.
    pub fn look(&self) -> Result<(), PlantError> {
        match self.guarded.try_lock() {
            Some(mut guarded) => guarded.plant.look(),
            None => Ok(()),
        }
    }

    /// Ends the plant. Every later access returns an error.
    ///
    /// # Errors
    /// Fails if the plant does not end as the protocol requires. Its process has ended in any case.
    pub fn stop(&self) -> Result<(), PlantError> {
        let _turn = self.ticket_lock.take();
        self.lock().plant.stop()
    }

    fn lock(&self) -> MutexGuard<'_, Guarded> {
        // A caller can panic between requests, but not during one, so the state is consistent.
        self.guarded.lock()
    }

    fn hand_out(&self, plant: &PlantProcess, advance: &Advance) {
        for row in &advance.samples {
            for (signal, value) in plant.recorded().zip(&row.values) {
                let (signal, unit) = (signal.name.as_str(), signal.unit.as_str());
                (self.on_sample)(PlantSample {
                    signal,
                    unit,
                    t: row.t,
                    value: *value,
                });
            }
        }
    }
}

/// Guard that marks an access as being in progress.
struct Busy<'a>(&'a Mutex<Option<time::Instant>>);

impl<'a> Busy<'a> {
    fn new(since: &'a Mutex<Option<time::Instant>>) -> Self {
        *lock(since) = Some(time::Instant::now());
        Self(since)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        *lock(self.0) = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// Exclusive access of one requester to the plant, at the frozen instant.
pub struct Access<'a> {
    instant: Instant<Virtual>,
    guarded: &'a mut Guarded,
    exchange: &'a PausedPlant,
}

impl Access<'_> {
    /// Returns the virtual instant of the access.
    pub fn instant(&self) -> Instant<Virtual> {
        self.instant
    }

    /// Reads the values of `signals`, in the given order.
    ///
    /// # Errors
    /// Fails if the plant refuses the request or fails.
    pub fn read(&mut self, signals: &[&str]) -> Result<Vec<f64>, PlantError> {
        self.write_then_read(&[], signals)
    }

    /// Sets signals, given as pairs of name and value.
    ///
    /// # Errors
    /// Fails if the plant refuses the request or fails.
    pub fn write(&mut self, values: &[(&str, f64)]) -> Result<(), PlantError> {
        self.write_then_read(values, &[]).map(drop)
    }

    /// Writes signals and then reads others, in one round trip.
    ///
    /// # Errors
    /// Fails if the plant refuses the request or fails.
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

    /// Advances the plant to the frozen instant, unless a request has already done so.
    fn settle(mut self) -> Result<(), PlantError> {
        self.write_then_read(&[], &[]).map(drop)
    }
}

fn since(began: time::Instant) -> Duration {
    Duration::from(began.elapsed())
}

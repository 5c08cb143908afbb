//! Time source of an emulation.

use std::sync::{Mutex, MutexGuard};

use timeloom_sys::wall_now;
use timeloom_time::{ClockMap, Instant, Rate, Virtual, Wall};

/// Time source of an emulation.
pub enum Timing {
    /// An external clock, which is real, dilated or paused according to its map.
    Follow(Box<dyn Follow>),
    /// Steps granted from outside ([`crate::Emulation::grant`]), beginning at virtual zero.
    Steps,
}

/// A clock that can be followed.
pub trait Follow: Send {
    /// Returns the map in force now. Code that changes it must call [`crate::Emulation::wake`]
    /// afterwards.
    fn map(&self) -> ClockMap<Wall, Virtual>;

    /// Returns the map in force now and the instant at which the clock stops by itself, read
    /// atomically ([`Instant::FAR_FUTURE`]: never).
    fn map_and_stop(&self) -> (ClockMap<Wall, Virtual>, Instant<Virtual>) {
        (self.map(), Instant::FAR_FUTURE)
    }

    /// Reports that all engines of a group ([`crate::EngineGroup`]) are asleep until virtual time
    /// `next` (`None`: until input arrives). For clocks that skip.
    fn asleep(&self, next: Option<Instant<Virtual>>) {
        let _ = next;
    }

    /// Reports that one of them is running again.
    fn awake(&self) {}
}

/// A clock controlled directly, for emulations without a testbed.
#[derive(Debug)]
pub struct Commanded(Mutex<ClockMap<Wall, Virtual>>);

impl Commanded {
    /// Creates a clock that shows zero now and has this rate: one for real time, 1/f for a dilation
    /// by f, zero for a stopped clock.
    pub fn new(rate: Rate) -> Self {
        Self(Mutex::new(ClockMap::new(wall_now(), Instant::ZERO, rate)))
    }

    /// Changes the rate from now on. Must be followed by [`crate::Emulation::wake`].
    pub fn set_rate(&self, rate: Rate) {
        let mut map = self.lock();
        *map = map.continued(wall_now(), rate);
    }

    /// Returns the time shown now.
    pub fn now(&self) -> Instant<Virtual> {
        self.lock().at(wall_now())
    }

    fn lock(&self) -> MutexGuard<'_, ClockMap<Wall, Virtual>> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Follow for std::sync::Arc<Commanded> {
    fn map(&self) -> ClockMap<Wall, Virtual> {
        *self.lock()
    }
}

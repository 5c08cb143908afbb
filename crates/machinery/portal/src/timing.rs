//! What an emulation's clock follows.

use std::sync::{Mutex, MutexGuard};

use timeloom_sys::wall_now;
use timeloom_time::{ClockMap, Instant, Rate, Virtual, Wall};

/// What drives an emulation.
pub enum Timing {
    /// A clock of somebody's: real, dilated, paused, as its map says.
    Follow(Box<dyn Follow>),
    /// Steps that are granted from outside ([`crate::Emulation::grant`]),
    /// beginning at virtual zero.
    Steps,
}

/// A clock that can be followed.
pub trait Follow: Send {
    /// The map in force now. Whoever changes it calls
    /// [`crate::Emulation::wake`] afterwards.
    fn map(&self) -> ClockMap<Wall, Virtual>;

    /// The map in force now, and the instant beyond which it does not lead by itself, both of
    /// one moment ([`Instant::FAR_FUTURE`]: no such instant).
    fn map_and_stop(&self) -> (ClockMap<Wall, Virtual>, Instant<Virtual>) {
        (self.map(), Instant::FAR_FUTURE)
    }

    /// The emulation is about to sleep until something is to be done at `next`
    /// (`None`: until somebody sends something). For clocks that skip.
    fn asleep(&self, next: Option<Instant<Virtual>>) {
        let _ = next;
    }

    /// It is at work.
    fn awake(&self) {}
}

/// A clock that is commanded here: for emulations without a testbed around
/// them.
#[derive(Debug)]
pub struct Commanded(Mutex<ClockMap<Wall, Virtual>>);

impl Commanded {
    /// A clock that shows zero now and has this rate: one for real time, 1/f
    /// for a dilation by f, zero for a clock that stands.
    pub fn new(rate: Rate) -> Self {
        Self(Mutex::new(ClockMap::new(wall_now(), Instant::ZERO, rate)))
    }

    /// Changes the rate from now on. To be followed by
    /// [`crate::Emulation::wake`].
    pub fn set_rate(&self, rate: Rate) {
        let mut map = self.lock();
        *map = map.continued(wall_now(), rate);
    }

    /// What it shows now.
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

//! Time sources of an emulation.

use parking_lot::{Mutex, MutexGuard};

use timeloom_sys::wall_now;
use timeloom_time::{ClockMap, Instant, Rate, Virtual, Wall};

/// Time source of an emulation.
pub enum Timing {
    /// External clock, whose map makes it real, dilated or paused.
    Follow(Box<dyn FollowedClock>),
    /// Steps that another thread grants ([`crate::Emulation::grant`]), beginning at virtual time
    /// zero.
    Steps,
}

/// Clock that an emulation can follow.
pub trait FollowedClock: Send {
    /// Returns the map from wall time to virtual time that is in force now. Code that changes the
    /// map must call [`crate::Emulation::wake`] afterwards.
    fn map(&self) -> ClockMap<Wall, Virtual>;

    /// Returns the map that is in force now, together with the instant at which the clock stops by
    /// itself ([`Instant::FAR_FUTURE`] if it does not). Both are read atomically.
    fn map_and_stop(&self) -> (ClockMap<Wall, Virtual>, Instant<Virtual>) {
        (self.map(), Instant::FAR_FUTURE)
    }

    /// Reports that the engine is about to sleep until virtual time `next` (`None`: until input
    /// arrives). Clocks that skip idle time use this.
    fn asleep(&self, next: Option<Instant<Virtual>>) {
        let _ = next;
    }

    /// Reports that the engine, or one engine of its group, is running again.
    fn awake(&self) {}
}

/// Clock that its owner controls directly, for emulations without a testbed.
#[derive(Debug)]
pub struct ManualClock(Mutex<ClockMap<Wall, Virtual>>);

impl ManualClock {
    /// Creates a clock that shows zero now and runs at `rate`: one for real time, 1/f for a
    /// dilation by f, and zero for a stopped clock.
    pub fn new(rate: Rate) -> Self {
        Self(Mutex::new(ClockMap::new(wall_now(), Instant::ZERO, rate)))
    }

    /// Changes the rate from now on. The caller must call [`crate::Emulation::wake`] afterwards.
    pub fn set_rate(&self, rate: Rate) {
        let mut map = self.lock();
        *map = map.continued(wall_now(), rate);
    }

    /// Returns the virtual time that the clock shows now.
    pub fn now(&self) -> Instant<Virtual> {
        self.lock().at(wall_now())
    }

    fn lock(&self) -> MutexGuard<'_, ClockMap<Wall, Virtual>> {
        self.0.lock()
    }
}

impl FollowedClock for std::sync::Arc<ManualClock> {
    fn map(&self) -> ClockMap<Wall, Virtual> {
        *self.lock()
    }
}

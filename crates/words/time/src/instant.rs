//! Instants, each typed with its time scale.

use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::ops::{Add, AddAssign, Sub};

use crate::Duration;

/// The time scale of an [`Instant`]. Implemented only by marker types.
pub trait Scale: 'static {
    /// Name of this scale in messages and in the names of columns.
    const NAME: &'static str;
}

macro_rules! scale {
    ($(#[$doc:meta])* $name:ident, $text:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {}
        impl Scale for $name {
            const NAME: &'static str = $text;
        }
    };
}

scale!(
    /// Ticks of a cycle counter. The unit is one *tick*, not one nanosecond; only a
    /// [`crate::ClockMap`] converts ticks to time.
    Counter, "counter"
);
scale!(
    /// The machine's CLOCK_MONOTONIC: nanoseconds since boot, never set back. The pacing of the
    /// engine and all records of real durations use this scale.
    Wall, "wall"
);
scale!(
    /// Virtual time of a session: nanoseconds since the session began. A simulation that runs
    /// outside of a session counts from its own start.
    ///
    /// It differs from the virtual time that has elapsed on a single host, and from the clocks that
    /// programs on a host read: those are separate scales, and each is a map of this one.
    Virtual, "virtual"
);
scale!(
    /// A machine's free-running local clock: nanoseconds since an arbitrary local zero, counted by
    /// one undisciplined oscillator (the "core clock" of QuartzV, section IV-B-3). Linux provides
    /// it as CLOCK_MONOTONIC_RAW.
    Core, "core"
);
scale!(
    /// Civil time as programs read it (CLOCK_REALTIME): nanoseconds since 1970-01-01T00:00:00Z, not
    /// counting leap seconds.
    Utc, "utc"
);

/// A point in time on scale `S`: the number of the scale's units since the scale's zero. The unit
/// is a nanosecond, except for [`Counter`], whose unit is a tick.
pub struct Instant<S: Scale> {
    units: i64,
    scale: PhantomData<fn() -> S>,
}

impl<S: Scale> Instant<S> {
    /// Zero of the scale.
    pub const ZERO: Self = Self::from_units(0);
    /// Greatest instant of the scale; means "never".
    pub const FAR_FUTURE: Self = Self::from_units(i64::MAX);

    const fn from_units(units: i64) -> Self {
        Self {
            units,
            scale: PhantomData,
        }
    }

    /// Returns the instant `ns` nanoseconds after the scale's zero.
    pub const fn from_ns(ns: i64) -> Self {
        Self::from_units(ns)
    }

    /// Returns the nanoseconds since the scale's zero.
    pub const fn as_ns(self) -> i64 {
        self.units
    }

    /// Returns the time from `earlier` to this instant; negative if this instant is before
    /// `earlier`.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_ns(self.units.saturating_sub(earlier.units))
    }
}

impl Instant<Counter> {
    /// Returns the instant at which the counter shows `ticks`. Values of 2^63 and more (over a
    /// century at 2 GHz) are not supported.
    pub const fn from_ticks(ticks: u64) -> Self {
        Self::from_units(ticks.cast_signed())
    }

    /// Returns the counter's value, in ticks.
    pub const fn as_ticks(self) -> u64 {
        self.units.cast_unsigned()
    }
}

impl<S: Scale> Add<Duration> for Instant<S> {
    type Output = Self;
    fn add(self, length: Duration) -> Self {
        Self::from_units(self.units.saturating_add(length.as_ns()))
    }
}

impl<S: Scale> AddAssign<Duration> for Instant<S> {
    fn add_assign(&mut self, length: Duration) {
        *self = *self + length;
    }
}

impl<S: Scale> Sub<Duration> for Instant<S> {
    type Output = Self;
    fn sub(self, length: Duration) -> Self {
        Self::from_units(self.units.saturating_sub(length.as_ns()))
    }
}

impl<S: Scale> Sub for Instant<S> {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

// The traits are implemented by hand, because a derive would require them of the marker type `S`
// too.
impl<S: Scale> Clone for Instant<S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S: Scale> Copy for Instant<S> {}
impl<S: Scale> PartialEq for Instant<S> {
    fn eq(&self, other: &Self) -> bool {
        self.units == other.units
    }
}
impl<S: Scale> Eq for Instant<S> {}
impl<S: Scale> PartialOrd for Instant<S> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<S: Scale> Ord for Instant<S> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.units.cmp(&other.units)
    }
}
impl<S: Scale> Hash for Instant<S> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.units.hash(state);
    }
}
impl<S: Scale> Default for Instant<S> {
    fn default() -> Self {
        Self::ZERO
    }
}
impl<S: Scale> fmt::Debug for Instant<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", S::NAME, self.units)
    }
}

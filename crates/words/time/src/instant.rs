//! Points in time, each on a named scale.

use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::ops::{Add, AddAssign, Sub};

use crate::Duration;

/// The time scale of an [`Instant`]. Implemented only by marker types.
pub trait Scale: 'static {
    /// The word for this scale in messages and column names.
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
    /// Ticks of a cycle counter. The unit is one *tick*, not one nanosecond;
    /// only a [`crate::ClockMap`] may turn it into time.
    Counter, "counter"
);
scale!(
    /// The machine's CLOCK_MONOTONIC: nanoseconds since boot, never set back. Scale of all pacing
    /// and of all records of real durations.
    Wall, "wall"
);
scale!(
    /// A session's time, which is virtual: nanoseconds since the session began. A simulation that
    /// follows no session's clock counts from its own beginning.
    ///
    /// It is neither the elapsed time of a host, nor the clock that a program reads there: those
    /// are separate scales, and maps of this one.
    Virtual, "virtual"
);
scale!(
    /// A machine's free-running local clock: nanoseconds since some local zero, counted by one
    /// undisciplined oscillator ("core clock" in QuartzV, section IV-B-3). A kernel provides it as
    /// CLOCK_MONOTONIC_RAW.
    Core, "core"
);
scale!(
    /// Civil time as programs see it: nanoseconds since 1970-01-01T00:00:00Z,
    /// leap seconds not counted.
    Utc, "utc"
);

/// A point in time on scale `S`, in the scale's unit since the scale's zero
/// (nanoseconds, except for [`Counter`], whose unit is a tick).
pub struct Instant<S: Scale> {
    units: i64,
    scale: PhantomData<fn() -> S>,
}

impl<S: Scale> Instant<S> {
    /// The zero of the scale.
    pub const ZERO: Self = Self::from_units(0);
    /// Later than all other instants; represents "never".
    pub const FAR_FUTURE: Self = Self::from_units(i64::MAX);

    const fn from_units(units: i64) -> Self {
        Self {
            units,
            scale: PhantomData,
        }
    }

    /// The instant `ns` nanoseconds after the scale's zero.
    pub const fn from_ns(ns: i64) -> Self {
        Self::from_units(ns)
    }

    /// Nanoseconds since the scale's zero.
    pub const fn as_ns(self) -> i64 {
        self.units
    }

    /// Returns the time from `earlier` to this instant (negative if this is before).
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_ns(self.units.saturating_sub(earlier.units))
    }
}

impl Instant<Counter> {
    /// The instant at which the counter shows `ticks`. A counter past 2^63
    /// (over a century at 2 GHz) is not supported.
    pub const fn from_ticks(ticks: u64) -> Self {
        Self::from_units(ticks as i64)
    }

    /// Returns the counter's value.
    pub const fn as_ticks(self) -> u64 {
        self.units as u64
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

// Derives would require the same traits of the marker type, which has no values.
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

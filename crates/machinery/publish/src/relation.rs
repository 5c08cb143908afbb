//! Relation of a guest's counter to its host's: derived from causality, never from an average.
//!
//! The guest of a virtual machine sees the same processor's counter, shifted by an offset that the
//! emulator chose and does not disclose. Two events bound it. A value that the host read *before*
//! the guest saw it gives a lower bound of host less guest. A value that the host read *after* the
//! guest did something gives an upper one. So a [`Relation`] is an interval, and a reader adds its
//! width to its own interval ([`crate::RegionReader`]).
//!
//! The types here are state machines: they read no counter.

/// Host's counter less guest's, in ticks: somewhere in `[low, high]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Lower bound.
    pub low: i64,
    /// Upper bound.
    pub high: i64,
    /// Guest's counter at the measurement.
    pub measured_at: u64,
    /// Growth of the uncertainty of each end per tick since then, 0.64 fixed point.
    pub growth_0_64: u64,
    /// Region's generation at the measurement; with another generation the relation is invalid.
    pub generation: u64,
}

/// Host's counter for a value of the guest's: the latest possible value, and its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translated {
    /// Latest possible value.
    pub latest: u64,
    /// Number of ticks by which it may be earlier, at most.
    pub width: u64,
}

impl Relation {
    /// Translates the guest's counter `own` to the host's. Total for all values.
    #[inline(always)]
    pub fn translate(&self, own: u64) -> Translated {
        let age = own.abs_diff(self.measured_at);
        let grown = ((u128::from(age) * u128::from(self.growth_0_64)) >> 64) as u64;
        let grown = grown.saturating_add(u64::from(self.growth_0_64 != 0));
        let width = self.high.wrapping_sub(self.low) as u64;
        Translated {
            latest: own.wrapping_add(self.high as u64).wrapping_add(grown),
            width: width.saturating_add(grown).saturating_add(grown),
        }
    }

    /// Intersects two relations; `None` if they contradict each other: the guest's counter has
    /// changed. `later` is of the same generation and measured later.
    pub fn and(&self, later: &Self) -> Option<Self> {
        let aged = self.aged_to(later.measured_at);
        let (low, high) = (aged.low.max(later.low), aged.high.min(later.high));
        (low <= high).then_some(Self {
            low,
            high,
            ..*later
        })
    }

    fn aged_to(&self, own: u64) -> Self {
        let age = own.abs_diff(self.measured_at);
        let grown = ((u128::from(age) * u128::from(self.growth_0_64)) >> 64) as i64;
        let grown = grown.saturating_add(1);
        Self {
            low: self.low.saturating_sub(grown),
            high: self.high.saturating_add(grown),
            measured_at: own,
            ..*self
        }
    }

    /// Returns true if a reader may compute with it.
    pub(crate) fn is_sound(&self) -> bool {
        // A width of a minute is not a relation; an error of a ten-thousandth is not a counter's.
        self.low <= self.high
            && self.high.abs_diff(self.low) < MOST_WIDTH
            && self.growth_0_64 < u64::MAX / 10_000
    }
}

/// Bounds of a relation, narrowed by each event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    low: i64,
    high: i64,
    /// Stamp that the guest saw, and its counter when it had last seen the one before.
    turned: Option<(u64, u64)>,
    /// Stamp that was seen last, and the guest's counter before that read.
    seen: Option<(u64, u64)>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            low: i64::MIN,
            high: i64::MAX,
            turned: None,
            seen: None,
        }
    }
}

impl Bounds {
    /// Records that the host had read `host` before the guest read `own`.
    pub fn host_first(&mut self, host: u64, own: u64) {
        self.low = self.low.max(host.wrapping_sub(own) as i64);
    }

    /// Records that the guest had read `own` before the host read `host`.
    pub fn guest_first(&mut self, own: u64, host: u64) {
        self.high = self.high.min(host.wrapping_sub(own) as i64);
    }

    /// Records that the guest saw `stamp` in the region between `before` and `after` of its
    /// counter.
    ///
    /// The host repeatedly stores a stamp that it has just read, and each is visible before it
    /// reads the next. So a stamp that was *not* yet there became visible before the one that
    /// follows it was read.
    pub fn saw(&mut self, before: u64, stamp: u64, after: u64) {
        self.host_first(stamp, after);
        let Some((last, last_before)) = self.seen.replace((stamp, before)) else {
            return;
        };
        if last == stamp {
            return;
        }
        // `turned` became visible after `own`, and before `stamp` was read.
        if let Some((_, own)) = self.turned.replace((stamp, last_before)) {
            self.guest_first(own, stamp);
        }
    }

    /// Returns the relation, if both bounds are known, with `slack` added on both sides.
    pub fn relation(
        &self,
        own: u64,
        slack: u64,
        drift_ppb: u32,
        generation: u64,
    ) -> Option<Relation> {
        let known = self.low != i64::MIN && self.high != i64::MAX;
        let slack = i64::try_from(slack).ok()?;
        let relation = Relation {
            low: self.low.saturating_sub(slack),
            high: self.high.saturating_add(slack),
            measured_at: own,
            growth_0_64: growth(drift_ppb),
            generation,
        };
        (known && relation.is_sound()).then_some(relation)
    }
}

/// Converts parts of 10^9 to 0.64 fixed point, rounded up.
fn growth(ppb: u32) -> u64 {
    ((u128::from(ppb) << 64).div_ceil(1_000_000_000)) as u64
}

/// Maximum width in ticks; some seconds on any processor.
const MOST_WIDTH: u64 = 1 << 34;

//! Relation of a guest's counter to its host's, derived from the order of events and not from
//! averages.
//!
//! The guest of a virtual machine sees the same processor's counter as the host, but shifted by an
//! offset that the emulator chose and does not disclose. Two kinds of events bound the difference
//! host minus guest. A value that the host read *before* the guest saw that value gives a lower
//! bound. A value that the host read *after* an action of the guest gives an upper bound. A
//! [`CounterRelation`] is therefore an interval, and a reader adds its width to its own interval
//! ([`crate::shm::RegionReader`]).
//!
//! The types here are state machines: they read no counter.

/// Difference of the host's counter minus the guest's, in ticks: a value in `[low, high]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterRelation {
    /// Lower bound at the measurement.
    pub low: i64,
    /// Upper bound at the measurement.
    pub high: i64,
    /// Value of the guest's counter at the measurement.
    pub measured_at: u64,
    /// Growth of the uncertainty at each end, per tick since the measurement, in 0.64 fixed point.
    pub growth_0_64: u64,
    /// Generation of the region at the measurement. The relation is invalid for another generation.
    pub generation: u64,
}

/// Value of the host's counter that corresponds to a value of the guest's counter, with its
/// uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// Latest possible value.
    pub latest: u64,
    /// Maximum number of ticks by which the value may be earlier than `latest`.
    pub width: u64,
}

impl CounterRelation {
    /// Converts the value `own` of the guest's counter to the host's counter. Defined for all
    /// values.
    #[inline(always)]
    pub fn translate(&self, own: u64) -> Translation {
        let age = own.abs_diff(self.measured_at);
        let grown = ((u128::from(age) * u128::from(self.growth_0_64)) >> 64) as u64;
        let grown = grown.saturating_add(u64::from(self.growth_0_64 != 0));
        let width = self.high.wrapping_sub(self.low) as u64;
        Translation {
            latest: own.wrapping_add(self.high as u64).wrapping_add(grown),
            width: width.saturating_add(grown).saturating_add(grown),
        }
    }

    /// Intersects two relations of the same generation, of which `later` was measured later. `None`
    /// if they contradict each other, because the guest's counter has then changed.
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

    /// Returns true if the relation is narrow and accurate enough for a reader to use.
    pub(crate) fn is_sound(&self) -> bool {
        // No relation has a width of a minute, and no counter has an error of a ten-thousandth.
        self.low <= self.high
            && self.high.abs_diff(self.low) < MOST_WIDTH
            && self.growth_0_64 < u64::MAX / 10_000
    }
}

/// Bounds of a relation; every recorded event can narrow them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    low: i64,
    high: i64,
    /// Most recent stamp, and the guest's counter when the guest last saw the stamp before it.
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

    /// Records that the guest saw `stamp` in the region at some moment between the values `before`
    /// and `after` of its own counter.
    ///
    /// The host repeatedly reads its counter and stores the value as a stamp, and each stamp is
    /// visible before the host reads the next one. So a stamp that the guest did *not* see yet
    /// became visible before the host read the stamp that follows it.
    pub fn saw(&mut self, before: u64, stamp: u64, after: u64) {
        self.host_first(stamp, after);
        let Some((last, last_before)) = self.seen.replace((stamp, before)) else {
            return;
        };
        if last == stamp {
            return;
        }
        // `turned` became visible after `own`, and before the host read `stamp`.
        if let Some((_, own)) = self.turned.replace((stamp, last_before)) {
            self.guest_first(own, stamp);
        }
    }

    /// Returns the relation with `slack` ticks added on both sides; `None` unless both bounds are
    /// known.
    pub fn relation(
        &self,
        own: u64,
        slack: u64,
        drift_ppb: u32,
        generation: u64,
    ) -> Option<CounterRelation> {
        let known = self.low != i64::MIN && self.high != i64::MAX;
        let slack = i64::try_from(slack).ok()?;
        let relation = CounterRelation {
            low: self.low.saturating_sub(slack),
            high: self.high.saturating_add(slack),
            measured_at: own,
            growth_0_64: growth(drift_ppb),
            generation,
        };
        (known && relation.is_sound()).then_some(relation)
    }
}

/// Converts parts per 10^9 to 0.64 fixed point, rounded up.
fn growth(ppb: u32) -> u64 {
    ((u128::from(ppb) << 64).div_ceil(1_000_000_000)) as u64
}

/// Maximum width of a usable relation in ticks; some seconds on any processor.
const MOST_WIDTH: u64 = 1 << 34;

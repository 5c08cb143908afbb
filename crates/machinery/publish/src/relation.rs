//! How a guest's counter stands to its host's: found by what follows from cause and
//! effect, never by an average.
//!
//! The guest of a virtual machine sees the same processor's counter, shifted by a number
//! that the emulator chose and tells nobody. Two events bound it. What the host read
//! *before* the guest saw it gives a lower bound of host less guest. What the host read
//! *after* the guest did something gives an upper one. So a [`Relation`] is an interval,
//! and who reads by it adds its width to his own ([`crate::RegionReader`]).
//!
//! State machines: they read no counter.

/// Host's counter less guest's, in ticks: somewhere in `[low, high]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Not less than this.
    pub low: i64,
    /// Not more than this.
    pub high: i64,
    /// The guest's counter when this was so.
    pub measured_at: u64,
    /// How much farther each end may be per tick since then, 0.64 fixed point.
    pub growth_0_64: u64,
    /// The region's generation then; with another one nothing of this holds.
    pub generation: u64,
}

/// The host's counter for one of the guest's: the latest that it may show, and how much
/// earlier it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translated {
    /// Not later than this.
    pub latest: u64,
    /// Earlier by no more than so many ticks.
    pub width: u64,
}

impl Relation {
    /// The host's counter when the guest's shows `own`. Total for all values.
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

    /// What both say; `None` when they contradict each other: the guest's counter is not
    /// what it was. `later` is of the same generation and measured later.
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

    /// Whether a reader may compute with it.
    pub(crate) fn is_sound(&self) -> bool {
        // A minute of ignorance is no relation; a ten-thousandth is no counter.
        self.low <= self.high
            && self.high.abs_diff(self.low) < MOST_WIDTH
            && self.growth_0_64 < u64::MAX / 10_000
    }
}

/// Bounds of a relation, closer with each event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    low: i64,
    high: i64,
    /// A stamp that the guest saw, and when it had last seen the one before.
    turned: Option<(u64, u64)>,
    /// The stamp that was seen last, and the guest's counter before that look.
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
    /// The host had read `host` before the guest read `own`.
    pub fn host_first(&mut self, host: u64, own: u64) {
        self.low = self.low.max(host.wrapping_sub(own) as i64);
    }

    /// The guest had read `own` before the host read `host`.
    pub fn guest_first(&mut self, own: u64, host: u64) {
        self.high = self.high.min(host.wrapping_sub(own) as i64);
    }

    /// Between `before` and `after` of its counter the guest saw `stamp` in the region.
    ///
    /// The host stores a stamp that it has just read, again and again, and each is visible
    /// before it reads the next. So a stamp that was *not* yet there became visible before
    /// the one that follows it was read.
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

    /// What is known, when that is something: `slack` more on both sides.
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

/// Parts of 10^9 as 0.64 fixed point, rounded up.
fn growth(ppb: u32) -> u64 {
    ((u128::from(ppb) << 64).div_ceil(1_000_000_000)) as u64
}

/// Ticks; some seconds on any processor.
const MOST_WIDTH: u64 = 1 << 34;

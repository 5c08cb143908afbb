//! Reads of the clock, the most frequently executed code of the project.

use timeloom_time::{Core, Instant, Scale};

use crate::counter::after;
use crate::layout::{ClockPage, MapCopy};
use crate::sync::Ordering::{Acquire, Relaxed};
use crate::sync::{fence, spin_loop};

impl<S: Scale> ClockPage<S> {
    /// Reads the time on the page together with `field` of the map in force, both from the same
    /// map.
    ///
    /// `counter` reads the page's counter. It is called between two reads of the sequence number.
    /// If the writer keeps its window closed for longer than any scheduling delay explains
    /// ([`PATIENCE`] iterations), the reader considers the writer dead and uses the last published
    /// map.
    #[inline(always)]
    pub fn read<T>(
        &self,
        counter: impl Fn() -> u64,
        field: impl Fn(&MapCopy) -> T,
    ) -> (Instant<S>, T) {
        let field = |copy: &MapCopy| (copy.shown0_ns.load(Relaxed), field(copy));
        let (look, (shown0_ns, value)) = self.look_patiently(counter, field);
        // A counter value before the start of the map (on another core, before the kernel has
        // synchronised its counter) counts as no elapsed time, not as 2^64 ticks.
        let ticks = look.now.saturating_sub(look.counter0);
        let now_ns = shown0_ns.wrapping_add(advance_ns(ticks, look.rate_8_56, look.most_ns));
        (Instant::from_ns(now_ns), value)
    }

    /// Reads CLOCK_MONOTONIC_RAW; otherwise like [`Self::read`].
    pub fn read_raw(&self, counter: impl Fn() -> u64) -> Instant<Core> {
        let (look, (raw0_ns, (rate_8_56, most_ns))) = self.look_patiently(counter, |copy| {
            let (rate, most_ns) = (&copy.raw_rate_8_56, &copy.raw_most_ns);
            let line = (rate.load(Relaxed), most_ns.load(Relaxed));
            (copy.raw0_ns.load(Relaxed), line)
        });
        let ticks = look.now.saturating_sub(look.counter0);
        Instant::from_ns(raw0_ns.wrapping_add(advance_ns(ticks, rate_8_56, most_ns)))
    }

    /// Returns true if programs see an emulated time-stamp counter instead of the machine's.
    #[inline(always)]
    pub fn emulates_tsc(&self) -> bool {
        self.tsc_per_ns_8_56.load(Relaxed) != 0
    }

    /// Returns the value of the emulated time-stamp counter when CLOCK_MONOTONIC_RAW is `raw`. Like
    /// that clock, the emulated counter follows the host's undisciplined oscillator: a daemon that
    /// adjusts the clock does not change the counter's rate.
    pub fn tsc_at(&self, raw: Instant<Core>) -> u64 {
        let per_ns = self.tsc_per_ns_8_56.load(Relaxed);
        let ticks = (u128::from(raw.as_ns().unsigned_abs()) * u128::from(per_ns)) >> 56;
        self.tsc0.load(Relaxed).wrapping_add(ticks as u64)
    }

    /// Returns the maximum processor time that programs are shown, in nanoseconds, in sessions in
    /// which computing takes no virtual time; `None` in all others.
    pub fn most_processor_time_ns(&self) -> Option<i64> {
        let steps_ns = self.computed.load(Relaxed).checked_sub(1)?;
        Some(i64::try_from(steps_ns).unwrap_or(i64::MAX))
    }

    /// Returns the page time up to which all due timer signals have been sent. A signal due at that
    /// instant or later may be unsent.
    #[inline(always)]
    pub fn next_signal(&self) -> Instant<S> {
        Instant::from_ns(self.next_signal_ns.load(Acquire))
    }

    #[inline(always)]
    fn look_patiently<T>(
        &self,
        counter: impl Fn() -> u64,
        field: impl Fn(&MapCopy) -> T,
    ) -> (Look, T) {
        let mut turns = 0u32;
        loop {
            let sequence = self.sequence.load(Acquire);
            if is_closed(sequence) && turns < PATIENCE {
                turns += 1;
                spin_loop();
                continue;
            }
            if let Some(seen) = self.look(sequence, &counter, &field) {
                return seen;
            }
        }
    }

    /// Reads a clock whose offset from the time on the page is `offset_ns` of the map, in
    /// nanoseconds since that clock's zero. Returns `None` if the map changed during the read, or
    /// if the counter is behind the start of the map.
    ///
    /// This is the hot path, which saves no registers for waiting. On `None`, callers use
    /// [`Self::read`].
    #[inline(always)]
    pub fn try_read(
        &self,
        counter: impl Fn() -> u64,
        offset_ns: impl Fn(&MapCopy) -> i64,
    ) -> Option<i64> {
        let sequence = self.sequence.load(Acquire);
        if is_closed(sequence) {
            return None;
        }
        // The offset is added before the counter is read, so that the addition adds no latency.
        let start = |copy: &MapCopy| copy.shown0_ns.load(Relaxed).wrapping_add(offset_ns(copy));
        let (look, start_ns) = self.look(sequence, &counter, start)?;
        let ticks = look.now.checked_sub(look.counter0)?;
        let advance = advance_ns(ticks, look.rate_8_56, look.most_ns);
        Some(start_ns.wrapping_add(advance))
    }

    /// Returns the counter and the map in force, and `field` of that map. Returns `None` if the
    /// page's sequence number is no longer `sequence`.
    #[inline(always)]
    fn look<T>(
        &self,
        sequence: u32,
        counter: impl Fn() -> u64,
        field: impl Fn(&MapCopy) -> T,
    ) -> Option<(Look, T)> {
        let active = self.active.load(Relaxed) & 1;
        // `active` is masked above, so the index is in range without a check.
        let copy = if active == 0 {
            &self.copies[0]
        } else {
            &self.copies[1]
        };
        let counter0 = copy.counter0.load(Relaxed);
        let rate_8_56 = copy.rate_8_56.load(Relaxed);
        let most_ns = copy.most_ns.load(Relaxed);
        let value = field(copy);
        let now = counter();
        fence(Acquire);
        let same = after(now, &self.sequence).load(Relaxed) == sequence;
        same.then_some((
            Look {
                now,
                counter0,
                rate_8_56,
                most_ns,
            },
            value,
        ))
    }
}

/// Values of one consistent read of the page.
struct Look {
    now: u64,
    counter0: u64,
    rate_8_56: u64,
    most_ns: i64,
}

/// Returns true if this sequence number means that the writer has closed its window.
#[inline(always)]
fn is_closed(sequence: u32) -> bool {
    sequence & 1 == 1
}

/// Returns the nanoseconds that a line shows for a number of ticks; the line ends after `most_ns`.
#[inline(always)]
fn advance_ns(ticks: u64, rate_8_56: u64, most_ns: i64) -> i64 {
    (((u128::from(ticks) * u128::from(rate_8_56)) >> 56) as i64).min(most_ns)
}

/// Iterations of the waiting loop after which a reader considers the writer dead: about a second of
/// spinning, far longer than a scheduling delay. (Miri switches threads at every iteration, and
/// takes a microsecond for an operation that takes a processor a nanosecond.)
const PATIENCE: u32 = if cfg!(miri) { 1 << 12 } else { 1 << 25 };

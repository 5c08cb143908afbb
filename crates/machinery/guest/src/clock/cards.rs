//! Clocks of the hosts' network cards: readings, steering, and stamps of past instants.
//!
//! A card counts the host's own time by an oscillator of its own. Programs read it only through the
//! supervisor, so it needs no clock page.

use timeloom_clock::card::{CardClock, CardClockOptions, CardError, RecentLines};
use timeloom_clock::host_time_map::HostTimeMap;
use timeloom_clock::kernel::Timex;
use timeloom_clock::{CardTime, HostTime};
use timeloom_time::{ClockMap, Duration, Instant, Utc, Virtual};

use super::Clock;
use super::card::CardOptions;
use super::host::Host;
use super::host_state::HostState;

/// Supervisor's state of a card's clock.
pub(super) struct CardState {
    clock: CardClock,
    /// The host's own time, also before its latest changes.
    own_time: RecentLines<Virtual, HostTime>,
    /// Latest host time at which the clock was evaluated.
    asked: Instant<HostTime>,
}

impl CardState {
    /// Records a change of the host's own time at `now`.
    pub(super) fn note(&mut self, now: Instant<Virtual>, time_map: &HostTimeMap) {
        let line = ClockMap::new(now, time_map.at(now), time_map.rate());
        self.own_time.push(line);
    }

    /// Returns the host time at `now`, not before an earlier result.
    fn own(&mut self, now: Instant<Virtual>, time_map: &HostTimeMap) -> Instant<HostTime> {
        self.asked = self.asked.max(time_map.at(now));
        self.asked
    }
}

impl HostState {
    /// Returns the deviation of the card's clock at `now`, when true civil time is `truth`.
    pub(super) fn read_card(
        &mut self,
        now: Instant<Virtual>,
        truth: Instant<Utc>,
    ) -> Option<CardReading> {
        let card = self.card.as_mut()?;
        let own = card.own(now, &self.time_map);
        let shown_ns = card.clock.shown(own, card.own_time.at(now)?)?.as_ns();
        let rate = self.time_map.rate().times(card.clock.rate(own));
        Some(CardReading {
            error: Duration::from_ns(shown_ns.saturating_sub(truth.as_ns())),
            frequency_error: rate.as_f64() - 1.0,
        })
    }
}

/// Simultaneous readings of a card's clock and of a clock of its host, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CardSample {
    pub(crate) card_ns: i64,
    pub(crate) system_ns: i64,
    pub(crate) raw_ns: i64,
}

/// Deviation of the clock of a host's network card from true time, at one instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CardReading {
    /// The card's clock minus true civil time.
    pub error: Duration,
    /// Fraction by which the clock runs too fast.
    pub frequency_error: f64,
}

impl Clock {
    /// Gives a host a card, whose clock shows civil time plus an offset.
    pub(crate) fn add_card(&self, host: &Host, options: &CardOptions) {
        let mut state = self.lock();
        let start = state.civil().at(Instant::ZERO) + options.offset;
        let added = &mut state.hosts[host.index];
        added.card = Some(CardState {
            clock: CardClock::new(&CardClockOptions {
                oscillator: options.oscillator,
                seed: options.seed,
                start: Instant::from_ns(start.as_ns()),
            }),
            own_time: RecentLines::new(ClockMap::new(
                Instant::ZERO,
                added.time_map.at(Instant::ZERO),
                added.time_map.rate(),
            )),
            asked: Instant::ZERO,
        });
        host.page
            .page()
            .card
            .store(1, std::sync::atomic::Ordering::SeqCst);
    }

    /// Returns what the card's clock shows now, with the CLOCK `id` of the host and its
    /// CLOCK_MONOTONIC_RAW at the same instant; `None` if the host has no card.
    pub(crate) fn card_sample(&self, host: &Host, id: libc::clockid_t) -> Option<CardSample> {
        let mut state = self.lock();
        let ticks = Instant::from_ticks(self.counter.ticks());
        let now = state.published.at(ticks);
        let (shown, offset_ns) = {
            let page = host.page.page();
            let shown = page.read(|| ticks.as_ticks(), |_| ()).0;
            (shown, host.offset_ns(id))
        };
        let raw = host.page.page().read_raw(|| ticks.as_ticks());
        let system_ns = match id {
            libc::CLOCK_MONOTONIC_RAW => raw.as_ns(),
            _ => shown.as_ns() + offset_ns,
        };
        let host = &mut state.hosts[host.index];
        let card = host.card.as_mut()?;
        let own = card.own(now, &host.time_map);
        Some(CardSample {
            card_ns: card.clock.shown(own, own)?.as_ns(),
            system_ns,
            raw_ns: raw.as_ns(),
        })
    }

    /// Returns what the card's clock showed at an instant of the session, in nanoseconds; `None` if
    /// the host has no card, or its clocks were changed too often since.
    pub(crate) fn card_stamp_ns(&self, host: &Host, at: Instant<Virtual>) -> Option<i64> {
        let shown = self.with_card(host, |card, now| {
            let then = card.own_time.at(at)?;
            card.asked = now.max(then);
            card.clock.shown(card.asked, then)
        });
        Some(shown??.as_ns())
    }

    /// Executes `clock_adjtime` on the card's clock; `None` if the host has no card.
    pub(crate) fn adjust_card(
        &self,
        host: &Host,
        timex: &mut Timex,
    ) -> Option<Result<(), CardError>> {
        self.with_card(host, |card, now| card.clock.adjust(now, timex))
    }

    /// Sets the card's clock; `None` if the host has no card.
    pub(crate) fn set_card(&self, host: &Host, shown: Instant<CardTime>) -> Option<()> {
        self.with_card(host, |card, now| card.clock.set(now, shown))
    }

    fn with_card<T>(
        &self,
        host: &Host,
        act: impl FnOnce(&mut CardState, Instant<HostTime>) -> T,
    ) -> Option<T> {
        let mut state = self.lock();
        let now = state
            .published
            .at(Instant::from_ticks(self.counter.ticks()));
        let host = &mut state.hosts[host.index];
        let card = host.card.as_mut()?;
        let own = card.own(now, &host.time_map);
        Some(act(card, own))
    }
}

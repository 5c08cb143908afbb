//! Properties of the kernel's clocks that hold for every sequence of calls.

use proptest::prelude::*;
use timeloom_clock::Core;
use timeloom_clock::kernel::{KernelClock, KernelClockOptions, Timex, status};
use timeloom_time::Instant;

fn raw(ns: i64) -> Instant<Core> {
    Instant::from_ns(ns)
}

fn new_clock() -> KernelClock {
    KernelClock::new(&KernelClockOptions {
        raw: raw(0),
        monotonic: Instant::from_ns(5_000_000_000),
        realtime: Instant::from_ns(1_700_000_000_500_000_000),
        tai_s: 37,
        ticks_per_s: 250,
    })
}

fn any_timex() -> impl Strategy<Value = Timex> {
    let numbers = (
        any::<i64>(),
        -(600i64 << 16)..600 << 16,
        any::<i64>(),
        any::<i64>(),
    );
    let more = (any::<u16>(), -2i64..12, -3i64..4, 0i64..1_000_000);
    (0u32..0x1_0000, numbers, more, 8_900i64..11_100).prop_map(
        |(modes, (offset, freq, maxerror, esterror), (status, constant, s, part), tick)| Timex {
            modes,
            offset,
            freq,
            maxerror,
            esterror,
            status: i32::from(status),
            constant,
            time_s: s,
            time_part: part,
            tick,
            ..Timex::default()
        },
    )
}

proptest! {
    #[test]
    fn monotonic_neither_steps_nor_goes_back(
        calls in prop::collection::vec((any_timex(), 0i64..3_000_000_000), 1..40),
    ) {
        let mut clock = new_clock();
        let mut now = 0;
        for (mut timex, length) in calls {
            clock.advance(raw(now));
            let before = clock.line().at(raw(now));
            let _ = clock.adjust(raw(now), &mut timex, true);
            prop_assert_eq!(clock.line().at(raw(now)), before, "{:?}", timex);
            now += length;
            clock.advance(raw(now));
            let ran = (clock.line().at(raw(now)) - before).as_ns();
            // Greatest deviations: ± 10 % by the tick length, 500 ppm each by frequency and
            // adjtime, and a quarter of half a second by the phase.
            let nominal = length as f64;
            prop_assert!(ran as f64 >= nominal * 0.773 - 1.0 && ran as f64 <= nominal * 1.227 + 1.0);
        }
    }

    #[test]
    fn looking_often_or_seldom_makes_no_difference(
        mut timex in any_timex(),
        looks in prop::collection::vec(0i64..20_000_000_000, 0..60),
    ) {
        let (mut often, mut seldom) = (new_clock(), new_clock());
        let mut same = timex;
        prop_assert_eq!(often.adjust(raw(7), &mut timex, true), seldom.adjust(raw(7), &mut same, true));
        let mut looks = looks;
        looks.sort_unstable();
        for look in looks {
            often.advance(raw(7 + look));
        }
        let end = raw(30_000_000_000);
        often.advance(end);
        seldom.advance(end);
        prop_assert_eq!(often.line(), seldom.line());
        prop_assert_eq!(often.realtime_ahead(), seldom.realtime_ahead());
    }

    #[test]
    fn a_clock_without_a_next_wake_does_not_change(mut timex in any_timex(), length in 1i64..1 << 36) {
        let mut clock = new_clock();
        let _ = clock.adjust(raw(3), &mut timex, true);
        if clock.next_wake().is_none() {
            let (line, offset) = (clock.line(), clock.realtime_ahead());
            let later = raw(3 + length);
            let expected = line.at(later);
            clock.advance(later);
            prop_assert_eq!(clock.line().rate(), line.rate());
            // Each second begins a new line, which is rounded to 2^-32 ns.
            prop_assert!((clock.line().at(later) - expected).as_ns().abs() <= 1);
            prop_assert_eq!(clock.realtime_ahead(), offset);
        }
    }
}

#[test]
fn an_unsteered_clock_runs_as_its_oscillator() {
    let mut clock = new_clock();
    assert_eq!(clock.next_wake(), None);
    clock.advance(raw(86_400_000_000_000));
    assert_eq!(
        clock.line().at(raw(86_400_000_000_000)).as_ns(),
        86_405_000_000_000
    );
    let mut timex = Timex::default();
    let state = clock.adjust(raw(86_400_000_000_001), &mut timex, false);
    assert_eq!(state.map(|adjusted| adjusted.state), Ok(5));
    assert_eq!(timex.status, status::UNSYNC);
}

//! Relation of a guest's counter to its host's: the truth is never excluded.

use proptest::prelude::*;
use timeloom_publish::{Bounds, Relation};

#[test]
fn an_exchange_bounds_from_both_sides() {
    // Truth: the host's counter is 1,000 ahead of the guest's.
    let mut bounds = Bounds::default();
    assert_eq!(bounds.relation(0, 0, 0, 7), None);
    bounds.guest_first(50, 1_080); // 30 under way
    assert_eq!(bounds.relation(60, 0, 0, 7), None, "one side is not enough");
    bounds.host_first(1_090, 100); // 10 under way
    let relation = bounds.relation(100, 5, 0, 7).unwrap();
    assert_eq!((relation.low, relation.high), (985, 1_035));
    let translated = relation.translate(200);
    assert_eq!((translated.latest, translated.width), (1_235, 50));
}

#[test]
fn a_counter_that_was_moved_contradicts() {
    let relation = |low, high, measured_at| Relation {
        low,
        high,
        measured_at,
        // A millionth of each tick.
        growth_0_64: u64::MAX / 1_000_000,
        generation: 1,
    };
    let before = relation(900, 1_100, 0);
    let closer = before.and(&relation(950, 1_200, 10)).unwrap();
    assert_eq!((closer.low, closer.high), (950, 1_101));
    assert_eq!(before.and(&relation(5_000, 5_100, 10)), None);
    // After long enough the counter may have drifted there.
    assert!(before.and(&relation(5_000, 5_100, 4_000_000_000)).is_some());
}

/// Generates a host's stamps as seen by the guest: the host's counter at each stamp, and the time
/// that passes for each read of the guest.
fn steps() -> impl Strategy<Value = (Vec<u16>, Vec<(u16, u16)>, i32)> {
    let stamps = proptest::collection::vec(1..500u16, 1..60);
    let looks = proptest::collection::vec((1..300u16, 0..100u16), 1..60);
    (stamps, looks, any::<i32>())
}

proptest! {
    /// The truth is never excluded, at any pace of the two sides.
    #[test]
    fn the_truth_is_within((stamps, looks, offset) in steps()) {
        // Pairs: the time when a stamp was read, and the latest time when it became visible.
        let mut host = 1_000_000u64;
        let stamps: Vec<(u64, u64)> = stamps.iter().map(|step| {
            let read = host;
            host += u64::from(*step);
            (read, host - 1)
        }).collect();
        let mut bounds = Bounds::default();
        let mut now = 1_000_000u64;
        let own = |host: u64| host.wrapping_sub(i64::from(offset) as u64);
        for (step, within) in looks {
            now += u64::from(step);
            let at = now + u64::from(within) / 2;
            // Visible at any moment after it was read and before the next is: the latest is tried.
            let Some((stamp, _)) = stamps.iter().rev().find(|(_, visible)| *visible <= at)
            else { continue };
            bounds.saw(own(now), *stamp, own(now + u64::from(within)));
            now += u64::from(within);
        }
        if let Some(found) = bounds.relation(0, 0, 0, 0) {
            prop_assert!((found.low..=found.high).contains(&i64::from(offset)));
        }
    }
}

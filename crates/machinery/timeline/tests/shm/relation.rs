//! Tests that the relation of a guest's counter to its host's always contains the true difference.

use proptest::prelude::*;
use timeloom_timeline::shm::{Bounds, CounterRelation};

#[test]
fn an_exchange_bounds_from_both_sides() {
    // In this test the host's counter is truly 1,000 ahead of the guest's.
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
    let relation = |low, high, measured_at| CounterRelation {
        low,
        high,
        measured_at,
        // The uncertainty grows by a millionth of a tick per tick.
        growth_0_64: u64::MAX / 1_000_000,
        generation: 1,
    };
    let before = relation(900, 1_100, 0);
    let closer = before.and(&relation(950, 1_200, 10)).unwrap();
    assert_eq!((closer.low, closer.high), (950, 1_101));
    assert_eq!(before.and(&relation(5_000, 5_100, 10)), None);
    // After enough time the counter may have drifted that far.
    assert!(before.and(&relation(5_000, 5_100, 4_000_000_000)).is_some());
}

/// Generates the stamps of a host as the guest sees them: the host's counter at each stamp, the
/// time that each read of the guest takes, and the offset.
fn steps() -> impl Strategy<Value = (Vec<u16>, Vec<(u16, u16)>, i32)> {
    let stamps = proptest::collection::vec(1..500u16, 1..60);
    let looks = proptest::collection::vec((1..300u16, 0..100u16), 1..60);
    (stamps, looks, any::<i32>())
}

proptest! {
    /// The relation always contains the true difference, however fast host and guest proceed.
    #[test]
    fn the_truth_is_within((stamps, looks, offset) in steps()) {
        // Pairs of the time when a stamp was read and the latest time when it became visible.
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
            // A stamp may become visible at any moment after it was read and before the next one is
            // read. The test uses the latest moment.
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

//! An exact run in parts is, bit by bit, the run of one engine.

mod common;

use common::{Shape, parallel, single};
use timeloom_net::Owner;
use timeloom_peering::exact::{Exchange, Gone, Shared};
use timeloom_time::{Duration, Instant};

#[test]
fn parts_give_what_one_engine_gives() {
    for seed in 0..3 {
        for shape in Shape::ALL {
            let whole = single(shape, seed);
            assert!(
                whole.arrivals.len() > 1_000,
                "{shape:?}: too little happens"
            );
            for parts in [2, 3] {
                let found = parallel(shape, seed, parts);
                assert!(found.left > 100, "{shape:?} seed {seed}: nothing crosses");
                assert_eq!(
                    found.report.flows, whole.flows,
                    "{shape:?} seed {seed} in {parts}"
                );
                assert_eq!(
                    found.report.sources, whole.sources,
                    "{shape:?} seed {seed} in {parts}"
                );
                assert_eq!(
                    found.report.links, whole.links,
                    "{shape:?} seed {seed} in {parts}"
                );
                assert_eq!(
                    found.report.arrivals, whole.arrivals,
                    "{shape:?} seed {seed} in {parts}"
                );
                // What was lost on a cut wire and still travels at the end is
                // counted at once, hence not in the network that loses.
                if !matches!(shape, Shape::Rough) {
                    assert_eq!(found.report.hops, whole.hops, "{shape:?} seed {seed}");
                }
            }
        }
    }
}

#[test]
fn an_engine_that_ends_does_not_leave_the_others_waiting() {
    let mut both = Shared::new(2 as Owner).into_iter();
    let (mut first, second) = (both.next().unwrap(), both.next().unwrap());
    let other = std::thread::spawn(move || drop(second));
    let answer = first.exchange(
        Instant::ZERO + Duration::from_ms(1),
        &mut [Default::default(), Default::default()],
        &mut Default::default(),
    );
    other.join().unwrap();
    assert!(matches!(answer, Err(Gone(_))));
}

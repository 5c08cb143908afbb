//! The latch under every order that the memory model allows (loom).
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p timeloom-publish --release --test latch_model`
#![allow(unexpected_cfgs, reason = "see lib.rs")]
#![cfg(loom)]

use loom::sync::Arc;
use timeloom_publish::Latch;

#[test]
fn no_reader_sees_a_mixture_or_an_older_value() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let latch = Arc::new(Latch::<2>::new([0, 0]));
        let writer = {
            let latch = latch.clone();
            loom::thread::spawn(move || {
                latch.publish([1, 1]);
                latch.publish([2, 2]);
            })
        };
        let first = latch.words();
        assert_eq!(first[0], first[1]);
        let second = latch.words();
        assert_eq!(second[0], second[1]);
        assert!(second[0] >= first[0]);
        writer.join().unwrap();
        assert_eq!(latch.words(), [2, 2]);
    });
}

//! Model check of the latch. loom runs the closure with every order that the memory model allows,
//! with up to three preemptions. This crate compiles the latch's source a second time, with loom's
//! atomics in place of the processor's (`sync`).

#![expect(
    unreachable_pub,
    unused_imports,
    reason = "the source of a library, with its unit tests' imports"
)]

#[path = "../src/shm/latch.rs"]
mod latch;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, fence};
}

use latch::Latch;
use loom::sync::Arc;

fn main() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(no_reader_sees_a_mixture_or_an_older_value);
    println!("model no_reader_sees_a_mixture_or_an_older_value ... ok");
}

fn no_reader_sees_a_mixture_or_an_older_value() {
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
    writer.join().expect("it only publishes");
    assert_eq!(latch.words(), [2, 2]);
}

//! Model check of the flag of a sleeping thread. loom runs the closure with every interleaving that
//! the memory model allows.

#[path = "../src/peering/flag.rs"]
mod flag;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, Ordering, fence};
}

use flag::Flag;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::thread;
use sync::Ordering::Relaxed;

fn main() {
    loom::model(nothing_is_left_to_a_sleeper_that_is_not_rung);
    println!("model nothing_is_left_to_a_sleeper_that_is_not_rung ... ok");
}

/// One thread writes two items, one after the other, while another thread checks, sleeps, wakes and
/// sleeps again. When the second thread sleeps, it must have seen all items or have been signalled.
fn nothing_is_left_to_a_sleeper_that_is_not_rung() {
    let there = Arc::new(AtomicU32::new(0));
    let rings = Arc::new(AtomicU32::new(0));
    let flag = Arc::new(Flag::new());
    let giver = {
        let (there, rings, flag) = (there.clone(), rings.clone(), flag.clone());
        thread::spawn(move || {
            for count in 1..=2 {
                there.store(count, Relaxed);
                if flag.take() {
                    rings.fetch_add(1, Relaxed);
                }
            }
        })
    };
    flag.doze();
    let first = there.load(Relaxed);
    // Pending signals are consumed, as in `bell.rs`.
    flag.wake();
    rings.store(0, Relaxed);
    flag.doze();
    let seen = there.load(Relaxed);
    assert!(seen >= first);
    giver.join().unwrap();
    assert!(
        seen == 2 || rings.load(Relaxed) > 0,
        "asleep with {seen} of 2 seen"
    );
}

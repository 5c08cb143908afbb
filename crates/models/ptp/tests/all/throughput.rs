//! Simulated worlds with thousands of Syncs; the rate is printed and not checked.

use crate::world::path::{Path, failures, offsets};
use timeloom_wire::tlv::{EntryForm, Suite};

fn run(path: &mut Path, seconds: f64) {
    path.profile.log_sync_interval = -7;
    let mut world = path.build();
    let start = std::time::Instant::now();
    world.run_for(seconds);
    let elapsed_s = start.elapsed().as_secs_f64();
    let syncs = offsets(&world, path.slave()).len() as f64;
    println!(
        "{:.0} Syncs a second over four hops, {:.0} messages a second",
        syncs / elapsed_s,
        world.sent as f64 / elapsed_s
    );
    assert!(failures(&world).is_empty());
    assert!(syncs > (seconds - 5.0) * 128.0, "{syncs} of {seconds} s");
}

#[test]
fn thousands_of_plain_syncs() {
    run(&mut Path::new(31, 4), 60.0);
}

#[test]
fn thousands_of_signed_syncs() {
    run(
        &mut Path::new(32, 4).signed(Suite::Ed25519, EntryForm::Full),
        30.0,
    );
}

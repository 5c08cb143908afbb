//! How fast the simulated world is: printed, and bounded only loosely.

mod world;

use world::path::{Path, offsets};

#[test]
fn thousands_of_syncs_per_second() {
    let mut path = Path::new(31, 4);
    path.profile.log_sync_interval = -7;
    let mut world = path.build();
    let start = std::time::Instant::now();
    world.run_for(60.0);
    let elapsed_s = start.elapsed().as_secs_f64();
    let syncs = offsets(&world, path.slave()).len() as f64;
    println!(
        "{:.0} Syncs a second over four hops, {:.0} messages a second",
        syncs / elapsed_s,
        world.sent as f64 / elapsed_s
    );
    assert!(syncs / elapsed_s > 1_000.0);
}

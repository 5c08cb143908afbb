//! Helper functions of several test files.
#![allow(dead_code, reason = "each test file uses a part")]

use timeloom_engine::Engine;
use timeloom_net::{LinkConfig, NetworkBuilder, Node, QueueConfig, World};
use timeloom_time::{Duration, Instant, Virtual};

pub(crate) const MBIT: u64 = 1_000_000;
pub(crate) const GBIT: u64 = 1_000_000_000;

pub(crate) fn ms(ms: i64) -> Instant<Virtual> {
    Instant::ZERO + Duration::from_ms(ms)
}

/// Returns a link without overhead per packet, whose queue has room for `packets`.
pub(crate) fn bare(rate_bps: u64, delay: Duration, packets: u32) -> LinkConfig {
    LinkConfig {
        overhead_bytes: 0,
        queue: QueueConfig::DropTail { packets },
        ..LinkConfig::new(rate_bps, delay)
    }
}

/// Returns host – router – host; the first link is fast and short, the second one is given.
pub(crate) fn pair(
    seed: u64,
    first: LinkConfig,
    second: LinkConfig,
) -> (NetworkBuilder, [Node; 3]) {
    let mut network = NetworkBuilder::new(seed);
    let a = network.host("a");
    let router = network.router("r");
    let b = network.host("b");
    network.connect(a, router, first);
    network.connect(router, b, second);
    (network, [a, router, b])
}

/// Starts the world and runs it until virtual time `until`.
pub(crate) fn run(world: World, until: Instant<Virtual>) -> Engine<World> {
    let mut engine = Engine::new(world);
    engine.with(|world, agenda| world.start(agenda));
    engine.run_until(until, u64::MAX);
    engine
}

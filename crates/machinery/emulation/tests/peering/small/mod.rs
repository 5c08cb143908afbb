//! Small network with flows of both kinds, for tests of the encoding.

use timeloom_net::topology::dumbbell;
use timeloom_net::{
    LinkConfig, NetworkBuilder, PacketSize, Pattern, TcpConfig, TrafficConfig, World,
};
use timeloom_time::Duration;

/// Creates a dumbbell with `flows` TCP flows in one direction, and as many UDP flows in the other.
pub(crate) fn world(flows: u32) -> World {
    let mut network = NetworkBuilder::new(1);
    let link = LinkConfig::new(1_000_000_000, Duration::from_ms(1));
    let ends = dumbbell(&mut network, "", flows, &link, &link);
    let mut world = network.build().unwrap();
    for (from, to) in ends.left.iter().zip(&ends.right) {
        world.add_tcp(*from, *to, TcpConfig::default()).unwrap();
        let pattern = Pattern::Constant { rate_bps: 1_000 };
        let udp = TrafficConfig::udp(pattern, PacketSize::Exponential(300.0));
        world.add_traffic(*to, *from, udp).unwrap();
    }
    world
}

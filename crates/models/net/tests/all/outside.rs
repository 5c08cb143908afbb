//! Packets of real programs that pass the model, and hosts with a real TCP/IP stack.

use crate::common::{GBIT, MBIT, bare, ms, pair};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use timeloom_engine::{Engine, Random};
use timeloom_net::stack::Stack;
use timeloom_net::{Impairment, LinkConfig, Node, TcpConfig, World};
use timeloom_time::{Duration, Instant, Virtual};

fn socket() -> Socket<'static> {
    let buffer = || SocketBuffer::new(vec![0; 256 * 1024]);
    Socket::new(buffer(), buffer())
}

/// Runs all events in order, and polls both stacks when their timers expire.
fn drive(
    engine: &mut Engine<World>,
    stacks: &mut [Stack],
    until: Instant<Virtual>,
    mut each: impl FnMut(&mut [Stack]) -> bool,
) {
    let mut wakes: Vec<Option<Instant<Virtual>>> = vec![Some(engine.now()); stacks.len()];
    while engine.now() < until && each(stacks) {
        let stack_wake = wakes.iter().flatten().min().copied();
        let next = engine.next_wake().into_iter().chain(stack_wake).min();
        let Some(next) = next else { break };
        engine.run_until(next, u64::MAX);
        while let Some((node, packet)) = engine
            .model
            .take_raw(|node, _, bytes| (node, bytes.to_vec()))
        {
            let stack = stacks
                .iter_mut()
                .find(|stack| stack.node() == node)
                .unwrap();
            stack.handle_packet(&packet);
        }
        for (stack, wake) in stacks.iter_mut().zip(&mut wakes) {
            *wake = engine.with(|world, agenda| stack.poll(world, agenda));
        }
    }
}

/// Sends `length` bytes from one real stack to another over `link`; with a simulated flow at the
/// same time if `beside`. Returns the arrival of the last byte.
fn transfer(link: LinkConfig, length: usize, beside: bool) -> Instant<Virtual> {
    let (mut network, [a, router, b]) = pair(5, bare(GBIT, Duration::from_us(10), 1_000), link);
    let (c, d) = (network.host("c"), network.host("d"));
    let fast = bare(GBIT, Duration::from_us(10), 1_000);
    network.connect(c, router, fast.clone());
    network.connect(d, router, fast);
    let mut world = network.build().unwrap();
    if beside {
        world.add_tcp(c, b, TcpConfig::default()).unwrap();
    }
    let mut stacks = [a, b].map(|node| Stack::new(&mut world, node, 7, Instant::ZERO));
    let address = world.address(world.port_of(b).unwrap());
    let (mut client, mut server) = (socket(), socket());
    server.listen(80).unwrap();
    let server = stacks[1].sockets.add(server);
    client.set_nagle_enabled(false);
    let client = stacks[0].sockets.add(client);
    let (interface, sockets) = stacks[0].context();
    let connecting = sockets.get_mut::<Socket>(client);
    connecting
        .connect(interface.context(), (address, 80), 4_000)
        .unwrap();

    let mut random = Random::new(3, 0);
    let sent: Vec<u8> = (0..length).map(|_| random.bits() as u8).collect();
    let mut offset = 0;
    let mut received = Vec::new();
    let mut engine: Engine<World> = Engine::new(world);
    engine.with(|world, agenda| world.start(agenda));
    drive(&mut engine, &mut stacks, ms(120_000), |stacks| {
        let socket = stacks[0].sockets.get_mut::<Socket>(client);
        if socket.can_send() && offset < sent.len() {
            offset += socket.send_slice(&sent[offset..]).unwrap();
        }
        let socket = stacks[1].sockets.get_mut::<Socket>(server);
        while socket.can_recv() {
            let taken = socket.recv(|bytes| (bytes.len(), bytes.to_vec())).unwrap();
            received.extend(taken);
        }
        received.len() < sent.len()
    });
    assert!(
        received == sent,
        "{} of {} bytes",
        received.len(),
        sent.len()
    );
    engine.now()
}

#[test]
fn a_real_stack_fills_a_simulated_link() {
    let link = bare(100 * MBIT, Duration::from_ms(1), 1_000);
    let end = transfer(link.clone(), 5_000_000, false);
    let rate = 5e6 * 8.0 / (end - Instant::ZERO).as_s_f64() / 1e6;
    assert!((85.0..97.4).contains(&rate), "{rate} Mbit/s");
    assert_eq!(
        end,
        transfer(link, 5_000_000, false),
        "a second run differs"
    );
}

#[test]
fn a_real_stack_recovers_from_simulated_loss() {
    let link = bare(100 * MBIT, Duration::from_ms(1), 1_000);
    let wire = Impairment {
        loss: 0.002,
        duplication: 0.01,
        ..Impairment::default()
    };
    transfer(link.with_impairment(wire), 500_000, false);
}

#[test]
fn real_and_simulated_flows_share_a_link() {
    let link = bare(20 * MBIT, Duration::from_ms(5), 60);
    let alone = transfer(link.clone(), 2_000_000, false);
    let beside = transfer(link, 2_000_000, true);
    let ratio = (beside - Instant::ZERO).as_s_f64() / (alone - Instant::ZERO).as_s_f64();
    assert!(ratio > 1.3, "{ratio}: the simulated flow takes its share");
}

/// Returns an ICMP echo request of 28 bytes with correct checksums.
fn echo_request(world: &World, from: Node, to: Node) -> Vec<u8> {
    let address = |node| world.address(world.port_of(node).unwrap()).octets();
    let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0];
    packet.extend(address(from));
    packet.extend(address(to));
    packet.extend([8, 0, 0, 0, 0x12, 0x34, 0, 1]);
    let sum = !(0x0800u16 + 0x1234 + 1);
    packet[22..24].copy_from_slice(&sum.to_be_bytes());
    packet
}

#[test]
fn a_simulated_host_answers_a_real_ping() {
    let link = bare(GBIT, Duration::from_us(100), 10);
    let (network, [a, _, b]) = pair(1, link.clone(), link);
    let mut world = network.build().unwrap();
    world.open(a);
    let request = echo_request(&world, a, b);
    let mut engine: Engine<World> = Engine::new(world);
    engine.with(|world, agenda| world.send_raw(a, &request, agenda));
    engine.run_until(ms(10), u64::MAX);
    let reply = engine
        .model
        .take_raw(|node, at, bytes| (node, at, bytes.to_vec()));
    let (node, at, reply) = reply.unwrap();
    assert_eq!((node, at), (a, Instant::from_ns(4 * (100_000 + 28 * 8))));
    assert_eq!(reply[8], 63, "one router on the way back");
    assert_eq!(reply[12..16], request[16..20]);
    assert_eq!(reply[20], 0, "an echo reply");
    assert_eq!(reply[24..], request[24..]);
    for part in [&reply[..20], &reply[20..]] {
        let sum: u32 = part
            .chunks(2)
            .map(|p| u32::from(p[0]) << 8 | u32::from(p[1]))
            .sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "a checksum is wrong");
    }
    assert_eq!(engine.model.packets_alive(), 0);
}

#[test]
fn malformed_packets_are_dropped_and_counted() {
    let link = bare(GBIT, Duration::from_us(100), 10);
    let (network, [a, _, b]) = pair(1, link.clone(), link);
    let world = network.build().unwrap();
    let good = echo_request(&world, a, b);
    let mut engine: Engine<World> = Engine::new(world);
    let mut send = |packet: &[u8]| engine.with(|world, agenda| world.send_raw(a, packet, agenda));
    send(&[]);
    send(&good[..19]);
    send(&good[..27]); // shorter than its length field
    send(&[&[0x65], &good[1..]].concat()); // version 6
    send(&[&[0x44], &good[1..]].concat()); // a header of 16 bytes
    let mut random = Random::new(1, 0);
    for _ in 0..2_000 {
        // All bytes are random: no input may cause a panic.
        let length = random.below(80) as usize;
        let noise: Vec<u8> = (0..length).map(|_| random.bits() as u8).collect();
        send(&noise);
        let mut bent = good.clone();
        bent[random.below(28) as usize] = random.bits() as u8;
        send(&bent);
    }
    assert!(engine.model.counters().malformed > 2_000);
    engine.run_until(ms(1_000), u64::MAX);
    assert_eq!(engine.model.packets_alive(), 0);
}

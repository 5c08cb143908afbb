//! Simulated hosts that serve over TCP, with a client that has a real TCP/IP stack.

use std::net::{IpAddr, Ipv6Addr};

use crate::common::{GBIT, MBIT, bare, ms, pair};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use timeloom_engine::Engine;
use timeloom_net::server::{Service, SimulatedServer, SimulatedServerOptions};
use timeloom_net::stack::Stack;
use timeloom_net::{Impairment, LinkConfig, Node, World};
use timeloom_time::{Duration, Instant, Virtual};

/// A client with a real stack, a router, and a server behind `link`.
struct Pair {
    engine: Engine<World>,
    client: Stack,
    server: Node,
    wake: Option<Instant<Virtual>>,
    next_port: u16,
}

impl Pair {
    fn new(link: LinkConfig, services: &[(u16, Service)], connections: usize) -> Self {
        Self::with(link, services, connections, &[])
    }

    /// Returns the pair; the two ends have these addresses.
    fn with(
        link: LinkConfig,
        services: &[(u16, Service)],
        connections: usize,
        addresses: &[&str],
    ) -> Self {
        let fast = bare(GBIT, Duration::from_us(10), 1_000);
        let (mut network, [a, _, server]) = pair(5, fast, link);
        for (node, address) in [a, server].into_iter().zip(addresses) {
            let address: Ipv6Addr = address.parse().unwrap();
            network.set_address(network.port(node, 0).unwrap(), address, 64);
        }
        let mut world = network.build().unwrap();
        let options = SimulatedServerOptions {
            services: services.to_vec(),
            connections,
            buffer_bytes: 65_536,
            seed: 9,
        };
        assert!(SimulatedServer::attach(&mut world, server, &options));
        let client = Stack::new(&mut world, a, 7, Instant::ZERO);
        let mut engine: Engine<World> = Engine::new(world);
        engine.with(|world, agenda| world.start(agenda));
        Self {
            engine,
            client,
            server,
            wake: Some(Instant::ZERO),
            next_port: 4_000,
        }
    }

    fn connect(&mut self, port: u16) -> SocketHandle {
        let world = &self.engine.model;
        let at = world.port_of(self.server).unwrap();
        let v6 = world.address_v6(at).map(|(address, _)| address.into());
        let address: IpAddr = v6.unwrap_or(world.address(at).into());
        let buffer = || SocketBuffer::new(vec![0; 65_536]);
        let handle = self.client.sockets.add(Socket::new(buffer(), buffer()));
        let (interface, sockets) = self.client.context();
        let socket = sockets.get_mut::<Socket>(handle);
        socket
            .connect(interface.context(), (address, port), self.next_port)
            .unwrap();
        self.next_port += 1;
        self.wake = Some(self.engine.now());
        handle
    }

    fn socket(&mut self, handle: SocketHandle) -> &mut Socket<'static> {
        self.client.sockets.get_mut(handle)
    }

    /// Runs as long as `each` returns true.
    fn run(&mut self, mut each: impl FnMut(&mut Stack) -> bool) {
        let until = self.engine.now() + Duration::from_s(300);
        while each(&mut self.client) {
            let next = self.engine.next_wake().into_iter().chain(self.wake).min();
            let next = next.expect("something is always to come while a peer waits");
            assert!(
                next < until,
                "nothing came of it: {:?} {:?}",
                self.engine.model.counters(),
                SimulatedServer::at(&self.engine.model, self.server)
            );
            self.engine.run_until(next, u64::MAX);
            while let Some(packet) = self.engine.model.take_raw(|_, _, bytes| bytes.to_vec()) {
                self.client.handle_packet(&packet);
            }
            let client = &mut self.client;
            self.wake = self.engine.with(|world, agenda| client.poll(world, agenda));
        }
    }

    /// Sends `what` on socket `handle`. Then reads until `expected` bytes have arrived; for `None`,
    /// until the server closes the connection or stays without an answer.
    fn say(&mut self, handle: SocketHandle, what: &[u8], expected: Option<usize>) -> Vec<u8> {
        let (mut offset, mut heard) = (0, Vec::new());
        self.run(|client| {
            let socket = client.sockets.get_mut::<Socket>(handle);
            if socket.can_send() && offset < what.len() {
                offset += socket.send_slice(&what[offset..]).unwrap();
            }
            while socket.can_recv() {
                heard.extend(socket.recv(|bytes| (bytes.len(), bytes.to_vec())).unwrap());
            }
            match expected {
                Some(length) => heard.len() < length || offset < what.len(),
                None => socket.may_recv() || socket.is_active() && !socket.may_send(),
            }
        });
        heard
    }

    fn stats(&self, index: usize) -> timeloom_net::server::ServiceStats {
        SimulatedServer::at(&self.engine.model, self.server)
            .unwrap()
            .services()[index]
            .2
    }
}

fn link() -> LinkConfig {
    bare(100 * MBIT, Duration::from_ms(1), 1_000)
}

#[test]
fn an_echo_gives_back_every_byte_also_over_a_lossy_link() {
    let lossy = Impairment {
        loss: 0.01,
        ..Impairment::default()
    };
    let what: Vec<u8> = (0..300_000u32)
        .map(|i| (i.wrapping_mul(i) >> 7) as u8)
        .collect();
    for link in [link(), link().with_impairment(lossy)] {
        let mut world = Pair::new(link, &[(7, Service::Echo)], 4);
        let handle = world.connect(7);
        assert!(world.say(handle, &what, Some(what.len())) == what);
        let stats = world.stats(0);
        assert_eq!((stats.received, stats.sent), (300_000, 300_000));
        world.socket(handle).close();
        world.say(handle, b"", None);
        assert_eq!(world.stats(0).connections, 1);
    }
}

#[test]
fn a_server_with_an_ipv6_address_sends_packets_of_the_least_mtu() {
    let narrow = link().with_mtu(1_300);
    let ends = ["fd00:1::2", "fd00:2::2"];
    let services = [(19, Service::Source(Some(200_000)))];
    let mut world = Pair::with(narrow, &services, 4, &ends);
    let handle = world.connect(19);
    assert_eq!(world.say(handle, b"", None).len(), 200_000);
    let counters = world.engine.model.counters();
    assert_eq!((counters.too_long, counters.icmp_errors), (0, 0));
}

#[test]
fn a_source_ends_when_it_has_sent_all_and_a_discard_takes_all() {
    let services = [
        (19, Service::Source(Some(2_000_000))),
        (9, Service::Discard),
    ];
    let mut world = Pair::new(link(), &services, 4);
    let source = world.connect(19);
    let began = world.engine.now();
    let heard = world.say(source, b"", None);
    assert_eq!(heard.len(), 2_000_000);
    assert!(heard.starts_with(b"Timeloom0123"));
    let took = (world.engine.now() - began).as_s_f64();
    let mbit = 16.0 / took;
    // A window of 64 KiB is sufficient for the link's rate at a round-trip time of 2 ms.
    assert!((60.0..97.4).contains(&mbit), "{mbit} Mbit/s");

    let sink = world.connect(9);
    world.say(sink, &[1; 500_000], Some(0));
    world.socket(sink).close();
    world.say(sink, b"", None);
    assert_eq!(world.stats(1).received, 500_000);
}

#[test]
fn http_serves_pages_takes_uploads_and_keeps_the_connection() {
    let mut world = Pair::new(link(), &[(80, Service::Http(1_000))], 4);
    let handle = world.connect(80);
    let head = |length: usize, keep: &str| {
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: {keep}\r\n\r\n"
        )
    };
    let page = head(1_000, "keep-alive");
    let heard = world.say(
        handle,
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        Some(page.len() + 1_000),
    );
    assert!(heard.starts_with(page.as_bytes()) && heard.len() == page.len() + 1_000);
    // Two requests at once; the second one is sent in two parts.
    let two = b"HEAD /77 HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab";
    let first = head(77, "keep-alive");
    let heard = world.say(handle, two, Some(first.len()));
    assert_eq!(String::from_utf8(heard).unwrap(), first);
    let answer = head(14, "keep-alive") + "5 bytes came\n";
    let answer = answer.replace("Length: 14", "Length: 13");
    let heard = world.say(handle, b"cde", Some(answer.len()));
    assert_eq!(String::from_utf8(heard).unwrap(), answer);
    let bad = world.say(handle, b"nonsense\r\n\r\n", None);
    assert!(bad.starts_with(b"HTTP/1.1 400 "), "{bad:?}");
    assert_eq!(world.stats(0).requests, 4);
}

#[test]
fn more_connections_than_allowed_are_refused_until_one_ends() {
    let mut world = Pair::new(link(), &[(7, Service::Echo)], 2);
    let handles = [(); 3].map(|()| {
        let handle = world.connect(7);
        world.run(|client| {
            let socket = client.sockets.get_mut::<Socket>(handle);
            socket.is_active() && !socket.may_send()
        });
        handle
    });
    let open = handles.map(|handle| world.socket(handle).is_active());
    assert_eq!(open, [true, true, false]);
    world.socket(handles[0]).close();
    world.say(handles[0], b"", None);
    let again = world.connect(7);
    assert_eq!(world.say(again, b"hello", Some(5)), b"hello");
}

#[test]
fn other_ports_are_closed_and_vanished_clients_are_given_up() {
    let mut world = Pair::new(link(), &[(7, Service::Echo)], 1);
    let refused = world.connect(8);
    world.say(refused, b"", None);
    assert!(!world.socket(refused).is_active());

    let vanishing = world.connect(7);
    assert_eq!(world.say(vanishing, b"hi", Some(2)), b"hi");
    world.client.sockets.remove(vanishing);
    world.wake = None;
    // From now on no packets are taken out, so none is answered.
    let until = world.engine.now() + Duration::from_s(200);
    world.engine.run_until(until, u64::MAX);
    while world.engine.model.take_raw(|_, _, _| ()).is_some() {}
    let again = world.connect(7);
    assert_eq!(world.say(again, b"ho", Some(2)), b"ho");
    assert!(world.engine.now() > ms(200_000));
}

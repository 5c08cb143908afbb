//! Tests of two engines, A and B, over a network that the test controls.

use timeloom_emulation::peering::codec::Statics;
use timeloom_emulation::peering::datagram::Key;
use timeloom_emulation::peering::peer::{Datagrams, Peer, PeerConfig, PeerEvent};
use timeloom_net::topology::dumbbell;
use timeloom_net::{LinkConfig, NetworkBuilder, Packet, PacketKind, PortId, TcpConfig};
use timeloom_time::{Duration, Instant, Wall};

struct Pair {
    a: Peer,
    b: Peer,
    now: Instant<Wall>,
    statics: Statics,
    /// Datagrams that A has sent and that are not delivered yet.
    wire: Vec<Vec<u8>>,
    got: Vec<u32>,
    events: Vec<PeerEvent>,
}

const KEY: [u8; 32] = [9; 32];

fn peer(here: u16, there: u16, epoch: u64) -> Peer {
    Peer::new(here, there, Key::new(KEY), epoch, PeerConfig::default())
}

impl Pair {
    fn new() -> Self {
        let mut network = NetworkBuilder::new(1);
        let link = LinkConfig::new(1_000_000_000, Duration::from_ms(1));
        let ends = dumbbell(&mut network, "", 2, &link, &link);
        let mut world = network.build().unwrap();
        let config = TcpConfig::default();
        world.add_tcp(ends.left[0], ends.right[0], config).unwrap();
        Self {
            a: peer(0, 1, 100),
            b: peer(1, 0, 200),
            now: Instant::from_ns(1_000),
            statics: Statics::of(&world),
            wire: Vec::new(),
            got: Vec::new(),
            events: Vec::new(),
        }
    }

    fn joined() -> Self {
        let mut pair = Self::new();
        for _ in 0..4 {
            pair.step(Duration::from_us(10));
        }
        assert!(pair.a.is_present() && pair.b.is_present());
        pair
    }

    /// Delivers a datagram to B.
    fn give(&mut self, bytes: &[u8]) -> Option<PeerEvent> {
        let got = &mut self.got;
        self.b
            .handle_datagram(self.now, bytes, &self.statics, |packet, _| {
                got.push(packet.seq)
            })
    }

    /// Polls A; its datagrams go to the wire.
    fn speak(&mut self) {
        let mut out = Datagrams::default();
        self.a.poll(self.now, &mut out);
        self.wire.extend(out.iter().map(<[u8]>::to_vec));
    }

    /// Polls both engines and delivers their datagrams.
    fn step(&mut self, by: Duration) {
        self.now += by;
        self.speak();
        for datagram in core::mem::take(&mut self.wire) {
            let event = self.give(&datagram);
            self.events.extend(event);
        }
        let mut out = Datagrams::default();
        let event = self.b.poll(self.now, &mut out);
        self.events.extend(event);
        for datagram in out.iter() {
            self.a
                .handle_datagram(self.now, datagram, &self.statics, |_, _| ());
        }
    }

    fn put(&mut self, seq: u32) {
        let mut packet = Packet::new(PacketKind::TcpData, PortId(2), PortId(4), 0, 1500);
        packet.seq = seq;
        packet.at = Instant::from_ns(i64::from(seq) * 1_000);
        let mut out = Datagrams::default();
        let slack = Duration::from_ms(1);
        self.a
            .put(self.now, &packet, &[], slack, &self.statics, &mut out);
        self.wire.extend(out.iter().map(<[u8]>::to_vec));
    }
}

#[test]
fn packets_wait_for_one_another_but_not_for_long() {
    let mut pair = Pair::joined();
    pair.put(1);
    pair.put(2);
    pair.speak();
    assert!(pair.wire.is_empty(), "they may wait for 50 us");
    let due = pair.a.next_wake();
    assert_eq!(due - pair.now, Duration::from_us(50));
    pair.step(Duration::from_us(50));
    assert_eq!(pair.got, [1, 2]);
    for seq in 3..2_000 {
        pair.put(seq);
    }
    let lengths: Vec<usize> = pair.wire.iter().map(Vec::len).collect();
    assert!(
        lengths.len() > 5 && lengths.iter().all(|length| *length == 1_400),
        "{lengths:?}"
    );
}

#[test]
fn loss_order_and_repetition_are_counted() {
    let mut pair = Pair::joined();
    for seq in 0..5_000 {
        pair.put(seq);
    }
    let sent = core::mem::take(&mut pair.wire);
    assert!(sent.len() > 10);
    let before = pair.b.stats().datagrams_received;
    pair.give(&sent[0]);
    // The second datagram is lost, the third overtakes the fourth, and the first is replayed.
    pair.give(&sent[3]);
    pair.give(&sent[2]);
    pair.give(&sent[0]);
    let stats = pair.b.stats();
    assert_eq!((stats.lost, stats.reordered, stats.repeated), (1, 1, 1));
    assert_eq!(stats.datagrams_received - before, 3, "{stats:?}");
    let mut sorted = pair.got.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), pair.got.len(), "nothing twice");
}

#[test]
fn strangers_are_dropped_and_counted() {
    let mut pair = Pair::joined();
    pair.put(1);
    pair.now += Duration::from_ms(1);
    pair.speak();
    let own = pair.wire.pop().unwrap();
    for at in [0, 5, 9, 20, 40, own.len() - 1] {
        let mut forged = own.clone();
        forged[at] ^= 1;
        assert_eq!(pair.give(&forged), None);
    }
    pair.give(b"");
    pair.give(&[0; 70_000]);
    assert_eq!(pair.b.stats().hostile, 8);
    assert!(pair.got.is_empty());
    pair.give(&own);
    assert_eq!(pair.got, [1]);
}

#[test]
fn one_that_vanishes_leaves_and_comes_back() {
    let mut pair = Pair::joined();
    pair.events.clear();
    pair.put(1);
    pair.step(Duration::from_us(60));
    pair.put(2);
    pair.now += Duration::from_us(60);
    pair.speak();
    let recorded = pair.wire.clone();
    pair.step(Duration::from_us(1));
    // A is silent for a second.
    for _ in 0..20 {
        pair.now += Duration::from_ms(50);
        let event = pair.b.poll(pair.now, &mut Datagrams::default());
        pair.events.extend(event);
    }
    assert_eq!(pair.events, [PeerEvent::Left]);
    assert!(!pair.b.is_present());
    // Recorded datagrams of A do not make it present again.
    for datagram in &recorded {
        assert_eq!(pair.give(datagram), None);
    }
    assert_eq!(pair.got, [1, 2]);
    // New datagrams of A do.
    pair.step(Duration::from_ms(1));
    pair.step(Duration::from_ms(1));
    assert_eq!(pair.events, [PeerEvent::Left, PeerEvent::Joined]);
}

#[test]
fn one_that_starts_again_is_a_new_one() {
    let mut pair = Pair::joined();
    for seq in 0..3_000 {
        pair.put(seq);
    }
    let recorded = core::mem::take(&mut pair.wire);
    pair.events.clear();
    pair.a = peer(0, 1, 101);
    for _ in 0..4 {
        pair.step(Duration::from_ms(1));
    }
    assert!(pair.a.is_present() && pair.b.is_present());
    assert_eq!(pair.events.last(), Some(&PeerEvent::Returned));
    // Datagrams of A's earlier generation are ignored.
    let before = pair.b.stats().stale;
    for datagram in &recorded {
        assert_eq!(pair.give(datagram), None);
    }
    assert!(pair.got.is_empty());
    assert_eq!(pair.b.stats().stale - before, recorded.len() as u64);
    // The same holds for datagrams to an earlier generation of B.
    pair.put(7);
    pair.now += Duration::from_ms(1);
    pair.speak();
    let old = core::mem::take(&mut pair.wire);
    pair.b = peer(1, 0, 201);
    old.iter()
        .for_each(|datagram| assert_eq!(pair.give(datagram), None));
    assert!(pair.got.is_empty());
}

#[test]
fn one_that_is_known_to_be_dead_is_gone_at_once_and_its_next_life_joins() {
    let mut pair = Pair::joined();
    pair.put(1);
    pair.now += Duration::from_us(60);
    pair.speak();
    let said = core::mem::take(&mut pair.wire);
    assert_eq!(pair.b.mark_dead(100), Some(PeerEvent::Left));
    assert!(!pair.b.is_present());
    for datagram in &said {
        assert_eq!(
            pair.give(datagram),
            None,
            "it does not rise by what it said"
        );
    }
    assert!(pair.got.is_empty());
    pair.a = peer(0, 1, 150);
    for _ in 0..4 {
        pair.step(Duration::from_ms(1));
    }
    assert!(pair.a.is_present() && pair.b.is_present());
    assert_eq!(pair.events.last(), Some(&PeerEvent::Returned));
    // A late report that the earlier generation has died does not affect the next one.
    assert_eq!(pair.b.mark_dead(100), None);
    assert!(pair.b.is_present());
    pair.put(2);
    pair.step(Duration::from_us(60));
    assert_eq!(pair.got, [2]);
}

#[test]
fn packets_sent_after_the_last_answer_of_a_dead_peer_are_counted() {
    let mut pair = Pair::joined();
    pair.put(1);
    pair.step(Duration::from_us(60));
    // B does not answer this packet or the next two before it dies, and the last of them still
    // waits to be sent.
    for seq in [2, 3] {
        pair.put(seq);
    }
    pair.now += Duration::from_us(60);
    pair.speak();
    pair.put(4);
    let before = pair.a.stats();
    assert_eq!((before.unconfirmed, before.dropped_away), (0, 0));
    assert_eq!(pair.a.mark_dead(200), Some(PeerEvent::Left));
    let stats = pair.a.stats();
    assert_eq!((stats.unconfirmed, stats.dropped_away), (3, 1));
}

#[test]
fn a_peer_that_closes_is_gone_at_once() {
    let mut pair = Pair::joined();
    pair.put(1);
    let mut out = Datagrams::default();
    pair.a.close(pair.now, &mut out);
    let datagrams: Vec<_> = out.iter().map(<[u8]>::to_vec).collect();
    let events: Vec<_> = datagrams.iter().map(|bytes| pair.give(bytes)).collect();
    assert_eq!(events, [None, Some(PeerEvent::Left)]);
    assert_eq!(pair.got, [1]);
    let dropped = pair.a.stats().dropped_away;
    pair.put(2);
    assert_eq!(pair.a.stats().dropped_away, dropped + 1);
}

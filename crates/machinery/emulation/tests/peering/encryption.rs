//! Tests of datagrams whose content only holders of the key can read.

use timeloom_emulation::peering::codec::Statics;
use timeloom_emulation::peering::datagram::{DatagramHeader, Key};
use timeloom_emulation::peering::peer::{Datagrams, Peer, PeerConfig};
use timeloom_net::{Packet, PacketKind, PortId};
use timeloom_time::{Duration, Instant, Wall};

const HEADER: DatagramHeader = DatagramHeader {
    hello: false,
    farewell: false,
    compressed: false,
    from: 1,
    to: 2,
    from_epoch: 10,
    to_epoch: 20,
    number: 5,
};

fn written(header: DatagramHeader, key: &Key) -> Vec<u8> {
    let mut out = Vec::new();
    header.write(b"what no other may read", 0, key, &mut out);
    out
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn encrypted_content_is_unreadable_without_the_key() {
    let (sealing, encrypting) = (Key::new([3; 32]), Key::encrypting([3; 32]));
    assert!(has(&written(HEADER, &sealing), b"no other"));
    let out = written(HEADER, &encrypting);
    for part in b"what no other may read".windows(4) {
        assert!(!has(&out, part), "{part:?}");
    }
    let mut plain = Vec::new();
    let (read, body) =
        DatagramHeader::read(&out, 2, 1, &encrypting, &mut plain).expect("it has the key");
    assert_eq!((read, body), (HEADER, &b"what no other may read"[..]));
    // The same content gives other bytes for another number, generation or direction.
    let others = [
        DatagramHeader {
            number: 6,
            ..HEADER
        },
        DatagramHeader {
            from_epoch: 11,
            ..HEADER
        },
        DatagramHeader {
            from: 2,
            to: 1,
            ..HEADER
        },
    ];
    for other in others {
        let other = written(other, &encrypting);
        let alike = out[32..57].iter().zip(&other[32..57]);
        let alike = alike.filter(|(a, b)| a == b).count();
        assert!(alike < 10, "{alike} of 25 bytes");
    }
}

#[test]
fn altered_or_unencrypted_datagrams_are_refused() {
    let key = Key::encrypting([3; 32]);
    let out = written(HEADER, &key);
    let mut plain = Vec::new();
    for at in 0..out.len() {
        for bit in 0..8 {
            let mut forged = out.clone();
            forged[at] ^= 1 << bit;
            let read = DatagramHeader::read(&forged, 2, 1, &key, &mut plain);
            assert!(read.is_none(), "byte {at} bit {bit}");
        }
    }
    for length in 0..out.len() {
        assert!(DatagramHeader::read(&out[..length], 2, 1, &key, &mut plain).is_none());
    }
    for (text, key) in [
        (&out, Key::encrypting([4; 32])),
        (&out, Key::new([3; 32])),
        (&written(HEADER, &Key::new([3; 32])), key),
    ] {
        assert!(DatagramHeader::read(text, 2, 1, &key, &mut plain).is_none());
    }
}

/// Returns all datagrams that `peer` sends until `now`.
fn spoken(peer: &mut Peer, now: Instant<Wall>) -> Vec<Vec<u8>> {
    let mut out = Datagrams::default();
    peer.poll(now, &mut out);
    out.iter().map(<[u8]>::to_vec).collect()
}

#[test]
fn a_frame_crosses_unseen_and_only_once() {
    let world = crate::small::world(6);
    let statics = Statics::of(&world);
    let key = Key::encrypting([7; 32]);
    let config = PeerConfig::default();
    let mut a = Peer::new(0, 1, key.clone(), 100, config);
    let mut b = Peer::new(1, 0, key, 200, config);
    let mut now = Instant::from_ns(1_000);
    for _ in 0..4 {
        now += Duration::from_us(10);
        for datagram in spoken(&mut a, now) {
            b.handle_datagram(now, &datagram, &statics, |_, _| ());
        }
        for datagram in spoken(&mut b, now) {
            a.handle_datagram(now, &datagram, &statics, |_, _| ());
        }
    }
    assert!(a.is_present() && b.is_present());
    let frame = b"GET /the/secret/page HTTP/1.1\r\n";
    let mut packet = Packet::new(PacketKind::Raw, PortId(2), PortId(4), 0, frame.len() as u16);
    packet.at = Instant::from_ns(1_000);
    let mut out = Datagrams::default();
    a.put(
        now,
        &packet,
        frame,
        Duration::from_ms(1),
        &statics,
        &mut out,
    );
    now += Duration::from_ms(1);
    let wire = spoken(&mut a, now);
    assert!(!wire.is_empty());
    let mut got = Vec::new();
    for datagram in &wire {
        assert!(!has(datagram, b"secret"));
        b.handle_datagram(now, datagram, &statics, |_, bytes| got.push(bytes.to_vec()));
    }
    assert_eq!(got, [frame]);
    // Recorded datagrams that are sent again are ignored.
    for datagram in &wire {
        b.handle_datagram(now, datagram, &statics, |_, _| panic!("heard twice"));
    }
    assert_eq!(b.stats().repeated, wire.len() as u64);
    assert_eq!((b.stats().hostile, b.stats().stale), (0, 0));
}

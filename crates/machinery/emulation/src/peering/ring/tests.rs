use super::*;
use crate::peering::peer::{PeerConfig, PeerEvent};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use timeloom_net::PortId;
use timeloom_time::{Duration, Instant, Wall};

const NOW: Instant<Wall> = Instant::from_ns(1_000_000);

/// Returns the packet with this number; one in three is real.
fn packet(number: u32) -> (Packet, Vec<u8>) {
    let kind = if number.is_multiple_of(3) {
        PacketKind::Raw
    } else {
        PacketKind::Udp
    };
    let size = 20 + (number % 50) as u16;
    let mut packet = Packet::new(kind, PortId(0), PortId(2), number, size);
    packet.seq = number;
    let real = kind == PacketKind::Raw;
    let bytes = vec![number as u8; if real { size.into() } else { 0 }];
    (packet, bytes)
}

/// Creates the two ends of a ring, which have already detected each other's presence.
fn pair(packets: usize) -> (Neighbour, Neighbour) {
    let (a, b) = Ring::pair(packets).unwrap();
    let config = PeerConfig::default();
    let (mut a, mut b) = (Neighbour::new(1, a, config), Neighbour::new(0, b, config));
    assert_eq!(a.poll(NOW), None, "the neighbour has not appeared");
    assert_eq!(b.poll(NOW), Some(PeerEvent::Joined));
    assert_eq!(a.poll(NOW), Some(PeerEvent::Joined));
    (a, b)
}

fn put(neighbour: &mut Neighbour, numbers: core::ops::Range<u32>) {
    for number in numbers {
        let (packet, bytes) = packet(number);
        neighbour.put(&packet, &bytes);
    }
    neighbour.poll(NOW);
}

/// Returns the numbers of the packets received, and checks the bytes of each.
fn taken(neighbour: &mut Neighbour) -> Vec<u32> {
    let mut numbers = Vec::new();
    neighbour.receive(|found, bytes| {
        let (expected, carried) = packet(found.seq);
        assert_eq!((found.kind, found.size), (expected.kind, expected.size));
        assert_eq!(bytes, carried);
        numbers.push(found.seq);
    });
    numbers
}

#[test]
fn packets_come_out_at_the_other_thread_in_their_order_with_their_bytes() {
    let many = if cfg!(miri) { 60 } else { 200_000 };
    let (mut a, mut b) = pair(16);
    let sender = std::thread::spawn(move || {
        let mut sent = 0;
        while sent < many {
            let until = many.min(sent + 1 + sent % 7);
            put(&mut a, sent..until);
            sent = until;
            while a.ring.out.slots() < 8 || a.ring.out_bytes.slots() < 1_000 {
                std::thread::yield_now();
            }
        }
        a.stats()
    });
    let mut next = 0;
    while next < many {
        for number in taken(&mut b) {
            assert_eq!(number, next);
            next += 1;
        }
        std::thread::yield_now();
    }
    let sent = sender.join().unwrap();
    assert_eq!((sent.packets_sent, sent.dropped_full), (many.into(), 0));
    assert_eq!(b.stats().packets_received, u64::from(many));
}

#[test]
fn packets_without_room_are_counted_and_leave_no_bytes() {
    let (mut a, mut b) = pair(4);
    put(&mut a, 0..10);
    assert_eq!((a.stats().packets_sent, a.stats().dropped_full), (4, 6));
    assert_eq!(taken(&mut b), [0, 1, 2, 3]);
    put(&mut a, 9..12);
    assert_eq!(taken(&mut b), [9, 10, 11]);
    // The ring of bytes becomes full as well: its 64 KiB hold two of these packets.
    let large = Packet::new(PacketKind::Raw, PortId(0), PortId(2), 0, 30_000);
    for _ in 0..3 {
        a.put(&large, &[7; 30_000]);
    }
    a.poll(NOW);
    assert_eq!(a.stats().dropped_full, 7);
    let mut sizes = Vec::new();
    b.receive(|_, bytes| sizes.push(bytes.len()));
    assert_eq!(sizes, [30_000; 2]);
}

#[test]
fn one_that_goes_or_falls_silent_is_away() {
    let (mut a, mut b) = pair(4);
    b.close(NOW);
    assert_eq!(a.poll(NOW), Some(PeerEvent::Left));
    put(&mut a, 0..2);
    // After a farewell the engine has ended properly, so no packet counts as missing.
    assert_eq!((a.stats().dropped_away, a.stats().vanished), (0, 0));

    let (mut a, mut b) = pair(4);
    let later = NOW + a.config().silence + Duration::from_ms(1);
    assert_eq!(a.poll(later), Some(PeerEvent::Left));
    assert_eq!(a.stats().vanished, 1);
    assert_eq!(b.poll(later), None, "it has heard of a just now");
    assert_eq!(a.poll(later), Some(PeerEvent::Joined));
    drop(b);
    assert_eq!(
        a.poll(later),
        Some(PeerEvent::Left),
        "dropped without a word"
    );
    put(&mut a, 0..2);
    assert_eq!(a.stats().dropped_away, 2);
}

#[test]
#[cfg_attr(miri, ignore = "Miri knows no poll")]
fn a_sleeper_is_woken_by_packets() {
    let (mut a, mut b) = pair(4);
    put(&mut a, 0..1);
    assert!(!b.doze(), "something is there");
    b.wake();
    assert_eq!(taken(&mut b), [0]);
    assert!(b.doze());
    put(&mut a, 1..2);
    let ready = |b: &Neighbour, timeout: Option<&Timespec>| {
        let mut asked = [PollFd::from_borrowed_fd(b.descriptor(), PollFlags::IN)];
        poll(&mut asked, timeout)
    };
    assert_eq!(ready(&b, None), Ok(1));
    b.wake();
    assert_eq!(taken(&mut b), [1]);
    // An awake receiver is not signalled.
    put(&mut a, 2..3);
    assert_eq!(ready(&b, Some(&Timespec::default())), Ok(0));
}

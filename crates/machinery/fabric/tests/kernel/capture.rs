//! Tests of captures.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use timeloom_fabric::{CaptureOptions, CapturedFrame, Direction, Namespace, PacketCapture};
use timeloom_sys::{batch, interface, packet, wall_now};
use timeloom_time::Duration as Length;

use crate::world::{H1, H2, build, host, line, ping};

fn ether_type(frame: &CapturedFrame) -> u16 {
    u16::from_be_bytes([frame.bytes[12], frame.bytes[13]])
}

/// Returns the folded ones' complement sum over 16-bit words. It is 0xffff if the checksum among
/// them is correct.
fn sum(parts: &[&[u8]]) -> u32 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let mut total: u32 = words
        .map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |low| u32::from(*low)))
        .sum();
    while total > 0xffff {
        total = (total >> 16) + (total & 0xffff);
    }
    total
}

#[test]
fn an_exchange_is_seen_in_order_with_true_times() {
    let fabric = build(&line(2, None));
    let tap = fabric.link_interface("h1", "s1").unwrap();
    let (capture, frames) = PacketCapture::start(tap.namespace, tap.interface).unwrap();
    let before = wall_now();
    ping(host(&fabric, "h1"), H2, Duration::from_secs(1)).expect("a reply");
    let after = wall_now();
    let statistics = capture.stop();
    println!("{statistics:?}");
    assert_eq!(statistics.dropped_by_kernel, 0);
    assert_eq!(statistics.clock_steps, 0);
    assert!(
        statistics.clock_error < Length::from_us(50),
        "{statistics:?}"
    );

    let frames: Vec<_> = frames.iter().collect();
    let seen: Vec<_> = frames
        .iter()
        .map(|f| (ether_type(f), f.direction))
        .collect();
    let (arp, ip) = (0x0806, 0x0800);
    let (to_switch, to_host) = (Direction::Inbound, Direction::Outbound);
    assert_eq!(
        seen[..4],
        [
            (arp, to_switch),
            (arp, to_host),
            (ip, to_switch),
            (ip, to_host)
        ]
    );
    assert_eq!(frames[0].bytes[6..12], fabric.mac("h1").unwrap().0);
    for pair in frames.windows(2) {
        assert!(pair[0].at <= pair[1].at);
    }
    for frame in &frames[..4] {
        assert!(
            frame.at >= before - statistics.clock_error,
            "{:?} {before:?}",
            frame.at
        );
        assert!(
            frame.at <= after + statistics.clock_error,
            "{:?} {after:?}",
            frame.at
        );
        assert_eq!(frame.bytes.len(), frame.original_len as usize);
    }
}

#[test]
fn a_frame_is_stamped_anew_at_every_hop() {
    let fabric = build(&line(3, None));
    let fabric_namespace = fabric.fabric_namespace();
    let hops = ["s1-h1", "s2-s1", "s3-s2", "s3-h2"];
    let captures = hops.map(|hop| PacketCapture::start(fabric_namespace, hop).unwrap());
    ping(host(&fabric, "h1"), H2, Duration::from_secs(1)).expect("a reply");
    let times = captures.map(|(capture, frames)| {
        capture.stop();
        let to_h2 = |frame: &CapturedFrame| {
            ether_type(frame) == 0x0800 && frame.bytes[30..34] == H2.octets()
        };
        frames.iter().find(to_h2).expect("the echo request").at
    });
    println!("{times:?}");
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
}

#[test]
fn tcp_looks_as_on_a_wire() {
    let fabric = build(&line(1, None));
    let listener = host(&fabric, "h2").tcp_listener((H2, 502)).unwrap();
    let tap = fabric.link_interface("h2", "s1").unwrap();
    let (capture, frames) = PacketCapture::start(tap.namespace, tap.interface).unwrap();
    let mut client = host(&fabric, "h1")
        .run(|| TcpStream::connect((H2, 502)))
        .unwrap()
        .unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let sender = std::thread::spawn(move || client.write_all(&vec![7; 1_000_000]).unwrap());
    let mut received = Vec::new();
    server.read_to_end(&mut received).unwrap();
    sender.join().unwrap();
    let statistics = capture.stop();
    assert_eq!(statistics.dropped_by_kernel, 0);
    let mut segments = 0;
    for frame in frames.iter().filter(|frame| ether_type(frame) == 0x0800) {
        assert!(
            frame.original_len <= 1514,
            "a frame of {} bytes",
            frame.original_len
        );
        let ip = &frame.bytes
            [14..14 + usize::from(u16::from_be_bytes([frame.bytes[16], frame.bytes[17]]))];
        assert_eq!(ip[9], 6, "TCP only");
        let tcp_len = (ip.len() - 20) as u16;
        let checksum = sum(&[&ip[12..20], &[0, 6], &tcp_len.to_be_bytes(), &ip[20..]]);
        assert_eq!(checksum, 0xffff, "TCP checksum of frame {segments}");
        segments += 1;
    }
    assert!(segments > 690, "{segments}");
}

/// Programs such as QUIC stacks pass many datagrams to the kernel in one call.
#[test]
fn datagrams_sent_in_bulk_are_frames_of_their_own() {
    let fabric = build(&line(1, Some(100_000_000)));
    let tap = fabric.link_interface("h1", "s1").unwrap();
    let (capture, frames) = PacketCapture::start(tap.namespace, tap.interface).unwrap();
    let h1 = host(&fabric, "h1").udp_socket((H1, 0)).unwrap();
    batch::cut_into(&h1, 1000).unwrap();
    h1.send_to(&[7; 5000], (H2, 9)).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    capture.stop();
    let from_h1 = |f: &&CapturedFrame| f.direction == Direction::Inbound && ether_type(f) == 0x0800;
    let all: Vec<_> = frames.iter().collect();
    let lengths: Vec<_> = all
        .iter()
        .filter(from_h1)
        .map(|frame| frame.original_len)
        .collect();
    assert_eq!(lengths, [1042; 5]);
}

#[test]
fn frames_are_cut_and_losses_counted() {
    let fabric = build(&line(1, None));
    let tap = fabric.link_interface("h1", "s1").unwrap();
    let options = CaptureOptions {
        snap_len: 64,
        kernel_buffer_bytes: 16 << 10,
    };
    let (sender, frames) = std::sync::mpsc::channel();
    let slow = move |frame| {
        std::thread::sleep(Duration::from_millis(1));
        let _ = sender.send(frame);
    };
    let capture = PacketCapture::start_with(tap.namespace, tap.interface, options, slow).unwrap();
    let h1 = host(&fabric, "h1").udp_socket((H1, 0)).unwrap();
    for _ in 0..500 {
        h1.send_to(&[0; 1000], (H2, 9)).unwrap();
    }
    let statistics = capture.stop();
    println!("{statistics:?}");
    assert!(statistics.dropped_by_kernel > 0);
    let frames: Vec<_> = frames.iter().collect();
    assert_eq!(frames.len() as u64, statistics.delivered);
    let datagram = frames
        .iter()
        .find(|frame| ether_type(frame) == 0x0800)
        .expect("one datagram");
    assert_eq!((datagram.bytes.len(), datagram.original_len), (64, 1042));
}

/// A device model may use a layer-2 protocol with a VLAN priority, as IEC 61850 GOOSE does. The tag
/// must be in the capture, although the kernel removes it from the frame on the way.
#[test]
fn vlan_tags_are_kept() {
    let fabric = build(&line(1, None));
    let (capture, frames) = PacketCapture::start(host(&fabric, "h2"), "eth0").unwrap();
    let mut frame = vec![0x01, 0x0c, 0xcd, 0x01, 0x00, 0x01];
    frame.extend(fabric.mac("h1").unwrap().0);
    frame.extend([0x81, 0x00, 0x80, 0x00, 0x88, 0xb8]);
    frame.extend([0x55; 60]);
    send_raw(host(&fabric, "h1"), &frame);
    std::thread::sleep(Duration::from_millis(50));
    capture.stop();
    let seen: Vec<_> = frames.iter().collect();
    assert!(
        seen.iter()
            .any(|seen| seen.bytes == frame && seen.original_len == 78),
        "{seen:02x?}"
    );
}

fn send_raw(from: &Namespace, frame: &[u8]) {
    from.run(|| {
        let raw = packet::open().expect("a packet socket");
        let eth0 = interface::index_of("eth0").expect("eth0");
        packet::send(&raw, frame, eth0, 0).expect("send");
    })
    .expect("enter the namespace");
}

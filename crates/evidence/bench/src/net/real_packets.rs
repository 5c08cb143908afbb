//! Packets with all their bytes between hosts of the model, like packets from portals. Residents
//! send datagrams, and other residents count them.

use std::net::Ipv4Addr;

use timeloom_net::{FrameView, Node, Outgoing, ReceivedFrame, Resident, World};
use timeloom_time::{Duration, Instant, Virtual};

/// Size of a packet in bytes from the IP header on; the item below is the interval between two
/// packets, which gives 100 Mbit/s.
const BYTES: u16 = 1_000;
const EVERY: Duration = Duration::from_us(80);

#[derive(Debug)]
struct Caller {
    packet: Vec<u8>,
    next: Instant<Virtual>,
}

#[derive(Debug, Default)]
struct Listener {
    packets: u64,
}

/// Makes host `from` send datagrams to host `to` continuously.
pub(super) fn send(world: &mut World, from: Node, to: Node) {
    let address = |node| world.port_of(node).map(|port| world.address(port));
    let (Some(source), Some(target)) = (address(from), address(to)) else {
        return;
    };
    let caller = Caller {
        packet: datagram(source, target),
        next: Instant::from_ns(i64::from(from.0) * 7_919),
    };
    world.attach(from, Box::new(caller));
    world.attach(to, Box::new(Listener::default()));
}

/// Returns the number of such packets that nodes of this world have received.
pub(super) fn received(world: &World) -> u64 {
    let nodes = (0..world.nodes() as u32).map(Node);
    let listeners = nodes.filter_map(|node| {
        let resident: &dyn std::any::Any = world.resident(node)?;
        resident.downcast_ref::<Listener>()
    });
    listeners.map(|listener| listener.packets).sum()
}

/// Returns an IPv4 packet (RFC 791) with a UDP datagram (RFC 768) to port 9, without a UDP
/// checksum.
fn datagram(source: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let mut packet = vec![0; usize::from(BYTES)];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&BYTES.to_be_bytes());
    (packet[8], packet[9]) = (64, 17);
    packet[12..16].copy_from_slice(&source.octets());
    packet[16..20].copy_from_slice(&target.octets());
    let words = packet[..20].chunks(2);
    let sum: u32 = words
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    packet[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    packet[20..22].copy_from_slice(&9u16.to_be_bytes());
    packet[22..24].copy_from_slice(&9u16.to_be_bytes());
    packet[24..26].copy_from_slice(&(BYTES - 20).to_be_bytes());
    packet
}

impl Resident for Caller {
    fn wants(&self, _: &FrameView<'_>) -> bool {
        false
    }

    fn handle_frame(&mut self, _: Instant<Virtual>, _: &ReceivedFrame<'_>, _: &mut Outgoing) {}

    fn handle_wake(&mut self, now: Instant<Virtual>, out: &mut Outgoing) {
        if now >= self.next {
            out.send_packet(self.packet.clone());
            self.next += EVERY;
        }
    }

    fn next_wake(&self) -> Option<Instant<Virtual>> {
        Some(self.next)
    }
}

impl Resident for Listener {
    fn wants(&self, frame: &FrameView<'_>) -> bool {
        frame.ethertype == 0x0800
    }

    fn handle_frame(&mut self, _: Instant<Virtual>, _: &ReceivedFrame<'_>, _: &mut Outgoing) {
        self.packets += 1;
    }

    fn handle_wake(&mut self, _: Instant<Virtual>, _: &mut Outgoing) {}

    fn next_wake(&self) -> Option<Instant<Virtual>> {
        None
    }
}

//! Compression of real packets between two engines: its savings and its cost, by the size of
//! datagrams.
//!
//! Simulated packets have no payload, and are encoded by their differences (`wire`). Real packets
//! are sent with all their bytes, several in a datagram; LZ4 removes what they have in common:
//! headers, and data that the program repeats.

use timeloom_emulation::peering::codec::Statics;
use timeloom_emulation::peering::datagram::{DatagramBody, OVERHEAD};
use timeloom_engine::Random;
use timeloom_net::{Packet, PacketKind, PortId};
use timeloom_time::{Duration, Instant};

use super::model::thread_cpu_s;
use super::plot::Table;

/// Kind of payload that programs send.
#[derive(Clone, Copy)]
enum Payload {
    /// Responses of a field device to a read of ten registers.
    Registers,
    /// Lines of JSON as written by a service.
    Json,
    /// Encrypted data, in which nothing repeats.
    Random,
}

const PAYLOADS: [Payload; 3] = [Payload::Registers, Payload::Json, Payload::Random];
/// Number of packets in each measurement.
const PACKETS: usize = 20_000;

pub(super) fn figure() -> Table {
    let rows = [700usize, 1_400, 4_000, 9_000, 32_000].map(|datagram| {
        let found = PAYLOADS.map(|payload| {
            let (plain, compressed) = (
                measure(payload, datagram, false),
                measure(payload, datagram, true),
            );
            let saved = 100.0 * (1.0 - compressed.bytes as f64 / plain.bytes as f64);
            let cost = (compressed.cpu_s - plain.cpu_s) * 1e6 / PACKETS as f64;
            (saved, cost)
        });
        let row = found.iter().map(|(saved, _)| *saved);
        let row = row.chain(found.iter().map(|(_, cost)| *cost));
        (datagram as f64, row.collect())
    });
    Table {
        name: "compression",
        title: "Compressing what real programs send, between two engines",
        x: "bytes of a datagram",
        y: "per cent of bytes saved",
        log: true,
        columns: vec![
            "ten registers, 69 bytes",
            "JSON, 880 bytes",
            "encrypted, 880 bytes",
            "us of CPU per packet, registers",
            "us, JSON",
            "us, encrypted",
        ],
        beside: 3,
        rows: rows.into(),
    }
}

struct CompressionCost {
    bytes: usize,
    cpu_s: f64,
}

fn measure(payload: Payload, datagram: usize, compress: bool) -> CompressionCost {
    let mut random = Random::new(1, 0);
    let packets: Vec<Vec<u8>> = (0..PACKETS)
        .map(|number| packet(payload, number, &mut random))
        .collect();
    let statics = Statics::default();
    let (mut body, mut out, mut bytes) = (DatagramBody::default(), Vec::new(), 0);
    let cpu = thread_cpu_s();
    for (number, carried) in packets.iter().enumerate() {
        if !body.is_empty() && body.len() + carried.len() + 96 > datagram - OVERHEAD {
            out.clear();
            body.finish(compress, &mut out);
            bytes += out.len() + OVERHEAD;
        }
        let size = carried.len() as u16;
        let mut packet = Packet::new(PacketKind::Raw, PortId(1), PortId(2), 0, size);
        packet.at = Instant::ZERO + Duration::from_us(number as i64 * 10);
        body.put(&packet, carried, &statics);
    }
    CompressionCost {
        bytes,
        cpu_s: thread_cpu_s() - cpu,
    }
}

/// Returns a packet from its IP header on, with 40 bytes of headers and the payload.
fn packet(payload: Payload, number: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![
        0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, //
        0x13, 0x89, 0xc3, 0x50, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x18, 1, 0xf6, 0, 0, 0, 0,
    ];
    // Identification, checksums and sequence number differ from packet to packet.
    bytes[4..6].copy_from_slice(&(number as u16).to_be_bytes());
    bytes[10..12].copy_from_slice(&(random.bits() as u16).to_be_bytes());
    bytes[24..28].copy_from_slice(&((number * 840) as u32).to_be_bytes());
    bytes[36..38].copy_from_slice(&(random.bits() as u16).to_be_bytes());
    match payload {
        Payload::Registers => {
            bytes.extend_from_slice(&(number as u16).to_be_bytes());
            bytes.extend_from_slice(&[0, 0, 0, 23, 1, 3, 20]);
            for register in 0..10u64 {
                let value = 2_300 + 100 * register + random.below(16);
                bytes.extend_from_slice(&(value as u16).to_be_bytes());
            }
        }
        Payload::Json => {
            while bytes.len() < 880 {
                let line = format!(
                    "{{\"at\":{},\"bus\":{},\"volts\":{:.3},\"alarm\":false}}\n",
                    1_700_000_000 + number,
                    random.below(13),
                    230.0 + random.unit()
                );
                bytes.extend_from_slice(line.as_bytes());
            }
            bytes.truncate(880);
        }
        Payload::Random => {
            while bytes.len() < 880 {
                bytes.extend_from_slice(&random.bits().to_le_bytes());
            }
        }
    }
    let length = bytes.len() as u16;
    bytes[2..4].copy_from_slice(&length.to_be_bytes());
    bytes
}

//! Emulation portals between two engines, as in the paper's second arrangement. Each packet is a
//! whole frame with its full size on a cable between two interfaces. A raw packet socket, with one
//! call per frame, or libpcap ([`super::libpcap`]) writes and reads the frames.
//!
//! The payload of a frame contains the number of the model's packet and its due time. A portal to
//! real machines could not know the due time. With it, lateness can be counted as for the peering
//! portal, and this baseline has an advantage over the paper's.

use std::io;
use std::os::fd::BorrowedFd;

use timeloom_emulation::peering::Gateway;
use timeloom_emulation::peering::exact::PacketBatch;
use timeloom_emulation::peering::message::Messages;
use timeloom_emulation::{PacketOptions, PacketPort, Port, ReceiveResult, TxStatus};
use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Engine, Lateness, Limit};
use timeloom_fabric::{MacAddress, Namespace, Plug, connect};
use timeloom_net::{Frame, LARGE, OffloadedWork, World};
use timeloom_time::{Duration, Instant, Wall};

use super::free::{Came, Counted};
use super::libpcap::PcapPort;
use crate::error::BenchError;

/// A pair of veth interfaces in a namespace of its own.
pub(super) struct Cable(Namespace);

const ENDS: [(&str, u8); 2] = [("left", 1), ("right", 2)];

impl Cable {
    pub(super) fn new() -> Result<Self, BenchError> {
        let namespace = Namespace::quiet("frames").map_err(broken)?;
        let plug = |(interface, last)| Plug {
            namespace: &namespace,
            interface,
            mac: MacAddress([2, 0, 0, 0, 9, last]),
            address: None,
        };
        connect(&plug(ENDS[0]), &plug(ENDS[1])).map_err(broken)?;
        Ok(Self(namespace))
    }

    /// Opens a raw packet socket at each end.
    pub(super) fn sockets(&self) -> Result<Vec<PacketPort>, BenchError> {
        let options = PacketOptions {
            offloads: false,
            ..PacketOptions::default()
        };
        let open = |(name, _): &(&str, u8)| PacketPort::open(&self.0, name, options);
        let ports = ENDS.iter().map(open);
        ports.collect::<Result<_, _>>().map_err(broken)
    }

    /// Opens libpcap at each end.
    pub(super) fn captures(&self) -> Result<Vec<PcapPort>, BenchError> {
        let open = |(name, _): &(&str, u8)| PcapPort::open(&self.0, name);
        ENDS.iter().map(open).collect()
    }
}

fn broken(error: impl std::fmt::Display) -> BenchError {
    BenchError::Worker(format!("two engines on a cable: {error}"))
}

/// One engine's end of the cable.
pub(super) struct Frames<P> {
    port: P,
    messages: Messages,
    batch: PacketBatch,
    record: Vec<u8>,
    frame: Vec<u8>,
    buffer: Vec<u8>,
    taken: u64,
    late: u64,
    lateness: Lateness,
}

/// Ethernet header: destination, source and Ethertype. The Ethertype is that for local experiments
/// (IEEE 802), so that no kernel answers.
const ETHERNET: [u8; 14] = [2, 0, 0, 0, 9, 9, 2, 0, 0, 0, 9, 8, 0x88, 0xb5];
/// Maximum number of frames that are read before the engine runs.
const BUDGET: usize = 64;

impl<P: Port> Frames<P> {
    pub(super) fn new(world: &World, port: P) -> Self {
        Self {
            port,
            messages: Messages::of(world),
            batch: PacketBatch::default(),
            record: Vec::new(),
            frame: Vec::new(),
            buffer: vec![0; LARGE],
            taken: 0,
            late: 0,
            lateness: Lateness::new(Limit::default()),
        }
    }
}

impl<P: Port> Gateway for Frames<P> {
    fn receive<Q: EventQueue>(
        &mut self,
        engine: &mut Engine<World, Q>,
        _: Instant<Wall>,
    ) -> io::Result<()> {
        for _ in 0..BUDGET {
            let length = match self.port.receive(&mut self.buffer)? {
                ReceiveResult::Frame(length, _) => length,
                ReceiveResult::Malformed => continue,
                ReceiveResult::Nothing => break,
            };
            let Some(payload) = self.buffer[..length].strip_prefix(&ETHERNET) else {
                continue;
            };
            let record = payload.split_first();
            let record = record.and_then(|(size, rest)| rest.get(..usize::from(*size)));
            self.batch.clear();
            let read = record.map(|record| self.messages.read(record, &mut self.batch));
            if !matches!(read, Some(Ok(_))) {
                continue;
            }
            for packet in &self.batch.packets {
                let taken = engine.with(|world, agenda| world.take_over(packet, &[], agenda));
                if let Some(late) = taken {
                    self.taken += 1;
                    self.late += u64::from(late > Duration::ZERO);
                    self.lateness.record(late, 1);
                }
            }
        }
        Ok(())
    }

    fn send<Q: EventQueue>(
        &mut self,
        engine: &mut Engine<World, Q>,
        _: Instant<Wall>,
    ) -> io::Result<()> {
        let crossings = engine.model.crossings();
        for packet in &crossings.packets {
            self.batch.clear();
            self.batch.packets.push(*packet);
            self.record.clear();
            self.messages
                .write(packet.at, &self.batch, &mut self.record);
            let size = u8::try_from(self.record.len()).map_err(io::Error::other)?;
            self.frame.clear();
            self.frame.extend_from_slice(&ETHERNET);
            self.frame.push(size);
            self.frame.extend_from_slice(&self.record);
            let whole = ETHERNET.len() + usize::from(packet.size);
            self.frame.resize(whole.max(self.frame.len()), 0);
            let frame = Frame {
                at: packet.at,
                first_bit: packet.at,
                head: &self.frame,
                rest: &[],
                offload: OffloadedWork::default(),
            };
            // If its queue is full, a raw socket drops the frame.
            let (TxStatus::Done | TxStatus::Refused) = self.port.send(&frame)?;
        }
        crossings.clear();
        Ok(())
    }

    fn next_wake(&self) -> Instant<Wall> {
        Instant::FAR_FUTURE
    }

    fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.port.descriptor())
    }
}

impl<P: Port> Counted for Frames<P> {
    fn is_open(&self) -> bool {
        true
    }

    fn came(&self) -> Came {
        Came {
            taken: self.taken,
            late: self.late,
            late_p99: self.lateness.quantile(0.99),
            peer: None,
        }
    }
}

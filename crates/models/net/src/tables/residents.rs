//! Machines that live at nodes, and what they wait for.

use core::any::Any;
use core::fmt;

use timeloom_time::{Instant, Virtual};

use crate::packet::PortId;

/// A machine at a node. Ports are counted from 0, in the order of the node's
/// cables.
pub trait Resident: Any + fmt::Debug + Send {
    /// Whether a frame is for it. Asked of every frame of a real program that
    /// comes by, so it should look at little.
    fn wants(&self, glance: &Glance<'_>) -> bool;

    /// A frame that it wanted has come; it goes no further.
    fn handle_frame(&mut self, now: Instant<Virtual>, frame: &Arrived<'_>, out: &mut Outgoing);

    /// The first bit of the frame that was sent with `tag` went out at `at`;
    /// `None` when it was dropped and never will.
    fn handle_departure(
        &mut self,
        now: Instant<Virtual>,
        port: usize,
        tag: u64,
        at: Option<Instant<Virtual>>,
        out: &mut Outgoing,
    );

    /// It is due.
    fn handle_wake(&mut self, now: Instant<Virtual>, out: &mut Outgoing);

    /// When it is due next.
    fn next_wake(&self) -> Option<Instant<Virtual>>;
}

/// What decides about a frame.
#[derive(Clone, Copy, Debug)]
pub struct Glance<'a> {
    /// Who it is for on this Ethernet segment.
    pub destination: [u8; 6],
    /// Its Ethertype; 0x8100 before a tag.
    pub ethertype: u16,
    /// What follows the Ethertype. Checksums may be incomplete.
    pub inner: &'a [u8],
}

/// A frame that has come.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// By which port.
    pub port: usize,
    /// When its first bit came; its last one has come now.
    pub first_bit: Instant<Virtual>,
    /// Who sent it on this Ethernet segment.
    pub source: [u8; 6],
    /// Its Ethertype; 0x8100 before a tag.
    pub ethertype: u16,
    /// What follows the Ethertype, complete.
    pub inner: &'a [u8],
}

/// What a resident wants sent, in order.
#[derive(Debug, Default)]
pub struct Outgoing(pub(crate) Vec<Sent>);

#[derive(Debug)]
pub(crate) enum Sent {
    Frame(usize, Vec<u8>, Option<u64>),
    Packet(Vec<u8>),
}

impl Outgoing {
    /// Sends an Ethernet frame (without check sequence) out of a port. With a
    /// tag, [`Resident::handle_departure`] tells when it left. What is no frame
    /// or no port is dropped and counted.
    pub fn send(&mut self, port: usize, frame: Vec<u8>, tag: Option<u64>) {
        self.0.push(Sent::Frame(port, frame, tag));
    }

    /// Sends an IPv4 packet from a host, which finds the way and asks for the
    /// next MAC address as it does for its own packets. What is no packet, or
    /// comes from a switch, is dropped and counted.
    pub fn send_packet(&mut self, packet: Vec<u8>) {
        self.0.push(Sent::Packet(packet));
    }
}

/// All residents of a world.
#[derive(Debug, Default)]
pub(crate) struct Residents {
    pub(crate) list: Vec<Lodging>,
    /// Index into the list by node; empty while there is none.
    pub(crate) by_node: Vec<u32>,
    /// Departures that somebody waits for, by their number modulo the length.
    pub(crate) departing: Vec<Option<Departing>>,
    pub(crate) next_departure: u32,
}

#[derive(Debug)]
pub(crate) struct Lodging {
    pub(crate) node: u32,
    pub(crate) ports: Vec<PortId>,
    /// Absent while it acts.
    pub(crate) resident: Option<Box<dyn Resident>>,
    /// The earliest appointment made; later ones are made when it is kept.
    pub(crate) appointment: Instant<Virtual>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Departing {
    pub(crate) number: u32,
    pub(crate) lodging: u32,
    pub(crate) port: usize,
    pub(crate) tag: u64,
}

/// Frames whose departure is waited for at once, in the whole world. Who waits
/// longer than it takes to send as many more is told that the frame was lost:
/// some queues drop without a word.
pub(crate) const MOST_DEPARTING: usize = 1 << 14;

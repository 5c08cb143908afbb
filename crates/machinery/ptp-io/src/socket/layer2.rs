//! PTP in Ethernet frames (annex F of IEEE 1588-2008).
//!
//! A socket that is bound to the Ethertype 0x88F7 never sees a VLAN tag, and misses frames of other
//! VLANs. A socket that is bound to all protocols sees them, so it is used with a filter that
//! admits only PTP. The kernel removes the tag before the filter runs, so the filter finds the
//! inner Ethertype at its usual place.

use std::io;
use std::os::fd::OwnedFd;

use timeloom_ptp::Packet;
use timeloom_sys::packet::{self, Filter, FrameSelection, Group};
use timeloom_sys::stamps;
use timeloom_wire::{ETHERTYPE_PTP, EthernetFrame, MacAddress, VlanTag};

use super::Stamping;
use super::control::Envelope;
use crate::Interface;

const ALL: [MacAddress; 2] = [MacAddress::PTP_PRIMARY, MacAddress::PTP_PEER_DELAY];

pub(super) fn open(interface: &Interface, stamping: Stamping) -> io::Result<(OwnedFd, OwnedFd)> {
    // The socket is bound to a protocol only after everything is set. Otherwise it would receive
    // frames of all interfaces.
    let event = packet::open()?;
    packet::filter(&event, Filter::Ethertype(ETHERTYPE_PTP))?;
    packet::keep_tags(&event)?;
    packet::ignore_outgoing(&event)?;
    stamps::both_ways(&event, stamping.by())?;
    for group in ALL {
        packet::join(&event, interface.index, Group::Multicast(group.0))?;
    }
    packet::bind(&event, interface.index, FrameSelection::All)?;
    let general = packet::open()?;
    packet::bind(&general, interface.index, FrameSelection::Nothing)?;
    Ok((event, general))
}

pub(super) fn send(socket: &OwnedFd, interface: &Interface, message: &Packet) -> io::Result<()> {
    let frame = EthernetFrame {
        destination: message.destination(),
        source: interface.mac,
        vlan: message.vlan,
        ethertype: ETHERTYPE_PTP,
        payload: &message.bytes,
    };
    let mut buffer = [0; 1600];
    let length = frame.emit(&mut buffer).map_err(io::Error::other)?;
    packet::send(socket, &buffer[..length], interface.index, ETHERTYPE_PTP)
}

/// Returns the message in a frame that is addressed to this clock, with its VLAN tag; `None` for
/// other frames.
pub(super) fn open_frame<'a>(
    envelope: &Envelope<'a>,
    own: MacAddress,
) -> Option<(&'a [u8], Option<VlanTag>)> {
    let frame = EthernetFrame::parse(envelope.bytes).ok()?;
    let message = frame.ptp().ok()?;
    let ours = frame.destination == own || ALL.contains(&frame.destination);
    (ours && frame.source != own).then_some((message, envelope.vlan.or(frame.vlan)))
}

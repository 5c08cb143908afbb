//! PTP in Ethernet frames (annex F of IEEE 1588-2008).
//!
//! A socket bound to 0x88F7 never sees a VLAN tag, and misses frames of other
//! VLANs; one bound to every protocol does, with a filter that lets only PTP
//! in. The kernel takes the tag out before the filter runs, so that the filter
//! finds the inner type at its usual place.

use std::io;
use std::os::fd::OwnedFd;

use timeloom_ptp::Packet;
use timeloom_wire::{ETHERTYPE_PTP, EthernetFrame, MacAddress, VlanTag};

use super::Stamping;
use super::control::Envelope;
use super::options::{bind, blank, open_socket, send_to, set, stamp_both_ways};
use crate::Interface;

const ALL: [MacAddress; 2] = [MacAddress::PTP_PRIMARY, MacAddress::PTP_PEER_DELAY];
/// Own departures are not handed back (linux/if_packet.h; Linux 4.20).
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

pub(super) fn open(interface: &Interface, stamping: Stamping) -> io::Result<(OwnedFd, OwnedFd)> {
    // Bound to a protocol only after everything is set: before, frames of all
    // interfaces would come in.
    let event = open_socket(libc::AF_PACKET, libc::SOCK_RAW)?;
    only_ptp(&event)?;
    set(&event, libc::SOL_PACKET, libc::PACKET_AUXDATA, &1)?;
    set(&event, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1)?;
    stamp_both_ways(&event, stamping)?;
    for group in ALL {
        let mut request: libc::packet_mreq = blank();
        request.mr_ifindex = interface.index;
        request.mr_type = libc::PACKET_MR_MULTICAST as u16;
        request.mr_alen = 6;
        request.mr_address[..6].copy_from_slice(&group.0);
        set(
            &event,
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            &request,
        )?;
    }
    bind(&event, &address(interface, libc::ETH_P_ALL as u16))?;
    // Hears nothing, for it has no protocol.
    let general = open_socket(libc::AF_PACKET, libc::SOCK_RAW)?;
    bind(&general, &address(interface, 0))?;
    Ok((event, general))
}

fn address(interface: &Interface, protocol: u16) -> libc::sockaddr_ll {
    let mut address: libc::sockaddr_ll = blank();
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = interface.index;
    address
}

fn only_ptp(socket: &OwnedFd) -> io::Result<()> {
    let step = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let mut program = [
        step(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 0, 12),
        step(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            u32::from(ETHERTYPE_PTP),
        ),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    ];
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

pub(super) fn send(socket: &OwnedFd, interface: &Interface, packet: &Packet) -> io::Result<()> {
    let frame = EthernetFrame {
        destination: packet.destination(),
        source: interface.mac,
        vlan: packet.vlan,
        ethertype: ETHERTYPE_PTP,
        payload: &packet.bytes,
    };
    let mut buffer = [0; 1600];
    let length = frame.emit(&mut buffer).map_err(io::Error::other)?;
    send_to(
        socket,
        &buffer[..length],
        &address(interface, ETHERTYPE_PTP),
    )
}

/// The message of a frame that is meant for us, with its tag.
pub(super) fn open_frame<'a>(
    envelope: &Envelope<'a>,
    own: MacAddress,
) -> Option<(&'a [u8], Option<VlanTag>)> {
    let frame = EthernetFrame::parse(envelope.bytes).ok()?;
    let message = frame.ptp().ok()?;
    let ours = frame.destination == own || ALL.contains(&frame.destination);
    (ours && frame.source != own).then_some((message, envelope.vlan.or(frame.vlan)))
}

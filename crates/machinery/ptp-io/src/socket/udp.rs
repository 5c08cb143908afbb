//! PTP in UDP over IPv4 (annex D of IEEE 1588-2008): multicast, time to live 1.

use std::io;
use std::os::fd::OwnedFd;

use timeloom_ptp::Packet;
use timeloom_wire::{MacAddress, UDP_EVENT_PORT, UDP_GENERAL_PORT, UdpFamily};

use super::options::{bind, blank, open_socket, send_to, set, stamp_both_ways};
use super::{Stamping, is_event};
use crate::Interface;

pub(super) fn open(interface: &Interface, stamping: Stamping) -> io::Result<(OwnedFd, OwnedFd)> {
    let event = open_one(interface, UDP_EVENT_PORT)?;
    stamp_both_ways(&event, stamping)?;
    Ok((event, open_one(interface, UDP_GENERAL_PORT)?))
}

fn open_one(interface: &Interface, port: u16) -> io::Result<OwnedFd> {
    let socket = open_socket(libc::AF_INET, libc::SOCK_DGRAM)?;
    let mut name = [0u8; libc::IFNAMSIZ];
    name[..interface.name.len()].copy_from_slice(interface.name.as_bytes());
    set(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, &1)?;
    set(&socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &name)?;
    for group in [UdpFamily::V4_PRIMARY, UdpFamily::V4_PEER_DELAY] {
        let mut request: libc::ip_mreqn = blank();
        request.imr_multiaddr.s_addr = u32::from_ne_bytes(group);
        request.imr_ifindex = interface.index;
        set(&socket, libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &request)?;
        set(&socket, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, &request)?;
    }
    set(&socket, libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, &1)?;
    set(&socket, libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, &0)?;
    bind(&socket, &address([0; 4], port))?;
    Ok(socket)
}

fn address(to: [u8; 4], port: u16) -> libc::sockaddr_in {
    let mut address: libc::sockaddr_in = blank();
    address.sin_family = libc::AF_INET as u16;
    address.sin_port = port.to_be();
    address.sin_addr.s_addr = u32::from_ne_bytes(to);
    address
}

pub(super) fn send(socket: &OwnedFd, packet: &Packet) -> io::Result<()> {
    let group = if packet.destination() == MacAddress::PTP_PEER_DELAY {
        UdpFamily::V4_PEER_DELAY
    } else {
        UdpFamily::V4_PRIMARY
    };
    let port = if is_event(&packet.bytes) {
        UDP_EVENT_PORT
    } else {
        UDP_GENERAL_PORT
    };
    send_to(socket, &packet.bytes, &address(group, port))
}

//! PTP in UDP over IPv4 (annex D of IEEE 1588-2008): multicast, time to live 1.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::sockopt::{
    set_ip_add_membership_with_ifindex, set_ip_multicast_if_with_ifindex, set_ip_multicast_loop,
    set_ip_multicast_ttl, set_socket_reuseaddr,
};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, bind, sendto, socket_with};
use timeloom_ptp::PtpPacket;
use timeloom_sys::interface::bind_to;
use timeloom_sys::stamps;
use timeloom_wire::{MacAddress, UDP_EVENT_PORT, UDP_GENERAL_PORT, UdpFamily};

use super::{Stamping, is_event};
use crate::PtpInterface;

pub(super) fn open(interface: &PtpInterface, stamping: Stamping) -> io::Result<(OwnedFd, OwnedFd)> {
    let event = open_one(interface, UDP_EVENT_PORT)?;
    stamps::both_ways(&event, stamping.by())?;
    Ok((event, open_one(interface, UDP_GENERAL_PORT)?))
}

fn open_one(interface: &PtpInterface, port: u16) -> io::Result<OwnedFd> {
    const ANY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    set_socket_reuseaddr(&socket, true)?;
    bind_to(&socket, &interface.name)?;
    for group in [UdpFamily::V4_PRIMARY, UdpFamily::V4_PEER_DELAY] {
        let (group, index) = (group.into(), interface.index);
        set_ip_add_membership_with_ifindex(&socket, &group, &ANY, index)?;
        set_ip_multicast_if_with_ifindex(&socket, &group, &ANY, index)?;
    }
    set_ip_multicast_ttl(&socket, 1)?;
    set_ip_multicast_loop(&socket, false)?;
    bind(&socket, &SocketAddrV4::new(ANY, port))?;
    Ok(socket)
}

pub(super) fn send(socket: &OwnedFd, packet: &PtpPacket) -> io::Result<()> {
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
    let to = SocketAddrV4::new(group.into(), port);
    sendto(socket, &packet.bytes, SendFlags::DONTWAIT, &to)?;
    Ok(())
}

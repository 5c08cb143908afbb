//! IPv4 multicast group through which a host sends announcements to all hosts.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

use rustix::net::sockopt::{set_ip_add_membership, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

/// Opens a socket that receives the multicasts to `group` on the interface with the address `here`.
///
/// Multicasts are sent through that interface too, since the socket has its address.
pub(super) fn join(here: SocketAddr, group: SocketAddr) -> io::Result<UdpSocket> {
    let (interface, address) = match (here.ip(), group.ip()) {
        (IpAddr::V4(here), IpAddr::V4(group)) if group.is_multicast() => (here, group),
        _ => {
            return Err(io::Error::other(
                "a group must be an address from 224.0.0.0 to 239.255.255.255, for hosts with IPv4",
            ));
        }
    };
    if interface == Ipv4Addr::UNSPECIFIED {
        return Err(io::Error::other(
            "listen at the address of one interface: the group is joined there",
        ));
    }
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    // Several agents on one machine may receive multicasts of the same group.
    set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddrV4::new(address, group.port()))?;
    set_ip_add_membership(&socket, &address, &interface)?;
    Ok(UdpSocket::from(socket))
}

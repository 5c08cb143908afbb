//! Settling an interface: addresses, routes and the like, by the ioctls that
//! every Linux has (netdevice(7)). All act on the calling thread's namespace.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;

use crate::PortalError;

/// What an interface is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Its IPv4 address.
    pub address: Ipv4Addr,
    /// The length of its network's prefix.
    pub prefix: u8,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Where everything beyond its network goes.
    pub gateway: Option<Ipv4Addr>,
}

/// Gives `name` its addresses and brings it up.
pub(crate) fn settle(name: &str, what: &Address) -> Result<(), PortalError> {
    let failed = |step: &str| {
        let action = format!("{step} of {name}");
        move |error| PortalError::kernel(action, error)
    };
    let socket = UdpSocket::bind("0.0.0.0:0")
        .map_err(|error| PortalError::kernel("open a socket", error))?;
    // No router solicitations or multicast reports: the network says nothing
    // that no program said. Kernels without IPv6 have no such file.
    let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
    // As for the stations of a fabric: news about neighbours count at once.
    fs::write(format!("/proc/sys/net/ipv4/neigh/{name}/locktime"), "0")
        .map_err(failed("set the neighbours' lock time"))?;
    let mut request = Request::new(&socket, name);
    request.ifreq.ifr_ifru.ifru_hwaddr = hardware(what.mac);
    request
        .call(libc::SIOCSIFHWADDR)
        .map_err(failed("set the MAC address"))?;
    request.ifreq.ifr_ifru.ifru_addr = internet(what.address);
    request
        .call(libc::SIOCSIFADDR)
        .map_err(failed("set the address"))?;
    request.ifreq.ifr_ifru.ifru_netmask = internet(mask(what.prefix));
    request
        .call(libc::SIOCSIFNETMASK)
        .map_err(failed("set the netmask"))?;
    request.ifreq.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    request
        .call(libc::SIOCSIFFLAGS)
        .map_err(failed("bring up the link"))?;
    if let Some(gateway) = what.gateway {
        // SAFETY: a rtentry is plain old data; zero is a value of every field.
        let mut route: libc::rtentry = unsafe { core::mem::zeroed() };
        route.rt_dst = internet(Ipv4Addr::UNSPECIFIED);
        route.rt_genmask = internet(Ipv4Addr::UNSPECIFIED);
        route.rt_gateway = internet(gateway);
        route.rt_flags = libc::RTF_UP | libc::RTF_GATEWAY;
        // SAFETY: SIOCADDRT takes a rtentry, which lives until the call
        // returns.
        let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCADDRT, &raw const route) };
        if answer < 0 {
            return Err(failed("set the default route")(io::Error::last_os_error()));
        }
    }
    Ok(())
}

/// Sets the longest IP packet that `name` sends.
pub(crate) fn set_mtu(name: &str, mtu: u16) -> Result<(), PortalError> {
    let failed = |error| PortalError::kernel(format!("set the MTU of {name}"), error);
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(failed)?;
    let mut request = Request::new(&socket, name);
    request.ifreq.ifr_ifru.ifru_mtu = i32::from(mtu);
    request.call(libc::SIOCSIFMTU).map_err(failed)
}

/// How many frames `name` dropped on their way out, as the calling thread's
/// namespace counts them.
pub(crate) fn transmit_drops(name: &str) -> Option<u64> {
    let table = fs::read_to_string("/proc/thread-self/net/dev").ok()?;
    let line = table.lines().find_map(|line| {
        let (interface, counts) = line.split_once(':')?;
        (interface.trim() == name).then_some(counts)
    })?;
    // Received: bytes packets errs drop fifo frame compressed multicast;
    // transmitted: bytes packets errs drop.
    line.split_ascii_whitespace().nth(11)?.parse().ok()
}

struct Request<'a> {
    socket: &'a UdpSocket,
    ifreq: libc::ifreq,
}

impl<'a> Request<'a> {
    fn new(socket: &'a UdpSocket, name: &str) -> Self {
        Self {
            socket,
            ifreq: named(name),
        }
    }

    fn call(&mut self, command: libc::Ioctl) -> io::Result<()> {
        // SAFETY: all commands used here take an ifreq, which lives until the
        // call returns.
        let answer = unsafe { libc::ioctl(self.socket.as_raw_fd(), command, &raw mut self.ifreq) };
        if answer < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// A request about the interface of this name.
pub(crate) fn named(name: &str) -> libc::ifreq {
    // SAFETY: an ifreq is plain old data; zero is a value of every field.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    // One byte stays zero, since the kernel expects a C string.
    let room = request.ifr_name.len() - 1;
    let places = request.ifr_name.iter_mut().zip(name.bytes().take(room));
    for (place, byte) in places {
        *place = byte as libc::c_char;
    }
    request
}

fn hardware(mac: [u8; 6]) -> libc::sockaddr {
    let mut address = libc::sockaddr {
        sa_family: libc::ARPHRD_ETHER,
        sa_data: [0; 14],
    };
    for (place, byte) in address.sa_data.iter_mut().zip(mac) {
        *place = byte as libc::c_char;
    }
    address
}

/// A `sockaddr_in` in the form of a `sockaddr`: a port and then the address.
fn internet(address: Ipv4Addr) -> libc::sockaddr {
    let mut general = libc::sockaddr {
        sa_family: libc::AF_INET as u16,
        sa_data: [0; 14],
    };
    for (place, byte) in general.sa_data[2..].iter_mut().zip(address.octets()) {
        *place = byte as libc::c_char;
    }
    general
}

fn mask(prefix: u8) -> Ipv4Addr {
    let bits = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
    Ipv4Addr::from(bits)
}

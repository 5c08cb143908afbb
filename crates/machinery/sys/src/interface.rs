//! Network interfaces, controlled by the ioctls that every Linux has (netdevice(7)). Each call acts
//! on the network namespace in which its socket was opened.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};

use rustix::net::netdevice::name_to_index;

use crate::option::{done, set};

/// Handle of a network interface, for queries and settings.
#[derive(Debug)]
pub struct Interface {
    socket: UdpSocket,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl Interface {
    /// Creates a handle for the interface `name` in the calling thread's network namespace. Does
    /// not check whether the interface exists.
    ///
    /// # Errors
    /// Fails with [`io::ErrorKind::InvalidInput`] if no interface can have this name.
    pub fn named(name: &str) -> io::Result<Self> {
        let name = c_name(name)?;
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        Ok(Self { socket, name })
    }

    /// Returns the interface's number.
    ///
    /// # Errors
    /// Fails if there is no such interface.
    pub fn index(&self) -> io::Result<u32> {
        let mut request = self.request();
        self.ask(libc::SIOCGIFINDEX, &mut request)?;
        // SAFETY: SIOCGIFINDEX has filled this member.
        let index = unsafe { request.ifr_ifru.ifru_ifindex };
        Ok(index.cast_unsigned())
    }

    /// Returns the MAC address, or `None` if the interface is not Ethernet.
    ///
    /// # Errors
    /// Fails if there is no such interface.
    pub fn mac(&self) -> io::Result<Option<[u8; 6]>> {
        let mut request = self.request();
        self.ask(libc::SIOCGIFHWADDR, &mut request)?;
        // SAFETY: SIOCGIFHWADDR has filled this member.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr };
        let is_ethernet = address.sa_family == libc::ARPHRD_ETHER;
        Ok(is_ethernet.then(|| core::array::from_fn(|at| address.sa_data[at] as u8)))
    }

    /// Sets the MAC address.
    ///
    /// # Errors
    /// Fails without CAP_NET_ADMIN.
    pub fn set_mac(&self, mac: [u8; 6]) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_hwaddr = address(libc::ARPHRD_ETHER, 0, &mac);
        self.ask(libc::SIOCSIFHWADDR, &mut request)
    }

    /// Sets the IPv4 address.
    ///
    /// # Errors
    /// Fails without CAP_NET_ADMIN.
    pub fn set_address(&self, address: Ipv4Addr) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_addr = internet(address);
        self.ask(libc::SIOCSIFADDR, &mut request)
    }

    /// Sets the prefix length of the IPv4 network.
    ///
    /// # Errors
    /// Fails without CAP_NET_ADMIN.
    pub fn set_prefix(&self, prefix_len: u8) -> io::Result<()> {
        let shift = 32 - u32::from(prefix_len.min(32));
        let mask = u32::MAX.checked_shl(shift).unwrap_or(0);
        let mut request = self.request();
        request.ifr_ifru.ifru_netmask = internet(Ipv4Addr::from(mask));
        self.ask(libc::SIOCSIFNETMASK, &mut request)
    }

    /// Brings the interface up.
    ///
    /// # Errors
    /// Fails without CAP_NET_ADMIN.
    pub fn bring_up(&self) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
        self.ask(libc::SIOCSIFFLAGS, &mut request)
    }

    /// Sets the MTU.
    ///
    /// # Errors
    /// Fails without CAP_NET_ADMIN, or if the interface does not support this size.
    pub fn set_mtu(&self, mtu: u16) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_mtu = mtu.into();
        self.ask(libc::SIOCSIFMTU, &mut request)
    }

    /// Sets the default route to `gateway`, which must be reachable by an interface of this
    /// namespace.
    ///
    /// # Errors
    /// Fails without CAP_NET_ADMIN, or if the gateway is not reachable.
    pub fn set_default_route(&self, gateway: Ipv4Addr) -> io::Result<()> {
        // SAFETY: a rtentry is plain old data; zero is a value of every field.
        let mut route: libc::rtentry = unsafe { core::mem::zeroed() };
        route.rt_dst = internet(Ipv4Addr::UNSPECIFIED);
        route.rt_genmask = internet(Ipv4Addr::UNSPECIFIED);
        route.rt_gateway = internet(gateway);
        route.rt_flags = libc::RTF_UP | libc::RTF_GATEWAY;
        let socket = self.socket.as_raw_fd();
        // SAFETY: SIOCADDRT takes a rtentry, which lives until the call returns.
        done(unsafe { libc::ioctl(socket, libc::SIOCADDRT, &raw const route) })
    }

    /// Disables an offload: the kernel then does the work in software.
    ///
    /// # Errors
    /// Fails if the driver cannot disable it.
    pub fn switch_off(&self, offload: Offload) -> io::Result<()> {
        let command = match offload {
            Offload::TransmitChecksum => ETHTOOL_STXCSUM,
            Offload::TcpSegmentation => ETHTOOL_STSO,
            Offload::GenericSegmentation => ETHTOOL_SGSO,
        };
        let mut value = EthtoolValue { command, data: 0 };
        self.ask_with(SIOCETHTOOL, &mut value)
    }

    /// Returns the number of the interface's PTP hardware clock, as in `/dev/ptpN`. Returns `None`
    /// if the interface has none.
    ///
    /// # Errors
    /// Fails if the driver does not support the query.
    pub fn clock_number(&self) -> io::Result<Option<u32>> {
        let mut info = TimestampInfo {
            command: ETHTOOL_GET_TS_INFO,
            phc_index: -1,
            ..TimestampInfo::default()
        };
        self.ask_with(SIOCETHTOOL, &mut info)?;
        Ok(u32::try_from(info.phc_index).ok())
    }

    /// Makes the card timestamp every departing packet, and the arriving packets that `arrivals`
    /// selects.
    ///
    /// # Errors
    /// Fails without CAP_NET_ADMIN, or if the card does not support this.
    pub fn stamp(&self, arrivals: Arrivals) -> io::Result<()> {
        let mut config = TimestampConfig {
            flags: 0,
            transmit: HWTSTAMP_TX_ON,
            receive: match arrivals {
                Arrivals::PtpEvents => HWTSTAMP_FILTER_PTP_V2_EVENT,
                Arrivals::All => HWTSTAMP_FILTER_ALL,
            },
        };
        self.ask_with(SIOCSHWTSTAMP, &mut config)
    }

    fn request(&self) -> libc::ifreq {
        request(&self.name)
    }

    /// Issues an ioctl that takes an ifreq, as all commands used here do.
    fn ask(&self, command: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: passes an ifreq, which outlives the call.
        done(unsafe {
            libc::ioctl(
                self.socket.as_raw_fd(),
                command,
                core::ptr::from_mut(request),
            )
        })
    }

    /// Issues an ioctl whose ifreq points to the structure `with`. `T` must be the structure that
    /// linux/ethtool.h or linux/net_tstamp.h states for the command.
    fn ask_with<T>(&self, command: libc::Ioctl, with: &mut T) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_data = core::ptr::from_mut(with).cast();
        self.ask(command, &mut request)
    }
}

/// Offload: protocol work that the kernel leaves to the network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// Checksums of sent packets.
    TransmitChecksum,
    /// TCP segmentation.
    TcpSegmentation,
    /// Segmentation of any protocol, which the kernel postpones until it hands packets to the
    /// driver.
    GenericSegmentation,
}

/// Arriving packets that a card timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Event messages of PTP version 2, by any transport.
    PtpEvents,
    /// All packets.
    All,
}

/// Returns the number of the interface `name` in the calling thread's network namespace.
///
/// # Errors
/// Fails if there is no such interface.
pub fn index_of(name: &str) -> io::Result<u32> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    Ok(name_to_index(&socket, name)?)
}

/// Returns the highest interface number in the calling thread's network namespace, or zero if there
/// is no interface.
pub fn highest_index() -> u32 {
    // SAFETY: no arguments; the list is freed below.
    let list = unsafe { libc::if_nameindex() };
    let mut highest = 0;
    let mut at = list;
    // SAFETY: the list ends with an entry whose index is 0.
    while !at.is_null() && unsafe { (*at).if_index } != 0 {
        // SAFETY: the end has not been reached, as just checked.
        highest = highest.max(unsafe { (*at).if_index });
        // SAFETY: the end has not been reached, so the next entry exists.
        at = unsafe { at.add(1) };
    }
    if !list.is_null() {
        // SAFETY: the list is from if_nameindex, and is freed only here.
        unsafe { libc::if_freenameindex(list) };
    }
    highest
}

/// Restricts `socket` to the interface `name`, for sending and receiving.
///
/// # Errors
/// Fails if there is no interface of this name.
pub fn bind_to(socket: impl AsFd, name: &str) -> io::Result<()> {
    let name = c_name(name)?.map(|letter| letter as u8);
    set(socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &name)
}

/// Returns an interface's name as a C string, in an array of the kernel's size (IFNAMSIZ).
pub(crate) fn c_name(name: &str) -> io::Result<[libc::c_char; libc::IFNAMSIZ]> {
    let mut place = [0; libc::IFNAMSIZ];
    if name.is_empty() || name.len() >= place.len() || name.contains('\0') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in place.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(place)
}

/// Builds a request for the interface of this name.
pub(crate) fn request(name: &[libc::c_char; libc::IFNAMSIZ]) -> libc::ifreq {
    // SAFETY: an ifreq is plain old data; zero is a value of every field.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    request.ifr_name = *name;
    request
}

/// Builds a `sockaddr_in` for an address, in the form of a `sockaddr`: a port, then the address.
fn internet(own: Ipv4Addr) -> libc::sockaddr {
    address(libc::AF_INET as u16, 2, &own.octets())
}

fn address(family: u16, at: usize, bytes: &[u8]) -> libc::sockaddr {
    let mut address = libc::sockaddr {
        sa_family: family,
        sa_data: [0; 14],
    };
    for (place, byte) in address.sa_data[at..].iter_mut().zip(bytes) {
        *place = *byte as libc::c_char;
    }
    address
}

/// Argument of an ethtool command: `struct ethtool_value`, linux/ethtool.h.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Timestamping abilities of an interface: `struct ethtool_ts_info`, linux/ethtool.h.
#[repr(C)]
#[derive(Default)]
struct TimestampInfo {
    command: u32,
    so_timestamping: u32,
    phc_index: i32,
    tx_types: u32,
    tx_reserved: [u32; 3],
    rx_filters: u32,
    rx_reserved: [u32; 3],
}

const _: () = assert!(size_of::<TimestampInfo>() == 44);

/// Timestamping settings of an interface: `struct hwtstamp_config`, linux/net_tstamp.h.
#[repr(C)]
struct TimestampConfig {
    flags: libc::c_int,
    transmit: libc::c_int,
    receive: libc::c_int,
}

const SIOCETHTOOL: libc::Ioctl = 0x8946;
const SIOCSHWTSTAMP: libc::Ioctl = 0x89b0;
const ETHTOOL_STXCSUM: u32 = 0x17;
const ETHTOOL_STSO: u32 = 0x1f;
const ETHTOOL_SGSO: u32 = 0x24;
const ETHTOOL_GET_TS_INFO: u32 = 0x41;
const HWTSTAMP_TX_ON: libc::c_int = 1;
const HWTSTAMP_FILTER_ALL: libc::c_int = 1;
const HWTSTAMP_FILTER_PTP_V2_EVENT: libc::c_int = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_an_interface_that_is_not_ethernet() {
        let lo = Interface::named("lo").expect("a name");
        assert_eq!(
            lo.index().expect("it is there"),
            index_of("lo").expect("it is")
        );
        assert_eq!(lo.mac().expect("it is there"), None);
        assert!(highest_index() >= lo.index().expect("it is there"));
        assert!(lo.clock_number().is_ok_and(|number| number.is_none()));
        assert!(index_of("nosuch0").is_err());
        let none = Interface::named("nosuch0").expect("a name");
        assert!(none.index().is_err());
    }

    #[test]
    fn impossible_interface_names_are_refused_without_a_system_call() {
        for name in ["", "a-name-longer-than-any", "a\0b"] {
            let refused = Interface::named(name).expect_err("no name");
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
    }
}

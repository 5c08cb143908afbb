//! Configuration of an interface: addresses, routes and related settings. All functions act on the
//! network namespace of the calling thread.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};

use timeloom_fabric::give_ipv6;
use timeloom_net::{Node, World};
use timeloom_sys::interface::Interface;

use crate::PortalError;

/// Addresses of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// MAC address of the interface.
    pub mac: [u8; 6],
    /// IPv4 address with its gateway; `None` if the interface has none.
    pub v4: Option<Inet<Ipv4Addr>>,
    /// IPv6 address with its gateway; `None` if the interface has none.
    pub v6: Option<Inet<Ipv6Addr>>,
}

/// Address of an interface with its default gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inet<A> {
    /// Address.
    pub address: A,
    /// Prefix length of the address's network.
    pub prefix: u8,
    /// Gateway for all destinations outside that network, if there is one.
    pub gateway: Option<A>,
}

impl Address {
    /// Returns the addresses of the model's host `node`; `None` if the host has no link.
    pub fn of(world: &World, node: Node) -> Option<Self> {
        let port = world.port_of(node)?;
        let v4 = Some(world.address(port)).filter(|address| !address.is_unspecified());
        Some(Self {
            mac: world.mac(port),
            v4: v4.map(|address| Inet {
                address,
                prefix: world.prefix(port),
                gateway: world.gateway(node),
            }),
            v6: world.address_v6(port).map(|(address, prefix)| Inet {
                address,
                prefix,
                gateway: world.gateway_v6(node),
            }),
        })
    }
}

/// Sets the addresses of the interface `name` and brings it up.
pub(crate) fn settle(name: &str, what: &Address) -> Result<(), PortalError> {
    let failed = |step: &str| {
        let action = format!("{step} of {name}");
        move |error| PortalError::kernel(action, error)
    };
    let interface =
        Interface::named(name).map_err(|error| PortalError::kernel("open a socket", error))?;
    // This disables router solicitations and multicast reports, so that no packet enters the
    // network that no program sent. Kernels without IPv6 lack this file. If the interface has an
    // IPv6 address, IPv6 is enabled again below.
    let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
    // As for the stations of a fabric, updates about a neighbour take effect at once.
    fs::write(format!("/proc/sys/net/ipv4/neigh/{name}/locktime"), "0")
        .map_err(failed("set the neighbours' lock time"))?;
    interface
        .set_mac(what.mac)
        .map_err(failed("set the MAC address"))?;
    if let Some(own) = what.v4 {
        interface
            .set_address(own.address)
            .map_err(failed("set the address"))?;
        interface
            .set_prefix(own.prefix)
            .map_err(failed("set the netmask"))?;
    }
    interface.bring_up().map_err(failed("bring up the link"))?;
    if let Some(gateway) = what.v4.and_then(|own| own.gateway) {
        interface
            .set_default_route(gateway)
            .map_err(failed("set the default route"))?;
    }
    if let Some(own) = what.v6 {
        give_ipv6(name, &[(own.address, own.prefix)], own.gateway)?;
    }
    Ok(())
}

/// Sets the MTU of the interface `name`, which is the length of the longest IP packet that it
/// sends.
pub(crate) fn set_mtu(name: &str, mtu: u16) -> Result<(), PortalError> {
    let failed = |error| PortalError::kernel(format!("set the MTU of {name}"), error);
    let interface = Interface::named(name).map_err(failed)?;
    interface.set_mtu(mtu).map_err(failed)
}

/// Returns the number of frames that the interface `name` dropped on transmission, as counted in
/// the network namespace of the calling thread.
pub(crate) fn transmit_drops(name: &str) -> Option<u64> {
    let table = fs::read_to_string("/proc/thread-self/net/dev").ok()?;
    let line = table.lines().find_map(|line| {
        let (interface, counts) = line.split_once(':')?;
        (interface.trim() == name).then_some(counts)
    })?;
    // The received counters are bytes packets errs drop fifo frame compressed multicast. The
    // transmitted ones begin with bytes packets errs drop.
    line.split_ascii_whitespace().nth(11)?.parse().ok()
}

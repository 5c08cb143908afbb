//! Initial settings of a namespace, and of the station in it.

use std::fs;
use std::io::ErrorKind;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use rustix::io::Errno;
use timeloom_sys::interface::Interface;

use crate::ipv6::give_ipv6;
use crate::netlink::RouteSocket;
use crate::{KernelError, Namespace, StationSpec, ethtool, link};

/// Namespace under construction, with the sockets that configure it.
pub(crate) struct Site {
    pub(crate) namespace: Namespace,
    pub(crate) route: RouteSocket,
    /// Handle for the interface of the station. The interface itself need not exist yet.
    interface: Interface,
}

impl Site {
    /// Creates a namespace that sends and forwards no frames by itself, with its loopback interface
    /// up.
    pub(crate) fn create(name: &str) -> Result<Self, KernelError> {
        let (namespace, (route, interface)) = Namespace::create_and(name, || {
            for (key, value, optional) in SETTINGS {
                write_setting(key, value, optional)?;
            }
            let mut route = RouteSocket::open_here()?;
            route
                .change(link::up(LOOPBACK), 0)
                .map_err(|refusal| refusal.during(format!("bring up lo in `{name}`")))?;
            let interface = Interface::named(STATION_INTERFACE)
                .map_err(|error| KernelError::new(format!("open a socket in `{name}`"), error))?;
            Ok((route, interface))
        })?;
        Ok(Self {
            namespace,
            route,
            interface,
        })
    }

    /// Adds the station's addresses to its interface, and disables the offloads so that frames are
    /// as on a wire.
    pub(crate) fn settle(&mut self, station: &StationSpec) -> Result<(), KernelError> {
        self.offloads_off()?;
        // The kernel ignores an update about a neighbour for one second of real time after the
        // previous one. If virtual time skips, a whole attack can happen within that second.
        self.namespace
            .run(|| write_setting("ipv4/neigh/eth0/locktime", "0", false))??;
        let own = station.addresses.iter();
        for (address, prefix_len) in own.filter(|(address, _)| address.is_ipv4()) {
            let request = link::address(STATION_INDEX, *address, *prefix_len);
            self.route
                .change(request, NLM_F_CREATE | NLM_F_EXCL)
                .map_err(|refusal| {
                    let name = &station.name;
                    refusal.during(format!("give `{name}` the address {address}/{prefix_len}"))
                })?;
        }
        let of_ipv6 = station.of_ipv6();
        if !of_ipv6.is_empty() {
            let give = || give_ipv6(STATION_INTERFACE, &of_ipv6, None);
            self.namespace.run(give)??;
        }
        Ok(())
    }

    pub(crate) fn offloads_off(&self) -> Result<(), KernelError> {
        ethtool::offloads_off(&self.interface, STATION_INTERFACE)
    }
}

/// Writes a setting below /proc/sys/net. That directory shows the settings of the calling thread's
/// namespace.
pub(crate) fn write_setting(key: &str, value: &str, optional: bool) -> Result<(), KernelError> {
    let path = format!("/proc/sys/net/{key}");
    match fs::write(&path, value) {
        Err(error) if optional && error.kind() == ErrorKind::NotFound => Ok(()),
        outcome => outcome.map_err(|error| {
            KernelError::new(format!("write {value} to {path}"), error)
                .missing_if(&[Errno::ROFS], "/proc/sys to be writable")
                .missing_if(&[Errno::NOENT], "/proc to be mounted")
        }),
    }
}

/// Name of the interface of every station.
pub(crate) const STATION_INTERFACE: &str = "eth0";
/// Interface number of a station's interface, and the first number in the fabric namespace. Some
/// kernels add tunnel devices to every new namespace, with numbers from 2 on.
pub(crate) const STATION_INDEX: u32 = 1000;
/// Interface number of the loopback interface in every namespace.
const LOOPBACK: u32 = 1;

/// Settings, each with its value, and with true if a kernel without the setting needs no change.
const SETTINGS: [(&str, &str, bool); 6] = [
    // Disabled IPv6 sends no router solicitations, duplicate address detection or multicast
    // reports. IPv6 is enabled later on the interfaces of stations with an IPv6 address.
    ("ipv6/conf/all/disable_ipv6", "1", true),
    ("ipv6/conf/default/disable_ipv6", "1", true),
    // New namespaces inherit this setting from the machine, which may be a router.
    ("ipv4/ip_forward", "0", false),
    // If br_netfilter is loaded, bridged frames would pass through iptables.
    ("bridge/bridge-nf-call-iptables", "0", true),
    ("bridge/bridge-nf-call-ip6tables", "0", true),
    ("bridge/bridge-nf-call-arptables", "0", true),
];

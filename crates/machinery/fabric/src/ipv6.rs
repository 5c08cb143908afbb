//! IPv6 on one interface, configured such that the kernel sends almost no messages by itself.
//!
//! By default, a kernel with IPv6 solicits routers, probes for duplicates of its addresses, and
//! accepts new addresses from routers, at unpredictable instants. This module disables all of this:
//! addresses, including the link-local one (`fe80::`), are configured explicitly and are valid at
//! once. Only the reports about joined multicast groups (MLD, RFC 3810) cannot be disabled. The
//! kernel sends them twice, milliseconds after the address was configured ([`wait_until_quiet`]).
//!
//! Stations without an IPv6 address have IPv6 disabled (`station.rs`).

use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::thread::sleep;
use std::time::{Duration, Instant};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::io::Errno;
use timeloom_sys::interface::Interface;

use crate::namespace::on_thread;
use crate::netlink::RouteSocket;
use crate::station::write_setting;
use crate::{KernelError, Namespace, link};

/// Enables IPv6 on `interface` in the namespace of the calling thread, and adds the interface's
/// link-local address and the given addresses. The default route leads to `gateway`.
///
/// # Errors
/// Fails if the kernel has no IPv6, or refuses a step.
pub fn give_ipv6(
    interface: &str,
    addresses: &[(Ipv6Addr, u8)],
    gateway: Option<Ipv6Addr>,
) -> Result<(), KernelError> {
    let failed = |step: &str| {
        let action = format!("{step} of {interface}");
        move |error| KernelError::new(action, error)
    };
    for (key, value) in QUIET {
        let key = format!("ipv6/conf/{interface}/{key}");
        write_setting(&key, value, false).map_err(|error| {
            error.missing_if(&[Errno::NOENT], "IPv6 in the kernel (CONFIG_IPV6)")
        })?;
    }
    // The loopback interface is included, for connections of a program to its own host.
    for own in ["lo", interface] {
        write_setting(&format!("ipv6/conf/{own}/disable_ipv6"), "0", false)?;
    }
    let card = Interface::named(interface).map_err(failed("query the interface"))?;
    let number = card.index().map_err(failed("query the interface"))?;
    let mac = card.mac().map_err(failed("query the interface"))?;
    let mut route = RouteSocket::open_here()?;
    let of_link = (of_link(mac.unwrap_or_default()), 64);
    for (address, prefix_len) in [of_link].iter().chain(addresses) {
        let request = link::address(number, IpAddr::V6(*address), *prefix_len);
        route
            .change(request, NLM_F_CREATE | NLM_F_EXCL)
            .map_err(|refusal| {
                refusal.during(format!(
                    "give {interface} the address {address}/{prefix_len}"
                ))
            })?;
    }
    if let Some(gateway) = gateway {
        let request = RouteNetlinkMessage::NewRoute(default_route(number, gateway));
        route
            .change(request, NLM_F_CREATE | NLM_F_EXCL)
            .map_err(|refusal| {
                refusal.during(format!(
                    "set the default route of {interface} to \
                {gateway}"
                ))
            })?;
    }
    Ok(())
}

/// Blocks until the kernels of all these stations have sent their group reports. They do so within
/// some 20 ms. The wait for all stations together ends after one second at the latest.
pub(crate) fn wait_until_quiet(stations: &[&Namespace]) -> Result<(), KernelError> {
    on_thread(|| {
        let deadline = Instant::now() + SAID_WITHIN;
        let (mut said, mut since) = (Vec::new(), Instant::now());
        while Instant::now() < deadline {
            let mut now = Vec::with_capacity(stations.len());
            for station in stations {
                station.enter()?;
                now.push(reports());
            }
            if now != said {
                (said, since) = (now, Instant::now());
            }
            if !said.contains(&0) && since.elapsed() > SILENCE {
                break;
            }
            sleep(Duration::from_millis(2));
        }
        Ok(())
    })
}

/// Returns the number of group reports that the kernel has sent in the calling thread's namespace.
fn reports() -> u64 {
    let counters = fs::read_to_string("/proc/thread-self/net/snmp6").unwrap_or_default();
    let line = counters
        .lines()
        .find_map(|line| line.strip_prefix("Icmp6OutMLDv2Reports"));
    line.and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}

const SAID_WITHIN: Duration = Duration::from_secs(1);
/// Time without reports after which no more are expected. It is longer than the interval between
/// the two reports, which is a little more than a tick (`mldv2_unsolicited_report_interval`).
const SILENCE: Duration = Duration::from_millis(40);

/// Returns the link-local address that follows from a MAC address (RFC 4291, appendix A).
fn of_link([a, b, c, d, e, f]: [u8; 6]) -> Ipv6Addr {
    let word = |high, low| u16::from_be_bytes([high, low]);
    Ipv6Addr::new(
        0xfe80,
        0,
        0,
        0,
        word(a ^ 2, b),
        word(c, 0xff),
        word(0xfe, d),
        word(e, f),
    )
}

fn default_route(interface: u32, gateway: Ipv6Addr) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet6;
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = RouteProtocol::Static;
    message.header.scope = RouteScope::Universe;
    message.header.kind = RouteType::Unicast;
    message.attributes = vec![
        RouteAttribute::Gateway(RouteAddress::Inet6(gateway)),
        RouteAttribute::Oif(interface),
    ];
    message
}

/// Settings below `conf/INTERFACE`, with their values; see Linux,
/// Documentation/networking/ip-sysctl.rst.
const QUIET: [(&str, &str); 7] = [
    ("accept_ra", "0"),
    ("autoconf", "0"),
    ("router_solicitations", "0"),
    ("accept_dad", "0"),
    ("dad_transmits", "0"),
    // The link-local address is added explicitly, because the kernel would probe for duplicates of
    // one that it adds itself.
    ("addr_gen_mode", "1"),
    ("mldv2_unsolicited_report_interval", "1"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_link_is_made_of_the_mac_address() {
        let own = of_link([0x02, 0x10, 0x20, 0x30, 0x40, 0x50]);
        assert_eq!(own.to_string(), "fe80::10:20ff:fe30:4050");
    }
}

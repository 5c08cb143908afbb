//! Virtual machine that shares a station's cable and has its own addresses.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use timeloom_sys::interface::{Interface, highest_index};
use timeloom_sys::tap;

use crate::ipv6::give_ipv6;
use crate::netlink::RouteSocket;
use crate::station::{STATION_INTERFACE, write_setting};
use crate::{FabricError, KernelError, Namespace, StationSpec, link};
use timeloom_wire::MacAddress;

/// Network interface for the virtual machine. The emulator opens it by this name.
pub const MACHINE_INTERFACE: &str = "tap0";

/// Name that the station's former `eth0` gets when a machine is attached.
const CABLE: &str = "wire0";

impl Namespace {
    /// Adds a bridge at the end of the station's cable. The bridge joins the station and a TAP
    /// device ([`MACHINE_INTERFACE`]) for a virtual machine. The station keeps its addresses and
    /// its route. Its interface is still called `eth0`, but is now the bridge.
    ///
    /// # Errors
    /// Fails if the kernel refuses a step, or if the station has no `eth0`.
    pub fn attach_machine(&self, station: &StationSpec) -> Result<(), FabricError> {
        let title = |step: &str| format!("{step} of `{}`", self.name());
        self.run(|| {
            let failed = |step: &str| {
                let action = title(step);
                move |error| KernelError::new(action, error)
            };
            let cable =
                Interface::named(STATION_INTERFACE).map_err(failed("query the interface"))?;
            let number = cable.index().map_err(failed("query the interface"))?;
            let mac = cable.mac().map_err(failed("query the interface"))?;
            let mac = MacAddress(mac.unwrap_or_default());
            // Removing the address from the interface also removes the route.
            let gateway = gateway().map_err(failed("read the routes"))?;
            let gateway_of_ipv6 = ipv6_gateway();
            let mut route = RouteSocket::open_here()?;
            let mut change = |step: &str, request, flags| {
                let changed = route.change(request, flags);
                changed.map_err(|refusal| refusal.during(title(step)))
            };
            change("take down the interface", link::down(number), 0)?;
            cable
                .set_address(Ipv4Addr::UNSPECIFIED)
                .map_err(failed("remove the address from the interface"))?;
            change("rename the interface", link::rename(number, CABLE), 0)?;

            let card = tap::create_lasting(MACHINE_INTERFACE, false);
            drop(card.map_err(failed("create the machine's TAP interface"))?);
            let machine = Interface::named(MACHINE_INTERFACE).and_then(|it| it.index());
            let machine = machine.map_err(failed("query the machine's interface"))?;
            // As for the station, the kernel must not send frames that no program sent.
            let _ = fs::write(
                format!("/proc/sys/net/ipv6/conf/{MACHINE_INTERFACE}/disable_ipv6"),
                "1",
            );
            let switch = highest_index() + 1;
            let made = link::bridge(switch, STATION_INTERFACE, mac);
            change("create the bridge", made, NLM_F_CREATE | NLM_F_EXCL)?;
            for port in [number, machine] {
                change("attach a port to the bridge", link::plug(port, switch), 0)?;
                change("bring up a port of the bridge", link::up(port), 0)?;
            }
            // As for a station's interface, updates about a neighbour take effect at once.
            write_setting("ipv4/neigh/eth0/locktime", "0", false)?;
            let own = station.addresses.iter();
            for (address, prefix_len) in own.filter(|(address, _)| address.is_ipv4()) {
                let given = link::address(switch, *address, *prefix_len);
                change("restore the address", given, NLM_F_CREATE | NLM_F_EXCL)?;
            }
            if let Some(gateway) = gateway {
                let card = Interface::named(STATION_INTERFACE);
                card.and_then(|card| card.set_default_route(gateway))
                    .map_err(failed("restore the default route"))?;
            }
            let of_ipv6 = station.of_ipv6();
            if !of_ipv6.is_empty() {
                // Otherwise the cable's interface would continue to answer requests for these
                // addresses.
                write_setting(&format!("ipv6/conf/{CABLE}/disable_ipv6"), "1", false)?;
                give_ipv6(STATION_INTERFACE, &of_ipv6, gateway_of_ipv6)?;
            }
            Ok::<_, KernelError>(())
        })??;
        Ok(())
    }
}

/// Returns the default gateway in the namespace of the calling thread, if there is one.
fn gateway() -> std::io::Result<Option<Ipv4Addr>> {
    let table = fs::read_to_string("/proc/thread-self/net/route")?;
    Ok(table.lines().skip(1).find_map(default_of))
}

/// Returns the gateway if the line is a default route. A line is `eth0 00000000 0100000A …`:
/// interface, destination and gateway, in this machine's byte order.
fn default_of(line: &str) -> Option<Ipv4Addr> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (destination, gateway) = (words.next()?, words.next()?);
    let gateway = u32::from_str_radix(gateway, 16).ok()?;
    (destination == "00000000" && gateway != 0).then(|| Ipv4Addr::from(gateway.to_ne_bytes()))
}

/// Returns the default gateway for IPv6; `None` without one, or if IPv6 is off.
fn ipv6_gateway() -> Option<Ipv6Addr> {
    let table = fs::read_to_string("/proc/thread-self/net/ipv6_route").ok()?;
    table.lines().find_map(default_of_ipv6)
}

/// Returns the gateway if the line is a default route. A line has destination, prefix, source, its
/// prefix, gateway and more, in hexadecimal digits without colons.
fn default_of_ipv6(line: &str) -> Option<Ipv6Addr> {
    let words: Vec<&str> = line.split_ascii_whitespace().take(5).collect();
    let [destination, "00", _, _, gateway] = words[..] else {
        return None;
    };
    let bits = |word| u128::from_str_radix(word, 16).ok();
    let (0, gateway) = (bits(destination)?, bits(gateway)?) else {
        return None;
    };
    (gateway != 0).then(|| Ipv6Addr::from_bits(gateway))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_route_is_found_and_others_are_not() {
        let line = "eth0\t00000000\t0101000A\t0003\t0\t0\t0\t00000000\t0\t0\t0";
        assert_eq!(default_of(line), Some(Ipv4Addr::new(10, 0, 1, 1)));
        let near = "eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0";
        assert_eq!(default_of(near), None);
        assert_eq!(default_of(""), None);
    }

    #[test]
    fn that_of_ipv6_is_found_too() {
        let zeros = "0".repeat(32);
        let gateway = "fd000000000000010000000000000001";
        let line = format!("{zeros} 00 {zeros} 00 {gateway} 00000400 1 0 00000003 eth0");
        assert_eq!(default_of_ipv6(&line), "fd00:0:0:1::1".parse().ok());
        for other in [
            format!("{zeros} 00 {zeros} 00 {zeros} ffffffff 1 0 00200200 lo"),
            format!("{gateway} 40 {zeros} 00 {zeros} 00000100 1 0 00000001 eth0"),
            String::new(),
        ] {
            assert_eq!(default_of_ipv6(&other), None, "{other}");
        }
    }
}

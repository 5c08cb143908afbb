//! Checks of real switches in a simulated network, and of the uplinks between the two.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{Rules, at};
use crate::plan::{Link, Medium};

pub(super) fn check(rules: &mut Rules<'_>) {
    let plan = rules.plan;
    let readable = rules.was_read(&["system"]) && rules.was_read(&["network"]);
    if plan.network.is_none() || plan.system.openflow.is_none() || !readable {
        return;
    }
    let switches: BTreeSet<&str> = plan.system.switches.iter().map(String::as_str).collect();
    let mut part: BTreeMap<&str, &str> = switches.iter().map(|name| (*name, *name)).collect();
    for (index, link) in plan.system.links.iter().enumerate() {
        let path = at(&[], ["system", "links", &index.to_string()]);
        let medium = plan.medium(link);
        if medium == Medium::Kernel && link.wire.is_beyond_the_kernel() {
            let message = "a link of real switches can have only a `rate`";
            let help = "give the delay to the link by which they join the simulated network";
            rules.misplaced(&path, message, help);
        }
        if let Medium::Uplink { switch, node } = medium
            && !switches.contains(node)
        {
            let message = format!("`{switch}` is a real switch, and `{node}` no simulated one");
            let help = "real switches join the model at a switch of `system.switches`";
            rules.misplaced(&path, message, help);
        }
        closes_loop(rules, &mut part, link, &path);
    }
    stations(rules);
}

/// Detects loops, in which frames would circulate for ever between the model and the real switches.
/// Loops among the real switches alone are found as well.
fn closes_loop<'a>(
    rules: &mut Rules<'_>,
    part: &mut BTreeMap<&'a str, &'a str>,
    link: &'a Link,
    path: &[String],
) {
    let [a, b] = link
        .between
        .each_ref()
        .map(|name| part.get(&**name).copied());
    let (Some(a), Some(b)) = (a, b) else {
        return;
    };
    if a == b {
        let [from, to] = &link.between;
        let message = format!("the link between `{from}` and `{to}` closes a loop");
        rules.misplaced(path, message, "remove a link of the loop");
        return;
    }
    for representative in part.values_mut().filter(|other| **other == b) {
        *representative = a;
    }
}

/// Checks that each real station has a single cable, and an address that no other station has.
fn stations(rules: &mut Rules<'_>) {
    let plan = rules.plan;
    let hosts = plan.system.hosts.iter();
    let hosts = hosts.map(|(name, host)| ("hosts", name, host.address));
    let devices = plan.system.devices.iter();
    let devices = devices.map(|(name, device)| ("devices", name, device.address));
    let mut owners: BTreeMap<IpAddr, &str> = BTreeMap::new();
    for (table, name, address) in hosts.chain(devices) {
        let path = at(&[], ["system", table, name]);
        for address in address.each() {
            if let Some(owner) = owners.insert(address, name) {
                let message = format!("`{name}` and `{owner}` have the same address");
                let help = "give each node an address of its own";
                rules.broken(&at(&path, ["address"]), message, help);
            }
        }
        let cables = plan.system.links.iter();
        let cables = cables.filter(|link| link.between.contains(name)).count();
        if plan.is_real(name) && cables > 1 {
            let message = format!("`{name}` has a single interface and {cables} links");
            rules.misplaced(&path, message, "put a switch between");
        }
    }
}

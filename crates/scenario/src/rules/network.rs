//! The network: a tree of known nodes, each host and device at one end of one
//! cable, all in one subnet with an address of its own.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::{Rules, at};
use crate::suggest;
use crate::words::Ipv4Interface;

pub(super) fn check(rules: &mut Rules<'_>) {
    addresses(rules);
    // With a node or a cable unread, others would seem to be cut off.
    if rules.was_read(&["system", "switches"])
        && rules.was_read(&["system", "links", "*", "between"])
    {
        cables(rules);
    }
}

/// A network node as the cables see it.
struct Node {
    is_switch: bool,
    path: Vec<String>,
    /// The first cable that ends here.
    cable: Option<usize>,
    /// The number of the connected part that it belongs to.
    part: usize,
}

fn cables(rules: &mut Rules<'_>) {
    let system = &rules.plan.system;
    let mut nodes: BTreeMap<&str, Node> = BTreeMap::new();
    let mut add = |name, is_switch, path| {
        let part = nodes.len();
        nodes.entry(name).or_insert(Node {
            is_switch,
            path,
            cable: None,
            part,
        });
    };
    for (index, name) in system.switches.iter().enumerate() {
        add(
            name.as_str(),
            true,
            at(&[], ["system", "switches", &index.to_string()]),
        );
    }
    for name in system.hosts.keys() {
        add(name.as_str(), false, at(&[], ["system", "hosts", name]));
    }
    for name in system.devices.keys() {
        add(name.as_str(), false, at(&[], ["system", "devices", name]));
    }

    let mut all_joined = true;
    for (index, link) in system.links.iter().enumerate() {
        let path = at(&[], ["system", "links", &index.to_string(), "between"]);
        all_joined &= join(rules, &mut nodes, link.between.each_ref(), index, &path);
    }
    // A single node needs no network: the simplest scenario has one program.
    if nodes.len() > 1 && all_joined {
        connected(rules, &nodes);
    }
}

/// Lays one cable; false when it could not be laid.
fn join(
    rules: &mut Rules<'_>,
    nodes: &mut BTreeMap<&str, Node>,
    ends: [&String; 2],
    index: usize,
    path: &[String],
) -> bool {
    let mut good = true;
    for (side, name) in ends.iter().enumerate() {
        let path = at(path, [&side.to_string()]);
        match nodes.get_mut(name.as_str()) {
            None => {
                let help = suggest::hint(name, "node", nodes.keys().copied());
                rules.broken(
                    &path,
                    format!("`{name}` is no switch, host or device"),
                    help,
                );
                good = false;
            }
            Some(node) => match node.cable {
                Some(first) if !node.is_switch => {
                    let message =
                        format!("`{name}` has a single interface and is attached already");
                    let help = format!(
                        "it is at an end of link {}; put a switch between",
                        first + 1
                    );
                    rules.broken(&path, message, help);
                    good = false;
                }
                _ => node.cable = Some(index),
            },
        }
    }
    if !good {
        return false;
    }
    let [a, b] = ends.map(|name| nodes[name.as_str()].part);
    if a == b {
        let [from, to] = ends;
        let message = format!("the link between `{from}` and `{to}` closes a loop");
        let help = "a frame would circle for ever, since the switches run no spanning tree: remove a link of the loop";
        rules.broken(path, message, help);
        return false;
    }
    for node in nodes.values_mut().filter(|node| node.part == b) {
        node.part = a;
    }
    true
}

fn connected(rules: &mut Rules<'_>, nodes: &BTreeMap<&str, Node>) {
    let mut parts: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for (name, node) in nodes {
        if node.cable.is_none() {
            let help = format!("add a link, as in `between = [\"{name}\", …]`");
            rules.misplaced(
                &node.path,
                format!("`{name}` is not attached to the network"),
                help,
            );
        } else {
            parts.entry(node.part).or_default().push(name);
        }
    }
    let mut parts: Vec<Vec<&str>> = parts.into_values().collect();
    parts.sort_by_key(|members| std::cmp::Reverse(members.len()));
    for cut_off in parts.iter().skip(1) {
        let message = format!("no link leads from {} to the rest", cut_off.join(", "));
        let help = "the network must be connected: add a link between two switches";
        rules.misplaced(&nodes[cut_off[0]].path, message, help);
    }
}

fn addresses(rules: &mut Rules<'_>) {
    let system = &rules.plan.system;
    let hosts = system
        .hosts
        .iter()
        .map(|(name, host)| ("hosts", name, host.address));
    let devices = system
        .devices
        .iter()
        .map(|(name, device)| ("devices", name, device.address));
    let all: Vec<(Vec<String>, &String, Ipv4Interface)> = hosts
        .chain(devices)
        .map(|(table, name, address)| (at(&[], ["system", table, name, "address"]), name, address))
        .filter(|(path, ..)| rules.report.was_read(path))
        .collect();

    let mut owners: BTreeMap<Ipv4Addr, &str> = BTreeMap::new();
    let mut subnets: BTreeMap<(Ipv4Addr, u8), usize> = BTreeMap::new();
    for (path, name, address) in &all {
        *subnets
            .entry((address.network(), address.prefix))
            .or_default() += 1;
        if let Some(owner) = owners.get(&address.address) {
            let message = format!("`{name}` and `{owner}` have the same address");
            rules.broken(path, message, "give each node an address of its own");
        } else {
            owners.insert(address.address, name);
        }
    }
    // The majority is right, so that one slip is one mistake.
    let Some((&(network, prefix), _)) = subnets
        .iter()
        .max_by_key(|(subnet, count)| (**count, std::cmp::Reverse(**subnet)))
    else {
        return;
    };
    for (path, name, address) in &all {
        if (address.network(), address.prefix) != (network, prefix) {
            let message = format!("`{name}` is not in the subnet {network}/{prefix} of the others");
            rules.broken(
                path,
                message,
                "there is no router: all addresses share one subnet",
            );
        }
    }
}

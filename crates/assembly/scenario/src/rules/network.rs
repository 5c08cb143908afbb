//! Checks of the network. Its nodes must exist and form a tree, in which each host and device is at
//! the end of a single cable. All hosts and devices must be in one subnet, and have unique
//! addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;

use timeloom_time::Duration;

use super::{Rules, at};
use crate::MachineChecks;
use crate::plan::{Generate, Shape, Wire};
use crate::table::span;
use crate::words::Addresses;

pub(super) fn check(rules: &mut Rules<'_>, machine: MachineChecks) {
    if !rules.was_read(&["network"]) {
        return;
    }
    if rules.plan.network.is_some() {
        return simulated(rules, machine);
    }
    kernel_links(rules);
    addresses(rules);
    // If a node or a cable could not be read, other nodes would seem disconnected.
    if rules.was_read(&["system", "switches"])
        && rules.was_read(&["system", "links", "*", "between"])
    {
        cables(rules);
    }
}

/// Builds the simulated network, to check that it can be built.
fn simulated(rules: &mut Rules<'_>, machine: MachineChecks) {
    let plan = rules.plan;
    properties(rules);
    let Some(network) = &plan.network else { return };
    let looks_at_disk = network.topology.is_some();
    if !rules.was_read(&["system"]) || looks_at_disk && machine == MachineChecks::Ignored {
        return;
    }
    // Values that could not be read would cause further mistakes that the file does not have.
    if !rules.report.is_clean() {
        return;
    }
    match plan.simulated() {
        Some(Ok(built)) => rules.network = Some(built.names),
        Some(Err(fault)) if fault.is_table => {
            rules.misplaced(&fault.path, fault.message, fault.help);
        }
        Some(Err(fault)) => rules.broken(&fault.path, fault.message, fault.help),
        None => {}
    }
}

/// Reports properties that are invalid for any link.
fn properties(rules: &mut Rules<'_>) {
    let plan = rules.plan;
    let Some(network) = &plan.network else { return };
    let mut wires = vec![(at(&[], ["network", "link"]), network.link)];
    for (index, link) in plan.system.links.iter().enumerate() {
        wires.push((at(&[], ["system", "links", &index.to_string()]), link.wire));
    }
    for (index, generate) in network.generate.iter().enumerate() {
        let path = at(&[], ["network", "generate", &index.to_string()]);
        wires.push((at(&path, ["access"]), generate.access));
        wires.push((at(&path, ["trunk"]), generate.trunk));
        for (key, value) in [("size", generate.size), ("fanout", generate.fanout)] {
            if value < Generate::LEAST && rules.part_was_read(&path, key) {
                let least = Generate::LEAST;
                let message = format!("`{key}` of a topology must be at least {least}");
                let help = format!("write a number from {least} on");
                rules.broken(&at(&path, [key]), message, help);
            }
        }
        if generate.shape == Shape::FatTree && generate.size % 2 == 1 {
            let message = "the k of a fat tree must be even";
            rules.broken(&at(&path, ["size"]), message, "write an even number");
        }
        let nodes = generate.nodes();
        if nodes > MOST_NODES {
            let message = format!("this topology has about {nodes} nodes");
            let help =
                format!("at most {MOST_NODES} are possible: make `size` or `fanout` smaller");
            rules.broken(&at(&path, ["size"]), message, help);
        }
    }
    for (path, wire) in wires {
        if wire.loss.is_some_and(|loss| !Wire::LOSSES.contains(&loss)) {
            let bounds = span(&Wire::LOSSES);
            let help = format!("a probability must lie in {bounds}; 1 % is 0.01");
            rules.broken(&at(&path, ["loss"]), "this is not a probability", help);
        }
        if wire.mtu.is_some_and(|mtu| mtu < Wire::LEAST_MTU) {
            let least = Wire::LEAST_MTU;
            let help = format!("an IPv4 link needs an MTU of at least {least} bytes (RFC 791)");
            rules.broken(&at(&path, ["mtu"]), "this MTU is too small", help);
        }
        let discipline = wire.or(network.link).discipline.unwrap_or_default();
        if wire.ecn == Some(true) && !discipline.can_mark() {
            let help = "add `discipline = \"red\"` or `\"codel\"`";
            let message = "this queue cannot mark packets, because it drops none early";
            rules.broken(&at(&path, ["ecn"]), message, help);
        }
        for (key, value) in [("delay", wire.delay), ("jitter", wire.jitter)] {
            if value.is_some_and(Duration::is_negative) {
                let message = format!("`{key}` is negative");
                rules.broken(
                    &at(&path, [key]),
                    message,
                    "a packet cannot arrive before it is sent",
                );
            }
        }
    }
}

/// Maximum number of nodes. A run has a table with a few bytes for each pair of routers.
const MOST_NODES: u64 = 100_000;

/// Checks links of kernel objects. The supported kernels can limit the rate, and nothing else.
fn kernel_links(rules: &mut Rules<'_>) {
    for (index, link) in rules.plan.system.links.iter().enumerate() {
        if link.wire.is_beyond_the_kernel() {
            let path = at(&[], ["system", "links", &index.to_string()]);
            let message = "a link of kernel parts can have only a `rate`";
            let help = "add the table `[network]`, and the network is simulated";
            rules.misplaced(&path, message, help);
        }
        if link.name.is_some() {
            let path = at(&[], ["system", "links", &index.to_string(), "name"]);
            let message = "a link of kernel parts is called after its ends";
            rules.broken(
                &path,
                message,
                "leave out `name`, or add the table `[network]`",
            );
        }
    }
}

/// Node of the network, with its cables.
struct Node {
    is_switch: bool,
    path: Vec<String>,
    /// Index of the first cable that ends at the node; `None` if there is none yet.
    cable: Option<usize>,
    /// Index of the node in the union-find structure.
    number: usize,
}

/// Connected components of the nodes, as a union-find structure. Each entry is the index of its
/// parent; a root is its own parent.
struct Parts(Vec<usize>);

impl Parts {
    /// Returns the root of a node's component.
    fn last(&mut self, mut number: usize) -> usize {
        while self.0[number] != number {
            // Path compression: the entry now points to its grandparent.
            self.0[number] = self.0[self.0[number]];
            number = self.0[number];
        }
        number
    }

    /// Merges the components of two nodes. Returns false if the two were already in one component.
    fn join(&mut self, [a, b]: [usize; 2]) -> bool {
        let (a, b) = (self.last(a), self.last(b));
        self.0[b] = a;
        a != b
    }
}

fn cables(rules: &mut Rules<'_>) {
    let system = &rules.plan.system;
    let mut nodes: BTreeMap<&str, Node> = BTreeMap::new();
    let mut add = |name, is_switch, path| {
        let number = nodes.len();
        nodes.entry(name).or_insert(Node {
            is_switch,
            path,
            cable: None,
            number,
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

    let mut parts = Parts((0..nodes.len()).collect());
    let mut all_joined = true;
    for (index, link) in system.links.iter().enumerate() {
        let path = at(&[], ["system", "links", &index.to_string(), "between"]);
        let ends = link.between.each_ref();
        all_joined &= join(rules, (&mut nodes, &mut parts), ends, index, &path);
    }
    // A single node needs no network, because the simplest scenario has one host with one program.
    if nodes.len() > 1 && all_joined {
        connected(rules, &nodes, &mut parts);
    }
}

/// Adds a cable. Reports a mistake and returns false if the cable is invalid.
fn join(
    rules: &mut Rules<'_>,
    (nodes, parts): (&mut BTreeMap<&str, Node>, &mut Parts),
    ends: [&String; 2],
    index: usize,
    path: &[String],
) -> bool {
    let mut good = true;
    for (side, name) in ends.iter().enumerate() {
        let path = at(path, [&side.to_string()]);
        match nodes.get_mut(name.as_str()) {
            None => {
                let help = rules.hint(name, "node", nodes.keys().copied());
                rules.broken(
                    &path,
                    format!("`{name}` is not a switch, host or device"),
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
    if !parts.join(ends.map(|name| nodes[name.as_str()].number)) {
        let [from, to] = ends;
        let message = format!("the link between `{from}` and `{to}` closes a loop");
        let help = "a frame would circulate for ever, since the switches run no spanning tree: \
            remove a link of the loop";
        rules.broken(path, message, help);
        return false;
    }
    true
}

fn connected(rules: &mut Rules<'_>, nodes: &BTreeMap<&str, Node>, parts: &mut Parts) {
    let mut members: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for (name, node) in nodes {
        if node.cable.is_none() {
            let help = format!("add a link, as in `between = [\"{name}\", …]`");
            rules.misplaced(
                &node.path,
                format!("`{name}` is not attached to the network"),
                help,
            );
        } else {
            let part = members.entry(parts.last(node.number)).or_default();
            part.push(name);
        }
    }
    let mut parts: Vec<Vec<&str>> = members.into_values().collect();
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
    let all: Vec<(Vec<String>, &String, Addresses)> = hosts
        .chain(devices)
        .map(|(table, name, address)| (at(&[], ["system", table, name, "address"]), name, address))
        .filter(|(path, ..)| rules.report.was_read(path))
        .collect();

    let mut owners: BTreeMap<IpAddr, &str> = BTreeMap::new();
    let mut subnets: BTreeMap<(IpAddr, u8), usize> = BTreeMap::new();
    for (path, name, addresses) in &all {
        for subnet in addresses.networks() {
            *subnets.entry(subnet).or_default() += 1;
        }
        for address in addresses.each() {
            if let Some(owner) = owners.get(&address) {
                let message = format!("`{name}` and `{owner}` have the same address");
                rules.broken(path, message, "give each node an address of its own");
            } else {
                owners.insert(address, name);
            }
        }
    }
    for is_v6 in [false, true] {
        // The subnet of the majority is taken as correct, so that one wrong address is one mistake.
        let own = subnets.iter().filter(|((it, _), _)| it.is_ipv6() == is_v6);
        let most = own.max_by_key(|(subnet, count)| (**count, std::cmp::Reverse(**subnet)));
        let Some((&(network, prefix), _)) = most else {
            continue;
        };
        for (path, name, addresses) in &all {
            let mut own = addresses.networks().filter(|(it, _)| it.is_ipv6() == is_v6);
            if own.any(|subnet| subnet != (network, prefix)) {
                let message =
                    format!("`{name}` is not in the subnet {network}/{prefix} of the others");
                rules.broken(
                    path,
                    message,
                    "there is no router: all addresses share one subnet",
                );
            }
        }
    }
}

//! Last step of building a network: segments, addresses, routes, and initial state.

use std::collections::HashMap;
use std::sync::Arc;

use timeloom_time::convert::{low_u8, low_u32, low_u64, number_of};

use crate::build::{NodeKind, Plan};
use crate::error::BuildError;
use crate::fluid::Fluid;
use crate::ids::NodeRole;
use crate::packet::{NIL, PortId};
use crate::route::{Edge, Hop, Routes};
use crate::segment::Segments;
use crate::tables::address::{Book, Family};
use crate::tables::arp::ArpCache;
use crate::tables::changes::Changes;
use crate::tables::crossings::Crossings;
use crate::tables::kernel_timers::KernelTimers;
use crate::tables::links::Links;
use crate::tables::outside::Outside;
use crate::tables::ports::{Port, Ports};
use crate::tables::residents::Residents;
use crate::tables::router::Router;
use crate::tables::slab::Slab;
use crate::tables::sparse::Sparse;
use crate::tables::stats::Counters;
use crate::tables::switch::Switch;
use crate::world::World;

impl World {
    pub(crate) fn from_plan(plan: Plan) -> Result<Self, BuildError> {
        let segments = Segments::find(&plan)?;
        let v4 = assign(&plan, &segments, Family::V4)?.into_iter();
        let v4 = v4
            .map(|(bits, prefix)| (low_u32(low_u64(bits)), prefix))
            .collect();
        let v6 = assign(&plan, &segments, Family::V6)?;
        let addresses = (Book::new(Family::V4, v4), Book::new(Family::V6, v6));
        let (roles, router_count, switches) = roles(&plan);
        let edges = edges(&plan, &segments, &roles, router_count);
        let mut routers: Vec<Router> = (0..router_count).map(Router::new).collect();
        let mut arps = Vec::new();
        let mut ports = Vec::with_capacity(plan.ports());
        for index in 0..number_of(plan.ports()) {
            let port = PortId(index);
            let segment = segments.of_port[port.index()];
            let lan = segment != NIL && segments.is_lan[segment as usize];
            if lan {
                arps.push(ArpCache::default());
                if let NodeRole::Router(router) = roles[plan.owner(port).0 as usize] {
                    routers[router as usize].add_lan(segment, port);
                }
            }
            ports.push(Port {
                node: plan.owner(port).0,
                peer_node: plan.owner(port.peer()).0,
                segment,
                target: target(&plan, &segments, &roles, segment),
                arp: if lan { number_of(arps.len()) - 1 } else { NIL },
            });
        }
        for route in &plan.statics {
            let hop = neighbour(&plan, &segments, route.at.0, route.through.0)?;
            let (network, length) = route.prefix;
            if let NodeRole::Router(router) = roles[route.at.0 as usize] {
                routers[router as usize].add_static(network, length, hop);
            }
        }
        let gateways = gateways(&plan, &segments, &roles);
        Ok(Self {
            seed: plan.seed,
            ports: Ports::new(ports, addresses, first_ports(&plan), gateways),
            roles: roles.into(),
            outside: Outside::new(plan.nodes.len()),
            links: Links::new(plan.seed, plan.kinds, plan.kind_of),
            changes: Changes::default(),
            packets: Slab::new(),
            routes: Arc::new(Routes::shortest(&edges)),
            routers: routers.into(),
            switches,
            arps: arps.into(),
            flows: Sparse::default(),
            sources: Sparse::default(),
            lines: None,
            counters: Counters::default(),
            crossings: Crossings::default(),
            icmp_limits: crate::tables::icmp_limit::IcmpLimits::default(),
            residents: Residents::default(),
            fluid: Fluid::default(),
            kernel_timers: KernelTimers::default(),
            names: plan.nodes.into_iter().map(|node| node.name).collect(),
        })
    }
}

fn first_ports(plan: &Plan) -> Vec<PortId> {
    let first = |ports: &Vec<PortId>| ports.first().copied().unwrap_or(PortId::NONE);
    plan.nodes.iter().map(|node| first(&node.ports)).collect()
}

fn roles(plan: &Plan) -> (Vec<NodeRole>, u32, Vec<Switch>) {
    let mut routers = 0;
    let mut switches = Vec::new();
    let roles = plan.nodes.iter().map(|node| match node.kind {
        NodeKind::Host => NodeRole::Host,
        NodeKind::Router => {
            routers += 1;
            NodeRole::Router(routers - 1)
        }
        NodeKind::Switch => {
            let ports = node.ports.iter();
            let ports = ports.map(|port| (*port, plan.mode(*port).clone()));
            switches.push(Switch::new(ports.collect()));
            NodeRole::Switch(number_of(switches.len()) - 1)
        }
    });
    (roles.collect(), routers, switches)
}

/// Assigns an address to every interface: the configured one, or the next unused one of the common
/// pool, within the prefix of its segment. Interfaces have IPv6 addresses only if one was
/// configured. The result is indexed by port; 0 means no address.
fn assign(plan: &Plan, segments: &Segments, family: Family) -> Result<Vec<(u128, u8)>, BuildError> {
    let given = &plan.addresses[family as usize];
    if family == Family::V6 && given.is_empty() {
        return Ok(Vec::new());
    }
    let mut addresses = vec![(0, 0); plan.ports()];
    let mut owners: HashMap<u128, PortId> = HashMap::new();
    let mut given: Vec<_> = given.iter().collect();
    given.sort_by_key(|(port, _)| **port);
    for (port, (address, prefix)) in given {
        if let Some(other) = owners.insert(*address, *port) {
            let (a, b) = (plan.name(other), plan.name(*port));
            return Err(BuildError::AddressConflict(family.address(*address), a, b));
        }
        addresses[port.index()] = (*address, *prefix);
    }
    let network_of = |(address, length): (u128, u8)| address & !family.host_mask(length);
    let taken = given_networks(plan, segments, family, &addresses)?;
    let Pool { mut next, end } = Pool::of(family);
    for members in &segments.members {
        let mut fixed = members.iter().filter(|port| addresses[port.index()].1 != 0);
        let first = fixed.next().copied();
        let (network, length) = match first.map(|port| addresses[port.index()]) {
            Some(own) => (network_of(own), own.1),
            None => {
                let size = Pool::network(family, members.len());
                let mut network = next.next_multiple_of(size);
                while let Some(end) = reaches_into(&taken, network, size) {
                    network = (end + 1).next_multiple_of(size);
                }
                next = network + size;
                if next > end {
                    return Err(BuildError::TooLarge);
                }
                (
                    network,
                    family.width() - low_u8(size.trailing_zeros().into()),
                )
            }
        };
        let is_elsewhere = |port: &&PortId| {
            let (address, _) = addresses[port.index()];
            network_of((address, length)) != network
        };
        if let (Some(first), Some(other)) = (first, fixed.find(is_elsewhere)) {
            return Err(BuildError::MixedPrefixes(
                plan.name(first),
                plan.name(*other),
            ));
        }
        let mut host = network;
        for port in members {
            if addresses[port.index()].1 == 0 && !goes_without(plan, *port, family) {
                host += 1;
                while owners.contains_key(&host) {
                    host += 1;
                }
                if network_of((host, length)) != network {
                    return Err(BuildError::TooLarge);
                }
                owners.insert(host, *port);
                addresses[port.index()] = (host, length);
            }
        }
    }
    Ok(addresses)
}

/// Returns true for a host with a configured address of the other family and none of this one.
fn goes_without(plan: &Plan, port: PortId, family: Family) -> bool {
    let has = |family: Family| plan.addresses[family as usize].contains_key(&port);
    let [v4, v6] = Family::BOTH.map(has);
    let has_other = match family {
        Family::V4 => v6 && !v4,
        Family::V6 => v4 && !v6,
    };
    has_other && plan.node(port).kind == NodeKind::Host
}

/// Pool of addresses for interfaces without a configured address: 10.0.0.0/8 for IPv4, and
/// fd54:4c00::/32 for IPv6, which is reserved for use within a site (RFC 4193).
struct Pool {
    next: u128,
    end: u128,
}

impl Pool {
    fn of(family: Family) -> Self {
        let (next, end) = match family {
            Family::V4 => (10 << 24, 11 << 24),
            Family::V6 => (0xfd54_4c00 << 96, 0xfd54_4c01 << 96),
        };
        Self { next, end }
    }

    /// Returns the number of addresses that a network with `stations` stations needs.
    fn network(family: Family, stations: usize) -> u128 {
        match family {
            // The network address and the broadcast address cannot be assigned to interfaces.
            Family::V4 => (stations as u128 + 2).next_power_of_two(),
            Family::V6 => 1 << 64,
        }
    }
}

/// Returns the networks of all configured addresses, as ordered ranges. Stations regard all
/// addresses of such a range as neighbours, so a network cannot be in two places.
fn given_networks(
    plan: &Plan,
    segments: &Segments,
    family: Family,
    addresses: &[(u128, u8)],
) -> Result<Vec<(u128, u128)>, BuildError> {
    let given = segments.members.iter().filter_map(|members| {
        let mut members = members.iter();
        let port = *members.find(|port| addresses[port.index()].1 != 0)?;
        let (address, length) = addresses[port.index()];
        let hosts = family.host_mask(length);
        Some((address & !hosts, address | hosts, port))
    });
    let mut given: Vec<_> = given.collect();
    given.sort_unstable();
    for pair in given.windows(2) {
        let ((_, end, a), (begin, _, b)) = (pair[0], pair[1]);
        if begin <= end {
            return Err(BuildError::SplitNetwork(plan.name(a), plan.name(b)));
        }
    }
    Ok(given.iter().map(|(begin, end, _)| (*begin, *end)).collect())
}

/// Returns the end of the range in `taken` that overlaps the `size` addresses from `network` on.
fn reaches_into(taken: &[(u128, u128)], network: u128, size: u128) -> Option<u128> {
    let place = taken.partition_point(|(_, end)| *end < network);
    let (begin, end) = taken.get(place)?;
    (*begin < network + size).then_some(*end)
}

/// Returns the router that serves a segment: the one with the lowest number on it.
fn target(plan: &Plan, segments: &Segments, roles: &[NodeRole], segment: u32) -> u32 {
    if segment == NIL {
        return NIL;
    }
    let members = segments.members[segment as usize].iter();
    let routers = members.filter_map(|port| match roles[plan.owner(*port).0 as usize] {
        NodeRole::Router(router) => Some(router),
        _ => None,
    });
    routers.min().unwrap_or(NIL)
}

/// Returns the gateway of each host: among the routers on its segment, the interface with the
/// lowest port number.
fn gateways(plan: &Plan, segments: &Segments, roles: &[NodeRole]) -> Vec<PortId> {
    let is_router =
        |port: &&PortId| matches!(roles[plan.owner(**port).0 as usize], NodeRole::Router(_));
    let gateway = |port: &PortId| {
        let segment = segments.of_port[port.index()];
        let members = segments.members.get(segment as usize)?;
        members.iter().find(is_router).copied()
    };
    let nodes = plan.nodes.iter();
    nodes
        .map(|node| match (node.kind, node.ports.first()) {
            (NodeKind::Host, Some(port)) => gateway(port).unwrap_or(PortId::NONE),
            _ => PortId::NONE,
        })
        .collect()
}

fn edges(plan: &Plan, segments: &Segments, roles: &[NodeRole], routers: u32) -> Vec<Vec<Edge>> {
    let mut edges = vec![Vec::new(); routers as usize];
    for members in &segments.members {
        let here: Vec<(PortId, u32)> = members
            .iter()
            .filter_map(|port| match roles[plan.owner(*port).0 as usize] {
                NodeRole::Router(router) => Some((*port, router)),
                _ => None,
            })
            .collect();
        for &(port, from) in &here {
            for &(via, to) in here.iter().filter(|(_, to)| *to != from) {
                edges[from as usize].push(Edge {
                    to,
                    hop: Hop { port, via },
                    cost: plan.link(port).cost,
                });
            }
        }
    }
    edges
}

/// Returns the hop from node `at` to node `through` on a common segment.
fn neighbour(plan: &Plan, segments: &Segments, at: u32, through: u32) -> Result<Hop, BuildError> {
    for &port in &plan.nodes[at as usize].ports {
        let segment = segments.of_port[port.index()];
        let members = segments.members.get(segment as usize);
        let mut members = members.into_iter().flatten();
        if let Some(via) = members.find(|other| plan.owner(**other).0 == through) {
            return Ok(Hop { port, via: *via });
        }
    }
    let name = |node: u32| plan.nodes[node as usize].name.clone();
    Err(BuildError::NotANeighbour(name(at), name(through)))
}
